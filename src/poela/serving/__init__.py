"""What uses a learned policy: decisions for tables, exports, servers."""
