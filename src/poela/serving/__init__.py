"""Policies where decisions are made: ONNX graphs, MLflow models, and an HTTP server."""
