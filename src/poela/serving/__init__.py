"""What uses a learned policy: decisions for tables, ONNX graphs, MLflow models, an HTTP server."""
