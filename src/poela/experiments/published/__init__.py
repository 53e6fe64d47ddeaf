"""The numbers of the paper's tables and figures, as data."""
