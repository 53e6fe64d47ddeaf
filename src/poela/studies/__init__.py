"""Grids of candidates, honest selection, and the directory that keeps them."""
