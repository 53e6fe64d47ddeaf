"""The sections of a study's page, in the order in which they are read."""
