"""Nearest logged contexts: scales, distances and the searches among them."""
