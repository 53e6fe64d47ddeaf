"""What every room needs: arrays and their checks, ragged sums, the policy protocol, safe files."""
