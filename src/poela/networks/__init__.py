"""The torch modules and the one training loop that every learner shares."""
