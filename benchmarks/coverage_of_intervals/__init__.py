"""Measured coverage of our intervals: logs with a known truth, what is found on them, and its tables."""
