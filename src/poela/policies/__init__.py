"""The few implementations of a policy, and their files."""
