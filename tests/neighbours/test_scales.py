"""Robust scales: normal scores of ranks, bounded indicators, nothing that outvotes the rest; and how far is too far."""

import warnings
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from poela import POELA, load_policy
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.data.trajectories import Trajectories
from poela.eligibility.files import eligibility_from_stored
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility
from poela.neighbours.scales import MOST_KNOTS, FeatureScale

EUCLIDEAN = Eligibility(scale="robust", metric="euclidean")


def robust(*columns: Any, rule: Eligibility = EUCLIDEAN) -> FeatureScale:
    return FeatureScale.of(rule, np.column_stack(columns).astype(np.float32))


def scores(scale: FeatureScale, *values: float) -> FloatArray:
    return scale(np.array(values, np.float32)[:, None]).ravel()


def test_scores_at_logged_values_are_normal_scores_of_their_ranks() -> None:
    values = np.array([3.0, 9.0, 3.0, 1.0, 2.0])  # mid-ranks: 1 → 0.5, 2 → 1.5, 3 and 3 → 3, 9 → 4.5
    expected = [NormalDist().inv_cdf(rank / 5) for rank in (0.5, 1.5, 3.0, 4.5)]
    np.testing.assert_allclose(scores(robust(values), 1, 2, 3, 9), expected)
    np.testing.assert_allclose(scores(robust(values), 2.5, 6), [sum(expected[1:3]) / 2, sum(expected[2:]) / 2])


@pytest.mark.parametrize("draw", ["normal", "lognormal", "uniform", "standard_cauchy"])
def test_units_and_tails_do_not_matter(draw: str) -> None:
    values = getattr(np.random.default_rng(0), draw)(size=4000).astype(np.float32)
    scale = robust(values)
    assert scale.knots is not None
    assert scale.knots.shape[1] <= MOST_KNOTS
    found = scale(values[:, None]).ravel()
    ranks = np.argsort(np.argsort(values))
    expected = [NormalDist().inv_cdf((rank + 0.5) / 4000) for rank in ranks.tolist()]
    np.testing.assert_allclose(found, expected, atol=0.12)  # 33 knots stand for 4,000 values
    moved = robust(1000 * values)(1000 * values[:, None])
    np.testing.assert_allclose(moved.ravel(), found, atol=1e-3)


def test_beyond_the_ends_scores_go_on_so_that_far_is_far() -> None:
    values = np.random.default_rng(0).normal(size=3000)
    scale = robust(values)
    ends = scores(scale, values.min(), values.max())
    outside = scores(scale, -40, -20, 20, 40)
    np.testing.assert_allclose(np.diff(outside)[[0, 2]], 20, rtol=0.15)  # as steep as a standard normal feature is
    assert (outside[:2] < ends[0] - 10).all()
    assert (outside[2:] > ends[1] + 10).all()


@pytest.mark.parametrize("share", [0.5, 0.01, 0.0005])
def test_two_indicators_of_a_category_that_differ_count_one_however_rare(share: float) -> None:
    first = (np.arange(4000) < max(share * 4000, 1)).astype(float)
    scale = robust(first, 1 - first)
    one, other = scale(np.array([[1, 0], [0, 1]], np.float32))
    assert np.square(one - other).sum() == pytest.approx(1.0)


def test_a_new_value_of_a_constant_feature_counts_as_another_category_and_more_the_farther_it_is() -> None:
    for constant in (0.0, 2020.0, -1e-3, 1e20):
        scale = robust(np.full(50, constant))
        beside = np.nextafter(np.float32(constant * 1.001 + 1e-20), np.float32(np.inf))
        near, far = np.abs(scores(scale, float(beside), constant + 100 * max(abs(constant), 1.0)))
        assert scores(scale, constant) == 0
        assert 1 <= near < 1.1
        assert far > 50


