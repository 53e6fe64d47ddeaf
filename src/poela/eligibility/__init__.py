"""Which actions are eligible at a context, and why."""
