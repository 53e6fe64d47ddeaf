"""Toys from outside: one of each kind of thing that can be added to poela."""
