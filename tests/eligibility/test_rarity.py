"""What is missing and what is only rarer: the test by hand, and logs without a hole, which lose nothing."""

import numpy as np
import pytest
from benchmarks.holes_in_support.scenarios import scenario

from poela.core.arrays import BoolArray, FloatArray
from poela.eligibility.support import Evidence, fit_support, is_missing, limits

FEW = Evidence(enough=0, level=0.05)


def asked(low: int, taken_low: int, expected: float, evidence: Evidence = FEW, others: int = 400) -> bool:
    """So many cases of whom so many got an action that others get at a rate which makes it 0.5 in all."""
    n = low + others
    rest = n // 2 - taken_low
    taken = np.concatenate([np.arange(low) < taken_low, np.arange(others) < rest]) * 1.0
    predicted = np.repeat([0.1, 0.6], [low, others])
    return is_missing(predicted, taken, np.repeat([expected, 0.5], [low, others]), np.array([0.3]), evidence)


@pytest.mark.parametrize(
    ("low", "taken", "expected", "missing"),
    [
        # Of 0.9·0.5: 0.55⁴ = 0.092, 0.55⁶ = 0.028; at most one of 8: 0.55⁸ + 8·0.45·0.55⁷ = 0.063, of 10: 0.023.
        (4, 0, 0.5, False),
        (6, 0, 0.5, True),
        (8, 1, 0.5, False),
        (10, 1, 0.5, True),
        # Of 0.9·0.1: 0.91¹⁰ = 0.39, 0.91³⁰ = 0.059, 0.91³² = 0.049. The usual rate expects less: 0.925³² = 0.082.
        (10, 0, 0.1, False),
        (30, 0, 0.1, False),
        (32, 0, 0.1, True),
        # A trend that explains all of it: 0.15·0.5 is the limit then, 0.925³⁸ = 0.052, 0.925⁴⁰ = 0.044.
        (38, 0, 0.001, False),
        (40, 0, 0.001, True),
        # More than usual is not expected of anybody, whatever a trend says.
        (4, 0, 0.9, False),
    ],
)
def test_the_binomial_test_by_hand(low: int, taken: int, expected: float, missing: bool) -> None:
    assert asked(low, taken, expected) is missing


def test_with_few_decisions_a_hole_is_taken_to_be_there() -> None:
    assert asked(2, 1, 0.5, Evidence(enough=250, level=0.05))
    assert not asked(2, 1, 0.5, Evidence(enough=150, level=0.05))
    nobody = np.zeros(5)
    assert is_missing(np.full(5, 0.1), nobody, nobody, np.array([1.0]), FEW)


def test_limits_bar_what_is_missing_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    hole = np.arange(2000) < 300
    chances = np.where(hole, 0.1, 0.3)
    rarer, never = rng.random(2000) < chances, ~hole & (rng.random(2000) < 0.3)

    def found(taken: BoolArray, expected: FloatArray | None) -> float:
        rows = np.stack([1 - chances, chances], axis=1)
        trend = None if expected is None else np.stack([1 - expected, expected], axis=1)
        return float(limits(rows, np.stack([~taken, taken], axis=1) * 1.0, 0.02, trend)[0][1])

    assert found(rarer, None) > 0.1  # without a trend, what is rarer is barred
    assert found(rarer, chances) == 0
    assert found(never, chances) > 0.1


@pytest.mark.parametrize("kind", ["nohole", "smooth"])
def test_without_a_hole_nearly_nothing_is_barred(kind: str) -> None:
    barred = []
    for seed in range(5):
        model = fit_support(scenario(f"{kind}:none").logs(1200, 51_000 + seed), 0.02)
        assert model is not None
        assert model.absent is not None
        barred.append(float(model.absent.max()))
    assert np.median(barred) == 0