def test_the_mean_is_taken_over_what_varies() -> None:
    """So two random cases are 2 apart, as of features in standard deviations, with rare indicators or without."""
    rng = np.random.default_rng(0)
    numbers, rare = rng.normal(size=(2000, 3)), (np.arange(2000) < 4).astype(float)
    for columns in ((numbers,), (numbers, rare), (numbers, rare, np.zeros(2000))):
        contexts = np.column_stack(columns).astype(np.float32)
        scale = FeatureScale.of(Eligibility(scale="robust"), contexts)
        pairs = scale(contexts)[rng.permutation(2000)] - scale(contexts)
        assert np.square(pairs).mean() == pytest.approx(2.0, rel=0.1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), values=st.integers(1, 60), size=st.sampled_from([1e-30, 1.0, 1e30]))
def test_scores_rise_with_their_features(seed: int, values: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    logged = size * rng.integers(0, values, 80)
    asked = np.sort(np.concatenate([logged, size * rng.normal(size=50) * values])).astype(np.float32)
    found = scores(robust(logged), *asked.tolist())
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert len(np.unique(logged)) == 1 or (np.diff(found)[np.diff(asked) > 0] > 0).all()


def logs_of(contexts: Any, seed: int = 0, n_actions: int = 3) -> Trajectories:
    rng = np.random.default_rng(seed)
    n = len(contexts)
    return Trajectories(
        contexts, rng.integers(n_actions, size=n), rng.normal(size=n), np.arange(n + 1), np.full((n, n_actions), 1 / 3)
    )


def mixed(n: int, seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=n), rng.lognormal(size=n), rng.integers(0, 2, n), rng.integers(0, 5, n)])


def test_distances_are_those_of_another_library_on_the_scores() -> None:
    logs, asked = logs_of(mixed(300)), mixed(50, seed=1).astype(np.float32)
    rule = Eligibility(radius=0.1, scale="robust", weights=(1.0, 2.0, 1.0, 0.0)).fit(logs)
    assert rule.logged is not None
    scale = rule.logged.scale
    squared = cdist(scale(asked), scale(logs.contexts), "sqeuclidean") / 4
    expected = np.stack([squared[:, logs.actions == action].min(axis=1) for action in range(3)], axis=1)
    np.testing.assert_allclose(rule.distances(asked), expected, rtol=1e-9)
    approximate = Eligibility(radius=0.1, scale="robust", weights=(1.0, 2.0, 1.0, 0.0), search="approximate").fit(logs)
    np.testing.assert_allclose(approximate.distances(asked), expected, rtol=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "mean_squared"])
def test_the_reach_is_one_and_a_half_times_the_farthest_nearest_case(metric: str) -> None:
    logs = Trajectories([[0.0], [0.0], [2.0], [6.0]], [0, 1, 0, 1], [0] * 4, [0, 1, 2, 3, 4], clusters=[0, 0, 1, 2])
    rule = Eligibility(reach="auto", metric=metric).fit(logs)
    assert rule.reach == {"euclidean": 6.0, "mean_squared": 36.0}[metric]
    eligible = rule.resolve([[12.0], [12.01], [-5.9]])
    assert eligible.stranded.tolist() == [False, True, False]
    assert eligible.mask.tolist() == [[True, True], [False, True], [True, True]]  # the fallback: nearest


def test_a_reach_beside_a_radius_only_bars_more() -> None:
    logs, asked = logs_of(mixed(300)), 2 * mixed(200, seed=1)
    alone = Eligibility(radius="q90", scale="robust").fit(logs)
    both = Eligibility(radius="q90", scale="robust", reach=0.2).fit(logs)
    beyond = alone.distances(asked).min(axis=1) > 0.2
    assert 0 < beyond.sum() < 200
    np.testing.assert_array_equal(both.resolve(asked).stranded, alone.resolve(asked).stranded | beyond)
    np.testing.assert_array_equal(both.mask(asked)[~beyond], alone.mask(asked)[~beyond])


@pytest.mark.parametrize("fallback", ["nearest", "all"])
def test_without_a_radius_the_reach_bars_nothing_within_it(fallback: str) -> None:
    logs = logs_of(mixed(300))
    rule = Eligibility(reach="auto", scale="robust", fallback=fallback).fit(logs)
    inside = rule.resolve(logs.contexts)
    assert inside.mask.all()
    assert not inside.stranded.any()
    far = rule.resolve(np.full((1, 4), 1e4))
    assert far.stranded.all()
    assert far.mask.all() == (fallback == "all")
    assert rule.counts(logs.contexts).min(axis=1).max() >= 1


