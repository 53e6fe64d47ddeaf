"""What every interval owes: it moves with the returns, ignores the scale of weights, and widens with the level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import snis
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Recombined
from poela.stats.bounds import Interval, Sample
from poela.stats.contributions import Contributions
from poela.stats.intervals import intervals_of
from poela.stats.weights import LogWeights

NAMES = ("recombined", "bca", "percentile", "studentised", "normal", "student", "el")


def random_evidence(seed: int, *, shift: float = 0.0, scale: float = 1.0, heavier: float = 0.0) -> Evidence:
    rng = np.random.default_rng(seed)
    n = 40
    weights = LogWeights(rng.normal(0.0, 0.5, 2 * n) + heavier / 2, np.arange(0, 2 * n + 1, 2))
    rewards = np.zeros(2 * n)
    rewards[1::2] = shift + scale * rng.normal(size=n)
    return Evidence(weights, Trajectories(rng.random((2 * n, 1)), np.zeros(2 * n), rewards, weights.offsets))


def interval(name: str, evidence: Evidence, level: float = 0.9) -> Interval:
    pool = Recombined(evidence.logs, seed=0).pool(evidence).contributions(snis, evidence.truncation)
    sample = Sample(snis(evidence), resamples=60, returns=evidence.returns, pool=pool)
    [found] = intervals_of(name, sample, [level])
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), shift=st.floats(-50, 50), scale=st.floats(0.1, 50))
def test_intervals_move_and_stretch_with_the_returns(name: str, seed: int, shift: float, scale: float) -> None:
    plain, moved = (
        interval(name, random_evidence(seed)),
        interval(name, random_evidence(seed, shift=shift, scale=scale)),
    )
    expected = (shift + scale * plain.low, shift + scale * plain.high)
    assert (moved.low, moved.high) == pytest.approx(expected, abs=1e-6 * (scale + abs(shift)))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), heavier=st.floats(-3, 3))
def test_self_normalised_intervals_ignore_the_scale_of_weights(name: str, seed: int, heavier: float) -> None:
    plain, scaled = interval(name, random_evidence(seed)), interval(name, random_evidence(seed, heavier=heavier))
    assert (scaled.low, scaled.high) == pytest.approx((plain.low, plain.high), abs=1e-6)


@pytest.mark.parametrize("name", NAMES[1:])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), low=st.floats(0.05, 0.9), more=st.floats(0.01, 0.09))
def test_higher_levels_hold_lower_ones(name: str, seed: int, low: float, more: float) -> None:
    evidence = random_evidence(seed)
    inner, outer = interval(name, evidence, low), interval(name, evidence, low + more)
    assert outer.low <= inner.low + 1e-9
    assert inner.high <= outer.high + 1e-9


@pytest.mark.parametrize("name", ["normal", "student", "el"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_episodes_does_not_matter(name: str, seed: int) -> None:
    contributions = snis(random_evidence(seed))
    order = np.random.default_rng(seed).permutation(contributions.n_episodes)
    shuffled = Contributions(contributions.numerators[order], contributions.denominators[order])
    [first], [second] = (intervals_of(name, Sample(units), [0.95]) for units in (contributions, shuffled))
    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=1e-9)
