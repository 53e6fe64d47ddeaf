"""Distances, masks and fallbacks on logs small enough to work out by hand."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyAction, Eligibility, MinimumProbability, Radius

INF = np.inf


class ByFirstFeature:
    """Takes action 1 with probability equal to the first feature, action 0 otherwise, action 2 never."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        first = np.asarray(contexts, np.float64)[:, 0]
        return np.stack([1 - first, first, np.zeros(len(first))], axis=1)


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    """Two episodes of two steps; action 2 is declared, but never logged."""
    return Trajectories(
        contexts=[[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 0.0]],
        actions=[0, 1, 1, 0],
        rewards=[0, 0, 0, 0],
        offsets=[0, 2, 4],
        n_actions=3,
    )


def test_distances_by_hand(logs: Trajectories) -> None:
    contexts = [[0.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
    mean_squared = Radius(1.0).fit(logs).distances(contexts)
    np.testing.assert_array_equal(mean_squared, [[0, 1, INF], [2, 0, INF], [2, 2.5, INF]])
    euclidean = Radius(1.0, metric="euclidean").fit(logs).distances(contexts)
    np.testing.assert_array_equal(euclidean, np.sqrt([[0, 2, INF], [4, 0, INF], [4, 5, INF]]))


def test_the_radius_is_part_of_the_ball(logs: Trajectories) -> None:
    np.testing.assert_array_equal(Radius(1.0).fit(logs).mask([[0.0, 0.0]]), [[True, True, False]])
    np.testing.assert_array_equal(Radius(np.nextafter(1.0, 0)).fit(logs).mask([[0.0, 0.0]]), [[True, False, False]])
    np.testing.assert_array_equal(Radius(INF).fit(logs).mask([[9.0, 9.0]]), [[True, True, False]])


def test_contexts_in_double_precision_meet_the_logged_ones() -> None:
    logs = Trajectories(contexts=[[0.1]], actions=[0], rewards=[0], offsets=[0, 1])
    assert Radius(0.0).fit(logs).distances([[0.1]]).item() == 0.0


def test_any_action_means_any_action(logs: Trajectories) -> None:
    resolved = AnyAction().fit(logs).resolve([[9.0, 9.0]])
    assert resolved.mask.all()
    assert resolved.n_stranded == 0


def test_nearest_fallback_takes_the_nearest_action_and_counts(logs: Trajectories) -> None:
    resolved = Radius(0.1).fit(logs).resolve([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(
        resolved.mask, [[True, False, False], [True, False, False], [False, True, False], [True, True, False]]
    )
    np.testing.assert_array_equal(resolved.stranded, [False, True, True, True])
    assert resolved.n_stranded == 3
    assert resolved.behavior is None


def test_fallback_to_all_actions(logs: Trajectories) -> None:
    resolved = Radius(0.1, fallback="all").fit(logs).resolve([[0.0, 0.0], [3.0, 0.0]])
    np.testing.assert_array_equal(resolved.mask, [[True, False, False], [True, True, True]])


def test_fallback_to_behavior(logs: Trajectories) -> None:
    fitted = Radius(0.01, fallback="behavior").fit(logs, ByFirstFeature())
    resolved = fitted.resolve([[0.0, 0.0], [0.25, 0.0], [0.0, 0.5]])
    np.testing.assert_array_equal(resolved.stranded, [False, True, True])
    np.testing.assert_array_equal(resolved.mask, [[True, False, False], [True, True, False], [True, False, False]])
    assert resolved.behavior is not None
    np.testing.assert_array_equal(resolved.behavior, [[0, 0, 0], [0.75, 0.25, 0], [1, 0, 0]])


def test_minimum_probability(logs: Trajectories) -> None:
    contexts = [[0.25, 0.0], [0.5, 0.0], [0.0, 0.0]]
    some = MinimumProbability(0.25).fit(logs, ByFirstFeature()).mask(contexts)
    np.testing.assert_array_equal(some, [[True, True, False], [True, True, False], [True, False, False]])
    zero = MinimumProbability(0.0).fit(logs, ByFirstFeature()).mask(contexts)
    np.testing.assert_array_equal(zero, some)


def test_nearest_to_a_minimum_probability_is_the_most_probable(logs: Trajectories) -> None:
    resolved = MinimumProbability(0.9).fit(logs, ByFirstFeature()).resolve([[0.25, 0.0], [0.5, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(resolved.mask, [[True, False, False], [True, True, False], [False, True, False]])
    np.testing.assert_array_equal(resolved.stranded, [True, True, False])


def test_relative_probability(logs: Trajectories) -> None:
    rule = Eligibility(relative_probability=0.25)
    contexts = [[0.125, 0.0], [0.25, 0.0], [0.5, 0.0], [0.9, 0.0]]
    resolved = rule.fit(logs, ByFirstFeature()).resolve(contexts)
    expected = [[True, False, False], [True, True, False], [True, True, False], [False, True, False]]
    np.testing.assert_array_equal(resolved.mask, expected)
    assert resolved.n_stranded == 0


def test_an_action_must_pass_both_rules(logs: Trajectories) -> None:
    fitted = Eligibility(radius=0.5, minimum_probability=0.25).fit(logs, ByFirstFeature())
    # At (½, ½) both are near and probable; at (¼, ¼) only action 0 is near; at (1, 0.1) it is near and improbable.
    resolved = fitted.resolve([[0.5, 0.5], [0.25, 0.25], [1.0, 0.1]])
    np.testing.assert_array_equal(resolved.mask, [[True, True, False], [True, False, False], [False, True, False]])
    # Stranded at (1, −5): action 0 is nearer, but the logging policy never takes it there.
    resolved = fitted.resolve([[1.0, -5.0]])
    np.testing.assert_array_equal(resolved.mask, [[False, True, False]])
    assert resolved.n_stranded == 1


def test_logged_propensities_stand_in_for_a_behavior_model(logs: Trajectories) -> None:
    full = logs.with_propensities([[0.9, 0.1, 0.0], [0.4, 0.6, 0.0], [0.2, 0.8, 0.0], [1.0, 0.0, 0.0]])
    fitted = MinimumProbability(0.3).fit(full)
    assert fitted.holds_logged_contexts
    mask = fitted.mask([[0.1, 0.1], [1.0, 0.9], [0.0, 3.0], [1.0, 0.0]])
    np.testing.assert_array_equal(
        mask, [[True, False, False], [True, True, False], [False, True, False], [True, False, False]]
    )


def test_the_nearest_propensities_are_nearest_on_the_scale_of_the_rule(logs: Trajectories) -> None:
    full = logs.with_propensities([[0.9, 0.1, 0.0], [0.4, 0.6, 0.0], [0.2, 0.8, 0.0], [1.0, 0.0, 0.0]])
    # (0.4, 1.9) is nearest to (0, 2); where only the first feature counts, to (0, 0), the first with that feature.
    assert MinimumProbability(0.5).fit(full).mask([[0.4, 1.9]]).tolist() == [[False, True, False]]
    first_only = MinimumProbability(0.5, weights=(1.0, 0.0)).fit(full)
    assert first_only.mask([[0.4, 1.9]]).tolist() == [[True, False, False]]
    # (0.9, 0.2) is nearest to (1, 0) on this scale, where action 0 was certain.
    assert MinimumProbability(0.95, scale=(0.5, 1.0)).fit(full).resolve([[0.9, 0.2]]).n_stranded == 0


@pytest.mark.parametrize("settings", [{"minimum_probability": 0.1}, {"radius": 1.0, "fallback": "behavior"}])
@pytest.mark.parametrize("propensities", [None, [0.5, 0.5, 0.5, 0.5]])
def test_a_rule_that_asks_for_behavior_says_what_to_give(
    logs: Trajectories, settings: dict[str, Any], propensities: list[float] | None
) -> None:
    with pytest.raises(InputError, match="give a behavior model"):
        Eligibility(**settings).fit(logs.with_propensities(propensities))


def test_a_behavior_model_of_other_logs_is_refused(logs: Trajectories) -> None:
    two_actions = logs.take([0, 1])
    two_actions = Trajectories(two_actions.contexts, two_actions.actions, two_actions.rewards, two_actions.offsets)
    with pytest.raises(InputError, match=r"probabilities of shape \(1, 3\), not \(1, 2\)"):
        MinimumProbability(0.1).fit(two_actions, ByFirstFeature()).mask([[0.0, 0.0]])


def test_same_step_looks_only_at_that_step(logs: Trajectories) -> None:
    fitted = Radius(1.0, neighbours="same_step").fit(logs)
    distances = fitted.distances([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], steps=[0, 1, 7])
    # Step 0 logged (0, 0) with action 0 and (0, 2) with action 1; step 1 (1, 1) with 1 and (1, 0) with 0.
    np.testing.assert_array_equal(distances, [[0, 2, INF], [0.5, 1, INF], [INF, INF, INF]])
    resolved = fitted.resolve([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0]], steps=[0, 1, 7])
    np.testing.assert_array_equal(resolved.mask, [[True, False, False], [True, True, False], [False, True, False]])
    np.testing.assert_array_equal(resolved.stranded, [False, False, True])


@pytest.mark.parametrize("steps", [None, [0, 1], [0.5], "x"])
def test_same_step_needs_step_numbers(logs: Trajectories, steps: Any) -> None:
    with pytest.raises(InputError, match="step"):
        Radius(1.0, neighbours="same_step").fit(logs).mask([[0.0, 0.0]], steps=steps)


def test_scale_and_weights_by_hand(logs: Trajectories) -> None:
    contexts = [[3.0, 0.0]]
    scaled = Radius(1.0, scale=(2.0, 1.0)).fit(logs).distances(contexts)
    np.testing.assert_array_equal(scaled, [[0.5, 1.0, INF]])
    weighted = Radius(1.0, weights=(0.25, 0.0)).fit(logs).distances(contexts)
    np.testing.assert_array_equal(weighted, [[0.5, 0.5, INF]])
    # Standard deviations: ½ and √(11/16).
    standard = Radius(1.0, scale="standard").fit(logs).distances(contexts)
    np.testing.assert_allclose(standard, [[8, 8 + 8 / 11, INF]], rtol=1e-14)


def test_a_constant_feature_does_not_break_standard_scaling() -> None:
    logs = Trajectories(contexts=[[5.0, 0.0], [5.0, 2.0]], actions=[0, 1], rewards=[0, 0], offsets=[0, 1, 2])
    distances = Radius(1.0, scale="standard").fit(logs).distances([[5.0, 0.0]])
    np.testing.assert_array_equal(distances, [[0.0, 2.0]])


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ([[0.0]], r"shape \(rows, 2\) with the features x0, x1, not \(1, 1\)"),
        ([0.0, 0.0], r"shape \(rows, 2\) with the features x0, x1, not \(2,\)"),
        ([[0.0, 0.0], [np.nan, 0.0], [0.0, np.inf]], "2 contexts hold NaN or infinity, first at row 1"),
    ],
)
def test_bad_contexts_are_refused(logs: Trajectories, contexts: Any, words: str) -> None:
    for rule in (Radius(1.0), AnyAction()):
        with pytest.raises(InputError, match=words):
            rule.fit(logs).mask(contexts)


def test_no_contexts_no_rows(logs: Trajectories) -> None:
    resolved = Radius(1.0).fit(logs).resolve(np.empty((0, 2)))
    assert resolved.mask.shape == (0, 3)
    assert resolved.n_stranded == 0


def test_logs_without_features() -> None:
    logs = Trajectories(contexts=np.empty((2, 0)), actions=[0, 1], rewards=[0, 0], offsets=[0, 1, 2], n_actions=3)
    np.testing.assert_array_equal(Radius(0.0).fit(logs).mask(np.empty((1, 0))), [[True, True, False]])


class TestThinned:
    def test_a_gap_of_zero_drops_only_repeated_contexts(self, logs: Trajectories) -> None:
        twice = logs.take([0, 1, 0, 1])
        fitted = Radius(1.0).fit(twice)
        thinned = fitted.thinned(gap=0.0)
        assert fitted.logged is not None
        assert thinned.logged is not None
        assert (len(fitted.logged.rows), len(thinned.logged.rows)) == (8, 4)
        contexts = np.random.default_rng(0).normal(size=(50, 2))
        np.testing.assert_array_equal(fitted.distances(contexts), thinned.distances(contexts))

    def test_what_is_dropped_lies_within_the_gap_of_what_is_kept(self) -> None:
        rng = np.random.default_rng(0)
        contexts = rng.uniform(size=(2000, 2)).astype(np.float32)
        logs = Trajectories(contexts, rng.integers(2, size=2000), np.zeros(2000), np.arange(0, 2001, 4))
        for metric, gap in (("mean_squared", 0.002), ("euclidean", 0.1)):
            thinned = Radius(1.0, metric=metric).fit(logs).thinned(gap)
            assert thinned.logged is not None
            assert 20 < len(thinned.logged.rows) < 400
            own = np.take_along_axis(thinned.distances(contexts), logs.actions[:, None], axis=1)
            assert own.max() <= gap
            kept = logs.contexts[thinned.logged.rows]
            np.testing.assert_array_equal(kept, thinned.logged.contexts)
            for action in (0, 1):
                alike = kept[thinned.logged.actions == action].astype(np.float64)
                apart = pdist(alike) if metric == "euclidean" else pdist(alike, "sqeuclidean") / 2
                assert apart.min() > gap, "nothing is kept that was covered already"

    def test_the_default_gap_is_half_the_euclidean_radius(self) -> None:
        logs = Trajectories([[0.0], [0.5], [0.6]], actions=[0, 0, 0], rewards=[0, 0, 0], offsets=[0, 3])
        for rule in (Radius(1.0), Radius(1.0, metric="euclidean")):
            thinned = rule.fit(logs).thinned()
            assert thinned.logged is not None
            np.testing.assert_array_equal(thinned.logged.rows, [0, 2])

    def test_the_cover_does_not_depend_on_the_order_of_the_log(self) -> None:
        for contexts in ([[0.0], [0.4], [0.8]], [[0.4], [0.8], [0.0]]):
            logs = Trajectories(contexts, actions=[0, 0, 0], rewards=[0, 0, 0], offsets=[0, 3])
            thinned = Radius(1.0, metric="euclidean").fit(logs).thinned(0.5)
            assert thinned.logged is not None
            np.testing.assert_array_equal(
                np.sort(thinned.logged.contexts, axis=0), np.array([[0.0], [0.8]], np.float32)
            )

    def test_steps_are_covered_one_by_one(self, logs: Trajectories) -> None:
        thinned = Radius(1.0, neighbours="same_step").fit(logs).thinned(gap=100.0)
        assert thinned.logged is not None
        assert len(thinned.logged.rows) == 4  # two steps with two actions each

    def test_ids_are_left_out(self, logs: Trajectories) -> None:
        assert Radius(1.0).fit(logs).thinned().episode_ids is None
        assert AnyAction().fit(logs).thinned().episode_ids is None

    def test_a_negative_gap_is_refused(self, logs: Trajectories) -> None:
        with pytest.raises(InputError, match="gap is -1"):
            Radius(1.0).fit(logs).thinned(-1)


@pytest.mark.parametrize("metric", ["mean_squared", "euclidean"])
@pytest.mark.parametrize("n_features", [3, 9])
def test_counts_agree_with_distances_to_the_last_bit(metric: Any, n_features: int) -> None:
    """At the distance of the nearest there is one neighbour, and just below it there is none."""
    rng = np.random.default_rng(1)
    train = Trajectories(rng.normal(size=(40, n_features)), np.arange(40) % 2, np.zeros(40), np.arange(0, 41, 4))
    asked = rng.normal(size=(15, n_features)).astype(np.float32)
    for context in asked:
        distance = float(Radius(1.0, metric=metric).fit(train).distances(context[None])[0].min())
        within, below = (Radius(r, metric=metric).fit(train) for r in (distance, np.nextafter(distance, 0.0)))
        assert within.counts(context[None]).sum() == 1
        assert below.counts(context[None]).sum() == 0
        np.testing.assert_array_equal(within.mask(context[None]), within.counts(context[None]) > 0)


def test_counts_of_the_same_step_and_along_a_log() -> None:
    train = Trajectories([[0.0], [0.1], [0.0], [5.0]], [0, 0, 1, 0], np.zeros(4), [0, 2, 4])
    pooled, by_step = (Radius(0.5, neighbours=kind).fit(train) for kind in ("pooled", "same_step"))
    np.testing.assert_array_equal(pooled.counts_along(train), [[2, 1], [2, 1], [2, 1], [1, 0]])
    np.testing.assert_array_equal(by_step.counts_along(train), [[1, 1], [1, 0], [1, 1], [1, 0]])
    np.testing.assert_array_equal(by_step.counts([[0.0]], steps=[1]), [[1, 0]])
    with pytest.raises(InputError, match="no radius"):
        AnyAction().fit(train).counts([[0.0]])
