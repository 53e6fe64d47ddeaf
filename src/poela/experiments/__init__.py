"""Tables and figures of the paper, as data."""
