"""The numbers behind every picture, computed once for the page and for figures."""
