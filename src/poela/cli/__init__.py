"""The command line: `poela simulate · learn · evaluate · report · export · reproduce`."""
