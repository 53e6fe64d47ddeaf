"""Bounds at every look, against published values and simulated walks."""

import numpy as np
import pytest
from scipy.special import lambertw

from poela import InputError
from poela.rounds.looks import mixture_bounds, planned_boundaries, sequence_boundary


@pytest.mark.parametrize(
    ("n", "low", "high"), [(50, 0.0, 0.700605), (100, 0.097308, 0.593686), (200, 0.172736, 0.516793)]
)
def test_the_mixture_has_the_published_check_values(n: int, low: float, high: float) -> None:
    """Values of Vowpal Wabbit's estimators for weights and rewards that repeat."""
    t = np.arange(1, n + 1)
    ends = mixture_bounds(np.array([0.5, 1.0, 2.0, 0.5])[t % 4], (t % 3 == 0) * 1.0, 0.0, 1.0, 0.05)
    assert ends == pytest.approx((low, high), abs=6e-7)


def test_the_mixture_turns_and_scales_with_its_bounds() -> None:
    rewards = np.random.default_rng(0).random(80)
    low, high = mixture_bounds(np.ones(80), rewards, 0.0, 1.0, 0.1)
    assert mixture_bounds(np.ones(80), 10 - 3 * rewards, 7.0, 10.0, 0.1) == pytest.approx((10 - 3 * high, 10 - 3 * low))


def test_planned_boundaries_are_the_published_ones() -> None:
    """Lan & DeMets, two-sided 5%, five equal looks (Jennison & Turnbull 2000; ldbounds)."""
    five = [20.0, 40.0, 60.0, 80.0, 100.0]
    assert planned_boundaries("obrien-fleming", 5, five, 0.025) == pytest.approx(
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-4
    )
    assert planned_boundaries("pocock", 5, five, 0.025) == pytest.approx(
        [2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-4
    )
    assert planned_boundaries("pocock", 1, [10.0], 0.025) == pytest.approx([1.959964], abs=1e-5)
    with pytest.raises(InputError, match="all 2 planned looks are used"):
        planned_boundaries("pocock", 2, [1.0, 2.0, 3.0], 0.025)
    with pytest.raises(InputError, match="more cases than the one before"):
        planned_boundaries("pocock", 2, [5.0, 5.0], 0.025)


def test_walks_without_a_drift_rarely_cross() -> None:
    """Looks at uneven times: planned ones spend their error exactly, the sequence at most."""
    rng = np.random.default_rng(3)
    sizes = np.array([50, 80, 200, 300, 700, 1000])
    steps = rng.normal(size=(20_000, len(sizes))) * np.sqrt(np.diff(sizes, prepend=0))
    z = steps.cumsum(axis=1) / np.sqrt(sizes)
    for design in ("pocock", "obrien-fleming"):
        bounds = planned_boundaries(design, len(sizes), sizes.tolist(), 0.025)
        assert (z > bounds).any(axis=1).mean() == pytest.approx(0.025, abs=0.004)
    sequence = [sequence_boundary(float(size), 0.05, 500.0) for size in sizes]
    assert (np.abs(z) > sequence).any(axis=1).mean() < 0.05


def test_the_sequence_is_the_published_formula() -> None:
    """mean ± sd·√(2(tρ² + 1)/(t²ρ²)·log(√(tρ² + 1)/α)), ρ² = (−W₋₁(−α²/e) − 1)/t_opt; tightest near t_opt."""
    alpha, horizon, t = 0.1, 400.0, 123.0
    rho = (-lambertw(-(alpha**2) / np.e, -1).real - 1) / horizon
    radius = np.sqrt(2 * (t * rho + 1) / (t**2 * rho) * np.log(np.sqrt(t * rho + 1) / alpha))
    assert sequence_boundary(t, alpha, horizon) == pytest.approx(radius * np.sqrt(t))
    at = [sequence_boundary(400.0, alpha, h) for h in (100.0, 400.0, 1600.0)]
    assert at[1] == min(at)
