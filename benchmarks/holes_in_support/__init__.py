"""Logs with holes in support: their processes with a known truth, studies of them, and tables of what came of it."""
