"""A short tour of every class of hostile cases, at home another one every day; `make fuzz` takes longer ones."""

from tests.robustness.hostile_tour import CLASSES, tour
from tests.robustness.seeds import seed


def test_nothing_is_lost_leaked_or_traced_back() -> None:
    counts = tour(times=0.5, seed=seed())
    assert set(counts) == set(CLASSES)
    assert sum(counts.values()) > 1000