def test_nothing_is_stored_or_measured_without_a_reach() -> None:
    rule = Eligibility(scale="robust").fit(logs_of(mixed(30)))
    assert not rule.holds_logged_contexts
    assert not rule.stored().arrays
    assert "reach" not in rule.stored().settings
    assert rule.in_range(np.zeros((1, 4))) is None


def again(fitted: FittedEligibility) -> FittedEligibility:
    return eligibility_from_stored(fitted.stored(), lambda part: pytest.fail("no part"))


@pytest.mark.parametrize("rule", [Eligibility(reach="auto", scale="robust"), Eligibility(radius="q80", scale="robust")])
def test_a_file_keeps_scale_reach_and_range(rule: Eligibility) -> None:
    logs, asked = logs_of(mixed(200)), 1.5 * mixed(100, seed=1)
    fitted = rule.fit(logs)
    loaded, covered = again(fitted), again(fitted.thinned())
    np.testing.assert_array_equal(loaded.distances(asked), fitted.distances(asked))
    np.testing.assert_array_equal(loaded.resolve(asked).stranded, fitted.resolve(asked).stranded)
    low, high = logs.contexts.min(axis=0), logs.contexts.max(axis=0)
    inside = ((asked.astype(np.float32) >= low) & (asked.astype(np.float32) <= high)).all(axis=1)
    assert 0 < inside.sum() < 100
    for one in (fitted, loaded, covered):
        assert one.in_range(asked).tolist() == inside.tolist()  # type: ignore[union-attr]
    assert loaded.reach == fitted.reach
    assert fitted.logged is not None
    assert covered.logged is not None
    assert len(covered.logged.contexts) < len(fitted.logged.contexts)


def test_a_file_without_ranges_has_those_of_its_contexts_and_stays_as_it_was() -> None:
    stored = Eligibility(radius=0.5, scale="standard").fit(logs_of(mixed(100))).stored()
    older = Stored(stored.kind, stored.settings, {k: v for k, v in stored.arrays.items() if k not in {"low", "high"}})
    loaded = eligibility_from_stored(older, lambda part: None)
    assert loaded.in_range(np.array([stored.arrays["low"], stored.arrays["high"] + 1])).tolist() == [True, False]  # type: ignore[union-attr]
    assert loaded.stored().arrays.keys() == older.arrays.keys()


def changed(stored: Stored, name: str, value: Any) -> Stored:
    return Stored(stored.kind, stored.settings, {**stored.arrays, name: value})


def test_forged_scales_are_refused_in_words() -> None:
    stored = Eligibility(reach="auto", scale="robust").fit(logs_of(mixed(50))).stored()
    knots, scores = stored.arrays["knots"], stored.arrays["scores"]
    for forged, words in (
        (changed(stored, "knots", knots[:, ::-1].copy()), "must rise together"),
        (changed(stored, "scores", -scores), "must rise together"),
        (changed(stored, "scores", 1e9 * scores), "scores holds numbers"),
        (changed(stored, "knots", np.full_like(knots, np.nan)), "knots holds numbers"),
        (changed(stored, "knots", knots * 1e-55), "too near each other"),
        (changed(stored, "knots", knots[:, :1]), "the shape of scores"),
        (changed(stored, "low", stored.arrays["high"] + 1), "low must not be above high"),
        (Stored(stored.kind, {**stored.settings, "reach": "auto"}, stored.arrays), "reach is 'auto'"),
        (Stored(stored.kind, {**stored.settings, "scale": "standard"}, stored.arrays), "unknown"),
    ):
        with pytest.raises(InputError, match=words):
            eligibility_from_stored(forged, lambda part: None)


def test_a_policy_under_a_robust_rule_is_saved_and_loaded(tmp_path: Path) -> None:
    logs, asked = logs_of(mixed(120)), 3 * mixed(60, seed=2)
    policy = POELA(radius="q90", scale="robust", reach="auto", steps=5, warm_start_steps=5).fit(logs, seed=0)
    policy.save(tmp_path / "policy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_policy(tmp_path / "policy")
    np.testing.assert_array_equal(loaded.probabilities(asked), policy.probabilities(asked))
