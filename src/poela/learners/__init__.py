"""Learners: small frozen settings with `fit(train, seed) -> Policy`."""
