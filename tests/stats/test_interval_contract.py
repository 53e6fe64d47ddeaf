"""What every interval of the table promises, whatever its method."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import snis
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Recombined
from poela.stats.bootstrap import Resampled
from poela.stats.bounds import Bounds, IntervalMethod, Sample
from poela.stats.contributions import Contributions
from poela.stats.intervals import INTERVALS, intervals_of
from poela.stats.weights import LogWeights

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def refitted(resamples: int, seed: int) -> Resampled:
    """As good as any, for an interval that takes what it is given."""
    return Resampled(np.random.default_rng(seed).normal(0.5, 0.1, resamples), np.full(resamples, np.nan))


def full_sample(seed: int = 0) -> Sample:
    """One that has whatever any method may need."""
    rng = np.random.default_rng(seed)
    weights = LogWeights(np.clip(rng.normal(-0.1, 0.4, 240), None, 0.5), np.arange(0, 241, 2))
    rewards = np.zeros(240)
    rewards[1::2] = rng.beta(2, 3, size=120)
    logs = Trajectories(rng.normal(size=(240, 1)), np.zeros(240), rewards, weights.offsets)
    evidence = Evidence(weights, logs)
    pool = Recombined(logs, seed=0, copies=10).pool(evidence).contributions(snis, np.inf)
    bounds = Bounds(0.0, 1.0, largest_weight=3.0)
    return Sample(snis(evidence), 0, 300, logs.returns(), bounds, pool, refitted, ess=90.0)


@pytest.mark.parametrize("name", INTERVALS)
def test_more_confidence_holds_less(name: str) -> None:
    for seed in range(3):
        sample = full_sample(seed)
        found = intervals_of(name, sample, LEVELS)
        for inner, outer in itertools.pairwise(found):
            assert outer.low <= inner.low + 1e-12
            assert inner.high <= outer.high + 1e-12
        assert found[2].low < sample.value < found[2].high
        assert found[0].width > 0


@pytest.mark.parametrize("name", INTERVALS)
def test_many_levels_in_one_call_are_those_of_many_calls(name: str) -> None:
    sample = full_sample()
    together = intervals_of(name, sample, LEVELS)
    assert together == [intervals_of(name, sample, [level])[0] for level in LEVELS]
    assert intervals_of(name, sample, LEVELS[::-1]) == together[::-1]
    assert intervals_of(name, sample, []) == []
    assert {interval.method for interval in together} == {name}


LACKING: Mapping[str, list[tuple[dict[str, Any], str]]] = {
    "bounds": [
        ({"bounds": None}, r"needs bounds=Bounds\(lowest_return, highest_return, largest_weight\)"),
        ({"bounds": Bounds(0.0, 1.0)}, "largest_weight"),
    ],
    "whole episodes": [({"contributions": Contributions(np.ones((9, 2)), np.ones((9, 2)))}, "weight whole episodes")],
    "self-normalised": [
        ({"contributions": Contributions(np.ones((9, 2)), np.ones((9, 2)))}, "needs a self-normalised estimator"),
        ({"contributions": Contributions.mean(np.arange(9.0))}, "needs a self-normalised estimator"),
    ],
    "behavior": [({"refitted": None}, "fits a behavior model anew on each resample: give its settings")],
}


@pytest.mark.parametrize("name", INTERVALS)
def test_what_a_method_needs_it_says_in_one_sentence(name: str) -> None:
    assert set(INTERVALS[name].needs) <= set(LACKING)
    for need in INTERVALS[name].needs:
        for change, message in LACKING[need]:
            with pytest.raises(InputError, match=message) as caught:
                intervals_of(name, replace(full_sample(), **change), [0.95])
            assert len(caught.value.problems) == 1
            assert "\n" not in caught.value.problems[0]


@pytest.mark.parametrize("name", INTERVALS)
def test_what_a_method_does_not_declare_it_does_not_need(name: str) -> None:
    sample, needs = full_sample(), INTERVALS[name].needs
    bare = Sample(
        sample.contributions,
        resamples=50,
        bounds=sample.bounds if "bounds" in needs else None,
        refitted=refitted if "behavior" in needs else None,
    )
    assert len(intervals_of(name, bare, LEVELS)) == len(LEVELS)
    if not needs & {"whole episodes", "self-normalised"}:
        rng = np.random.default_rng(0)
        weights = rng.lognormal(size=(40, 3))
        by_step = Contributions(weights * rng.normal(size=(40, 3)), weights)
        assert len(intervals_of(name, replace(bare, contributions=by_step), LEVELS)) == len(LEVELS)


@pytest.mark.parametrize("name", INTERVALS)
def test_impossible_levels_are_refused(name: str) -> None:
    for level in (0.0, 1.0, 95.0, float("nan")):
        with pytest.raises(InputError, match="must lie between 0 and 1"):
            intervals_of(name, full_sample(), [0.9, level])


def test_every_need_is_known() -> None:
    everything = IntervalMethod(INTERVALS["normal"].ends, frozenset(LACKING))  # type: ignore[arg-type]
    nothing = Sample(Contributions(np.ones((9, 2)), np.ones((9, 2))))
    assert len(everything.problems(nothing)) == len(LACKING)
    assert everything.problems(full_sample()) == []
