"""Outcomes that were not seen: weights of having been seen in every estimate, against answers worked out by hand."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import poela
from poela.behavior.staying import as_if_all_seen, lost_share, repeats, with_staying
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import weights_of
from poela.stats.contributions import Contributions
from poela.stats.gain import least_value, seen_factors


def sigmoid(score: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(1 / (1 + np.exp(-score)))


def worked_example() -> tuple[Evidence, list[float]]:
    """Three episodes of two steps, with made-up Q, π, μ and C, and polle's score of each, from its formula.

    Z = Q₁ + Σ_r {∏_{j≤r} Δ_j/C_j · π_j/μ_j} (Q_{r+1} − Q_r): Q_r(H_r, π) is the value of going on by π, Q_r that of
    what was done where it is taken off, and Q_3 the outcome. The third episode is lost at its second step.
    """
    mu = np.array([[0.5, 0.5], [0.8, 0.2], [0.5, 0.5], [0.3, 0.7], [0.25, 0.75], [0.6, 0.4]])
    pi = np.array([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    q = np.array([[1.0, 2.0], [0.5, 3.0], [1.5, 0.3], [2.2, 1.1], [0.4, 0.9], [1.7, 2.5]])
    actions = np.array([1, 0, 0, 1, 1, 1])
    staying = np.array([0.9, 0.7, 0.8, 0.5, 0.6, 0.4])
    rewards = np.array([0.3, 4.0, -0.2, 1.0, 0.1, 0.0])
    offsets = [0, 2, 4, 6]
    log_staying = -np.log(staying)
    log_staying[5] = -np.inf
    lost = [False, False, True]
    logs = Trajectories(np.zeros((6, 1)), actions, rewards, offsets, propensities=mu, lost=lost, staying=log_staying)
    values = ModelValues.under(pi, q, actions)
    evidence = Evidence(weights_of(pi, logs), logs, values=values)
    scores = []
    for first, seen in ((0, 1.0), (2, 1.0), (4, 0.0)):
        ratio = [pi[row, actions[row]] / mu[row, actions[row]] for row in (first, first + 1)]
        value = [float(pi[row] @ q[row]) for row in (first, first + 1)]
        taken = [float(q[row, actions[row]]) for row in (first, first + 1)]
        once = ratio[0] / staying[first]
        twice = once * ratio[1] * seen / staying[first + 1]
        scores.append(
            value[0] + once * (rewards[first] + value[1] - taken[0]) + twice * (rewards[first + 1] - taken[1])
        )
    return evidence, scores


def test_doubly_robust_scores_are_those_of_the_published_formula() -> None:
    evidence, scores = worked_example()
    contributions = ESTIMATORS["dr"].function(evidence)
    np.testing.assert_allclose(contributions.numerators[:, 0], scores, rtol=0, atol=1e-10)


def test_what_was_achieved_is_weighted_by_having_been_seen() -> None:
    evidence, _ = worked_example()
    weights = np.array([1 / (0.9 * 0.7), 1 / (0.8 * 0.5)])
    expected = float(weights @ [4.3, 0.8] / weights.sum())
    assert ESTIMATORS["behavior"].function(evidence).value == pytest.approx(expected, abs=1e-12)
    mean = Contributions.of_logging(evidence.returns, evidence.logs.seen_weights)
    assert mean.value == pytest.approx(expected, abs=1e-12)


def test_a_lost_episode_has_no_weight_whatever_it_had_earned() -> None:
    evidence, _ = worked_example()
    assert np.exp(evidence.weights.episodes)[2] == 0
    other = Trajectories(
        evidence.logs.contexts,
        evidence.logs.actions,
        [*evidence.logs.rewards[:4], 1e6, -1e7],
        evidence.logs.offsets,
        propensities=evidence.logs.propensities,
        lost=evidence.logs.lost,
        staying=evidence.logs.staying,
    )
    for name in ("sntis", "is", "behavior"):
        known = ESTIMATORS[name].function(evidence).value
        assert ESTIMATORS[name].function(Evidence(evidence.weights, other)).value == known


def trial(seed: int, n: int = 1500) -> tuple[Trajectories, NDArray[Any]]:
    """One step: those who gain most by treatment stay, the others go."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=n), rng.integers(0, 2, n)
    outcome = x + actions + rng.normal(size=n) / 2
    lost = rng.random(n) > sigmoid(0.5 + 1.5 * x * actions)
    logs = Trajectories(
        x[:, None],
        actions,
        np.where(lost, 0.0, outcome),
        np.arange(n + 1),
        propensities=np.full((n, 2), 0.5),
        lost=lost,
    )
    return logs, lost


