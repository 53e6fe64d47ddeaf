"""The paper's diagnostics of propensity overfitting, on cases whose answer is known."""

from typing import Any

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.overfitting import (
    avoided_contexts,
    ball_weights,
    decompose,
    low_return_weight,
    propensity_overfitting,
    train_validation_gap,
)
from poela.evaluation.weights import weights_of
from poela.stats.diagnostics import diagnose
from poela.stats.weights import LogWeights


def test_the_papers_example_is_all_context_shift() -> None:
    """Example 1: half the contexts pay 1 or 0, half −1 or −5; the overfitted policy keeps one good episode."""
    contexts = np.arange(10.0)[:, None].astype(np.float32)
    returns = np.array([1.0, 0, 0, 0, 0, -1, -1, -5, -5, -1])
    best = np.array([1.0] * 5 + [-1.0] * 5)  # what the best action pays in each context
    log_weights = np.full(10, -np.inf)
    log_weights[0] = np.log(10.0)
    found = decompose(log_weights, returns, best, contexts, radius=0.0)
    assert found.estimate == pytest.approx(1)
    assert found.empirical == pytest.approx(0)
    assert found.context_shift == pytest.approx(1)
    assert found.within_contexts == pytest.approx(0)


@pytest.mark.parametrize("radius", [0.0, 0.5, 100.0])
def test_the_three_terms_sum_to_the_estimate(radius: float) -> None:
    rng = np.random.default_rng(0)
    weights, returns, values = rng.normal(size=50), rng.normal(size=50), rng.normal(size=50)
    contexts = rng.integers(0, 4, size=(50, 2)).astype(np.float32)
    found = decompose(weights, returns, values, contexts, radius)
    shares = np.exp(weights) / np.exp(weights).sum()
    assert found.estimate == pytest.approx(float(shares @ returns))
    assert found.empirical + found.context_shift + found.within_contexts == pytest.approx(found.estimate)


def test_radius_zero_sums_over_identical_contexts_as_printed() -> None:
    rng = np.random.default_rng(1)
    contexts = rng.integers(0, 3, size=(40, 1)).astype(np.float32)
    weights, returns = rng.uniform(0, 3, size=40), rng.normal(size=40)
    value_of = np.array([0.5, -1.0, 2.0])
    kinds = contexts[:, 0].astype(int)
    shift = sum((weights[kinds == x].sum() / weights.sum() - (kinds == x).mean()) * value_of[x] for x in range(3))
    found = decompose(np.log(weights), returns, value_of[kinds], contexts, radius=0.0)
    assert found.context_shift == pytest.approx(shift)


def test_one_neighbourhood_for_all_leaves_no_context_to_avoid() -> None:
    rng = np.random.default_rng(2)
    weights, returns, values = rng.normal(size=(3, 20))
    found = decompose(weights, returns, values, rng.normal(size=(20, 3)).astype(np.float32), radius=1e6)
    assert found.context_shift == pytest.approx(0, abs=1e-12)


def test_equal_weights_shift_nothing_between_contexts() -> None:
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(30, 2)).astype(np.float32)
    found = decompose(np.zeros(30), rng.normal(size=30), rng.normal(size=30), contexts, radius=0.3)
    assert found.context_shift == pytest.approx(0, abs=1e-12)


def test_all_diagnostics_together_say_what_was_avoided() -> None:
    # One-step episodes in two groups; the policy goes against every logged action of the second.
    rng = np.random.default_rng(4)
    group = np.repeat([0.0, 10.0], 100)
    actions = np.arange(200) % 2
    rewards = np.where(group == 0, 1.0, -1.0) + 0.01 * rng.normal(size=200)
    logs = Trajectories(group[:, None], actions, rewards, np.arange(201), propensities=np.full((200, 2), 0.5))

    class Avoiding(Memoryless):
        def along(self, trajectories: Any) -> FloatArray:
            against = np.eye(2)[1 - trajectories.actions]
            return np.where(trajectories.contexts > 5, against, 0.5)

    found = propensity_overfitting(Avoiding(), logs, radius=0.5, low_return=0.0)
    assert found.decomposition.estimate == pytest.approx(1, abs=0.01)
    assert found.decomposition.context_shift == pytest.approx(1, abs=0.01)
    assert (found.low_returns.weight, found.low_returns.share_of_episodes) == (0.0, 0.5)
    assert found.balls.empty == 100
    assert [(row.neighbours, row.weight, row.features) for row in found.avoided] == [(100, 0.0, {"x0": 10.0})]
    assert "100 of 200 contexts without any weight near them" in str(found)


def test_low_return_weight() -> None:
    found = low_return_weight(np.log([1.0, 2.0, 1.0]), np.array([-3.0, -2.0, 5.0]), threshold=-2.0)
    assert found.weight == pytest.approx(0.25)  # strictly below the threshold
    assert found.share_of_episodes == pytest.approx(1 / 3)


