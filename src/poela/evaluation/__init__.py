"""What a policy is worth, and whether to believe it."""
