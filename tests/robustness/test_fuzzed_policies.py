"""A few hundred cases of the search for policies that load and then fail; `fuzz_policies.py` searches for longer."""

from math import inf

from tests.robustness.fuzz_policies import fuzz
from tests.robustness.seeds import seed


def test_randomly_changed_policies_work_or_are_refused() -> None:
    counts = fuzz(seconds=inf, seed=seed(), most=300)
    assert counts["refused"] > 50
    assert counts["worked"] > 0
