"""One self-contained page from a study."""
