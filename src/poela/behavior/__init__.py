"""Who made the logs: estimators of the logging policy."""
