"""Logged decisions: the one data type, and its readers."""
