"""Environments with a known truth, over one vectorised core."""