class Treat:
    def probabilities(self, contexts: NDArray[Any]) -> NDArray[Any]:
        return np.tile([0.0, 1.0], (len(contexts), 1))


def test_informative_loss_biases_complete_cases_and_not_weighted_ones() -> None:
    # Everybody treated gains 1 on average: E[x + 1] = 1.
    logs, lost = trial(0)
    estimate = poela.evaluate(Treat(), logs)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < 1 < estimate.high
    seen, n = ~lost, int((~lost).sum())
    rows: Any = (logs.contexts[seen], logs.actions[seen], logs.rewards[seen], np.arange(n + 1))
    bare: Any = Trajectories
    complete = poela.evaluate(Treat(), bare(*rows, propensities=np.full((n, 2), 0.5)))
    assert complete.low is not None
    assert complete.low > 1.2
    assert estimate.verdict == "caution"
    assert "were not seen" in " ".join(estimate.reasons)


def test_chances_are_close_to_the_truth() -> None:
    logs, lost = trial(1, n=4000)
    known = with_staying(logs)
    assert known.staying is not None
    chances = np.exp(-known.staying[~lost])
    truth = sigmoid(0.5 + 1.5 * logs.contexts[:, 0] * logs.actions)[~lost]
    assert np.abs(chances - np.maximum(truth, 0.05)).mean() < 0.03
    assert np.all(known.staying[lost] == -np.inf)


def test_nothing_changes_where_nobody_was_lost() -> None:
    logs, _ = trial(2, n=200)
    whole = Trajectories(logs.contexts, logs.actions, logs.rewards, logs.offsets, propensities=np.full((200, 2), 0.5))
    told = Trajectories(
        logs.contexts, logs.actions, logs.rewards, logs.offsets, propensities=np.full((200, 2), 0.5), lost=np.zeros(200)
    )
    assert poela.evaluate(Treat(), told).value == poela.evaluate(Treat(), whole).value
    assert lost_share(told) == 0
    assert as_if_all_seen(whole) is whole


def test_lost_everybody_is_refused() -> None:
    logs = Trajectories(np.zeros((9, 1)), [0] * 9, [0.0] * 9, np.arange(10), lost=[True] * 9)
    with pytest.raises(InputError, match="only 0 of 9 episodes were seen"):
        with_staying(logs)


def test_repeats_add_up_to_weights() -> None:
    weights = np.random.default_rng(0).uniform(0, 3, 1000)
    times = repeats(weights, seed=1)
    assert np.all(np.abs(times - weights) < 1)
    assert abs(times.sum() - weights.sum()) < 1


def test_the_least_value_with_factors_is_the_best_of_all_corners() -> None:
    rng = np.random.default_rng(3)
    weights, returns, seen = rng.uniform(0.5, 2, 7), rng.normal(size=7), -np.log(rng.uniform(0.3, 0.9, 7))
    low, high = seen_factors(seen, 2.0)
    corners = [np.where([(corner >> place) & 1 for place in range(7)], high, low) * weights for corner in range(2**7)]
    expected = min(float(corner @ returns / corner.sum()) for corner in corners)
    assert least_value(np.log(weights), returns, 2.0, (low, high)) == pytest.approx(expected, abs=1e-12)
