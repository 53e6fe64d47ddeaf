"""Intervals of bounded returns against exact Poisson limits and what cannot be."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from poela.stats.bounds import Bounds, Sample, bounded_ends
from poela.stats.contributions import Contributions, standard_error
from poela.stats.intervals import intervals_of

UNIT = Bounds(0.0, 1.0)
LEVELS = (0.5, 0.8, 0.95, 0.99)


def ends(rate: float, n: float, level: float = 0.95, bounds: Bounds = UNIT) -> tuple[float, float]:
    """Those of a plain rate among n episodes."""
    error = bounds.return_range * np.sqrt(rate * (1 - rate) / n)
    [found] = bounded_ends(bounds.lowest_return + rate * bounds.return_range, error, n, bounds, [level])
    return found


def poisson_mid_p(events: int, level: float) -> tuple[float, float]:
    """All expected counts at which the observed one is no surprise, half of its own chance counted."""
    tail = (1 - level) / 2

    def below(mean: float) -> float:
        return float(stats.poisson.cdf(events - 1, mean) + stats.poisson.pmf(events, mean) / 2)

    low = 0.0 if events == 0 else brentq(lambda mean: 1 - below(mean) - tail, 1e-9, events + 1.0)
    return low, brentq(lambda mean: below(mean) - tail, events, 10 * events + 20)


@pytest.mark.parametrize("ess", [20.0, 100.0, 1234.5])
def test_no_event_is_the_rule_of_three(ess: float) -> None:
    low, high = ends(0.0, ess)
    assert low == 0
    assert high * ess == pytest.approx(-np.log(0.05), rel=1e-6)


@pytest.mark.parametrize("events", [1, 2, 5])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_few_events_of_equal_weight_have_the_exact_poisson_limit(events: int, level: float) -> None:
    n = 100_000
    low, high = ends(events / n, n, level)
    least, most = poisson_mid_p(events, level)
    assert n * high == pytest.approx(most, rel=1e-3)
    assert n * low <= least * (1 + 1e-3)  # seen from the other side, fewer might have been expected


@given(st.floats(0, 1), st.floats(2, 1e5), st.floats(-100, 100), st.floats(1e-3, 1e3), st.sampled_from(LEVELS))
def test_they_stay_within_the_bounds_around_the_value_and_never_without_width(
    rate: float, n: float, lowest: float, spread: float, level: float
) -> None:
    bounds = Bounds(lowest, lowest + spread)
    low, high = ends(rate, n, level, bounds)
    value = lowest + rate * bounds.return_range
    assert bounds.lowest_return <= low < high <= bounds.highest_return
    if level > 0.5:
        assert low - 1e-9 * spread <= value <= high + 1e-9 * spread


@given(st.floats(0, 1), st.floats(2, 1e4), st.sampled_from(LEVELS))
@settings(max_examples=40)
def test_yes_and_no_are_the_same_question(rate: float, n: float, level: float) -> None:
    low, high = ends(rate, n, level)
    assert ends(1 - rate, n, level) == pytest.approx((1 - high, 1 - low), abs=1e-7)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(2, 1e4))
@settings(max_examples=40)
def test_many_levels_at_once_are_nested(rate: float, error: float, n: float) -> None:
    found = bounded_ends(rate, error, n, UNIT, LEVELS)
    assert found == [bounded_ends(rate, error, n, UNIT, [level])[0] for level in LEVELS]
    for (low, high), (lower, higher) in itertools.pairwise(found):
        assert lower <= low + 1e-9
        assert high <= higher + 1e-9


def test_nothing_else_can_be_where_the_range_is_a_point() -> None:
    assert bounded_ends(3.0, 0.0, 10.0, Bounds(3.0, 3.0), [0.95]) == [(3.0, 3.0)]


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_they_cover_rare_and_common_rates(rate: float) -> None:
    n, level = 100, 0.95
    counts = np.arange(n + 1)
    covered = [ends(k / n, n, level)[0] <= rate <= ends(k / n, n, level)[1] for k in counts]
    chance = float(stats.binom.pmf(counts, n, rate) @ np.array(covered))
    assert chance >= 0.95


def test_the_default_interval_is_at_least_as_wide() -> None:
    weights = np.random.default_rng(0).lognormal(0.0, 0.5, 300)
    returns = (np.arange(300) == 7).astype(float)
    units = Contributions.ratio(weights * returns, weights)
    [interval] = intervals_of("recombined", Sample(units, returns=returns, bounds=UNIT), [0.95])
    ess = weights.sum() ** 2 / (weights**2).sum()
    [(low, high)] = bounded_ends(units.value, standard_error(units), ess, UNIT, [0.95])
    assert interval.low <= low < high <= interval.high
    assert interval.low == 0