def grid_logs(n: int = 400, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(size=(n, 1))
    actions = rng.integers(2, size=n)
    return Trajectories(contexts, actions, np.zeros(n), np.arange(n + 1), propensities=np.full((n, 2), 0.5))


def test_theorem_1_holds_for_a_smooth_policy_that_keeps_to_eligible_actions() -> None:
    logs = grid_logs()
    x = logs.contexts[:, 0].astype(np.float64)
    probabilities = np.column_stack([0.5 + 0.2 * x, 0.5 - 0.2 * x])  # slope 0.2
    found = ball_weights(weights_of(probabilities, logs), logs, probabilities, radius=0.05, metric="euclidean")
    assert found.lipschitz == pytest.approx(0.2, rel=1e-3)
    assert found.bound == pytest.approx(1 - 0.05 * 0.2 * 2, rel=1e-3)
    assert (len(found.rows), found.below_bound, found.empty) == (400, 0, 0)


def test_balls_around_avoided_contexts_are_empty() -> None:
    logs = grid_logs()
    avoided = logs.contexts[:, 0] < 0.25
    against = np.eye(2)[1 - logs.actions]
    probabilities = np.where(avoided[:, None], against, 0.5)
    weights = weights_of(probabilities, logs)
    found = ball_weights(weights, logs, probabilities, radius=0.01, metric="euclidean", lipschitz=0.0)
    assert found.bound == 1
    deep_inside = logs.contexts[found.rows, 0] < 0.24
    assert (found.sums[deep_inside] == 0).all()
    assert found.empty >= deep_inside.sum() > 50
    assert found.below_bound >= found.empty


def test_ball_sums_agree_with_a_loop_and_the_mean_squared_scale() -> None:
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(60, 3)).astype(np.float32)
    logs = Trajectories(contexts, np.zeros(60, int), np.zeros(60), np.arange(61), n_actions=1)
    ratios = rng.normal(size=60)
    found = ball_weights(LogWeights(ratios, logs.offsets), logs, np.ones((60, 1)), radius=0.4)
    wide = contexts.astype(np.float64)
    for row, total in zip(found.rows, found.sums, strict=True):
        near = ((wide - wide[row]) ** 2).mean(axis=1) <= 0.4
        assert total == pytest.approx(np.exp(ratios[near]).sum())


def test_only_so_many_contexts_are_looked_at() -> None:
    logs = grid_logs()
    ones = LogWeights(np.zeros(400), logs.offsets)
    found = ball_weights(ones, logs, np.full((400, 2), 0.5), radius=0.1, most_contexts=7)
    assert found.rows.tolist() == [0, 66, 133, 200, 266, 332, 399]


def test_avoided_contexts_are_ranked_and_apart() -> None:
    # Three clusters of initial contexts; the policy drops the first (10 episodes), halves the second (20).
    contexts = np.repeat([[0.0, 5.0], [50.0, 5.0], [100.0, 5.0]], [10, 20, 10], axis=0)
    weights = np.repeat([0.0, 0.5, 3.0], [10, 20, 10])
    returns = np.repeat([-9.0, 0.0, 1.0], [10, 20, 10])
    logs = Trajectories(contexts, np.zeros(40, int), returns, np.arange(41), feature_names=["size", "age"])
    with np.errstate(divide="ignore"):
        table = avoided_contexts(np.log(weights), logs, radius=1.0)
    assert [round(row.missing, 9) for row in table] == [10.0, 10.0]
    assert {row.features["size"] for row in table} == {0.0, 50.0}
    worst = next(row for row in table if row.features["size"] == 0.0)
    assert (worst.neighbours, worst.weight, worst.mean_return) == (10, 0.0, -9.0)
    with np.errstate(divide="ignore"):
        assert len(avoided_contexts(np.log(weights), logs, radius=1.0, most=1)) == 1


def test_equal_weights_avoid_nothing() -> None:
    assert avoided_contexts(np.zeros(400), grid_logs(), radius=0.01) == ()


def estimate(value: float, error: float) -> Estimate:
    diagnostics = diagnose(LogWeights([0.0, 0.0], [0, 1, 2]))
    return Estimate(value, None, None, None, "sntis", None, 2, 2.0, error, diagnostics)


def test_the_gap_between_training_and_validation() -> None:
    gap = train_validation_gap(estimate(10.0, 3.0), estimate(4.0, 4.0))
    assert (gap.gap, gap.standard_error) == (6.0, 5.0)
    assert gap.z == pytest.approx(1.2)
    assert np.isnan(train_validation_gap(estimate(1.0, 0.0), estimate(1.0, 0.0)).z)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="every weight is zero"):
        low_return_weight(np.full(2, -np.inf), np.zeros(2), 0.0)
    with pytest.raises(InputError, match="radius -1"):
        decompose(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, 1), np.float32), radius=-1.0)
    with pytest.raises(InputError, match="metric 'manhattan'"):
        avoided_contexts(np.zeros(400), grid_logs(), radius=1.0, metric="manhattan")
