"""The pages that are made from stored results."""
