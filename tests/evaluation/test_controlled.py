"""The gain with control variates: exactly unbiased for any values by enumeration, and shares from the other folds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.controlled import Controlled, best_share, controls, mean_to_come
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import weights_of
from poela.stats.gain import least_value
from poela.stats.weights import LogWeights


def rows(rng: np.random.Generator, count: int) -> FloatArray:
    chances = rng.uniform(0.1, 1.0, (count, 2))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("known", ["all", "own"])
@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("steps", [1, 3])
def test_its_mean_is_the_gain_for_any_values(steps: int, share: float, discount: float, known: str) -> None:
    """Every course of a random decision process with two actions, weighted by its chance under the logging policy."""
    rng = np.random.default_rng(steps)
    histories = [h for t in range(steps) for h in itertools.product((0, 1), repeat=t)]
    place = {h: i for i, h in enumerate(histories)}
    mu, pi, q, reward = rows(rng, len(place)), rows(rng, len(place)), *rng.normal(size=(2, len(place), 2))
    to_come = rng.normal(size=steps)
    total, gain, chances = 0.0, 0.0, 0.0
    for actions in itertools.product((0, 1), repeat=steps):
        at = np.array([place[actions[:t]] for t in range(steps)])
        taken = np.array(actions)
        of_mu, of_pi = mu[at, taken], pi[at, taken]
        logged = mu[at] if known == "all" else of_mu
        logs = Trajectories(np.zeros((steps, 1)), taken, reward[at, taken], [0, steps], logged, n_actions=2)
        values = ModelValues(
            q[at, taken], (pi * q).sum(axis=1)[at], None, (mu * q).sum(axis=1)[at] if known == "all" else None
        )
        evidence = Evidence(weights_of(pi[at], logs), logs, discount, values=values)
        first, second = controls(evidence, to_come)[:, 0]
        course = float(logs.returns(discount)[0])
        total += of_mu.prod() * (first + share * second)
        gain += (of_pi.prod() - of_mu.prod()) * course
        chances += of_mu.prod()
    assert chances == pytest.approx(1)
    assert total == pytest.approx(gain, abs=1e-12)
    assert abs(gain) > 1e-3


def test_one_step_with_the_whole_share_is_the_doubly_robust_gain() -> None:
    rng = np.random.default_rng(0)
    n = 50
    mu, pi, q = rows(rng, n), rows(rng, n), rng.normal(size=(n, 2))
    actions, rewards = (rng.random(n) < mu[:, 1]).astype(np.int64), rng.normal(size=n)
    logs = Trajectories(np.zeros((n, 1)), actions, rewards, np.arange(n + 1), mu)
    here = np.arange(n), actions
    values = ModelValues(q[here], (pi * q).sum(axis=1), None, (mu * q).sum(axis=1))
    first, second = controls(Evidence(weights_of(pi, logs), logs, values=values), np.full(n, 7.0))
    weights = pi[here] / mu[here]
    np.testing.assert_allclose(first + second, ((pi - mu) * q).sum(axis=1) + (weights - 1) * (rewards - q[here]))
    np.testing.assert_allclose(first, (weights - 1) * (rewards - 7.0))


def estimated(n: int, seed: int) -> tuple[Evidence, FloatArray]:
    rng = np.random.default_rng(seed)
    logs = Trajectories(
        np.zeros((2 * n, 1)), rng.integers(0, 2, 2 * n), rng.normal(size=2 * n), np.arange(0, 2 * n + 1, 2),
        np.full((2 * n, 2), 0.5), estimated=True,
    )  # fmt: skip
    weights = weights_of(rows(rng, 2 * n), logs)
    values = ModelValues(*rng.normal(size=(2, 2 * n)))
    evidence = Evidence(weights, logs, values=values)
    return evidence, controls(evidence, np.zeros(2 * n))


def test_of_estimated_propensities_weights_are_normalised() -> None:
    evidence, (start, shift) = estimated(40, seed=1)
    plain, whole = (Controlled(start, shift, np.full(40, share), estimated=True) for share in (0.0, 1.0))
    mean = evidence.returns.mean()
    assert plain.gain(evidence).value == pytest.approx(sntis(evidence).value - mean)
    assert plain.lost(evidence, 2.0) == pytest.approx(
        sntis(evidence).value - least_value(evidence.used, evidence.returns, 2.0)
    )
    weights = np.exp(evidence.weights.episodes)
    taken, expected = (np.asarray(own).reshape(40, 2) for own in (evidence.model.taken, evidence.model.expected))
    rewards = evidence.logs.rewards.reshape(40, 2)
    beyond = rewards[:, 0] + expected[:, 1] - taken[:, 0] + rewards[:, 1] - taken[:, 1]
    assert whole.gain(evidence).value == pytest.approx(expected[:, 0].mean() + weights @ beyond / weights.sum() - mean)


@given(st.integers(0, 1000), st.integers(0, 2), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_share_of_a_fold_does_not_depend_on_what_it_shows(seed: int, fold: int, is_estimated: bool) -> None:
    evidence, _ = estimated(30, seed)
    rng = np.random.default_rng(seed)
    fold_of = np.arange(30) // 10
    folds = [rng.normal(size=(2, 10)) for _ in range(3)]
    before = Controlled.of_folds(folds, evidence, fold_of, estimated=is_estimated)
    changed = [own + 5 * rng.normal(size=(2, 10)) if number == fold else own for number, own in enumerate(folds)]
    after = Controlled.of_folds(changed, evidence, fold_of, estimated=is_estimated)
    assert before is not None
    assert after is not None
    own = fold_of == fold
    np.testing.assert_allclose(before.shares[own], after.shares[own], rtol=0, atol=1e-12)
    assert ((before.shares >= 0) & (before.shares <= 1)).all()


def test_the_share_is_that_of_least_variance() -> None:
    rng = np.random.default_rng(3)
    control = rng.normal(size=200)
    noise = rng.normal(size=200) - 0.6 * control
    grid = np.linspace(0, 1, 1001)
    variances = [np.var(noise + share * control) for share in grid]
    assert best_share(noise, control) == pytest.approx(grid[int(np.argmin(variances))], abs=1e-3)


def test_infinite_weights_are_not_controlled() -> None:
    evidence, own = estimated(30, 0)
    assert (
        Controlled.of_folds([np.where(own > 0, np.inf, own)] * 1, evidence, np.zeros(30, np.int64), estimated=True)
        is None
    )


def test_what_is_left_to_come_is_that_of_the_training_episodes() -> None:
    train = Trajectories([[0.0]] * 5, [0] * 5, [1.0, 10.0, 100.0, 2.0, 4.0], [0, 3, 5])
    found = mean_to_come(train, np.array([0, 2, 4]), discount=0.5)
    np.testing.assert_allclose(found, [(1 + 5 + 25 + 2 + 2) / 2, 100.0, 0.0])


def test_what_some_episodes_add_is_their_part_of_the_gain() -> None:
    evidence, (start, shift) = estimated(40, seed=2)
    controlled = Controlled(start, shift, np.full(40, 0.7), estimated=True)
    everyone, one = np.arange(40), np.array([3])
    now = controlled.added(evidence, evidence.used, np.stack([start, shift]), everyone)
    # To first order: a small change of one weight moves the gain by as much.
    step, moved = 1e-6, evidence.used.copy()
    moved[3] += step
    nudged = Evidence(LogWeights(moved, np.arange(41)), Trajectories(
        np.zeros((40, 1)), np.zeros(40), evidence.returns, np.arange(41)))  # fmt: skip
    slope = (controlled.gain(nudged).value - controlled.gain(evidence).value) / step
    then = controlled.added(evidence, moved[one], np.stack([start, shift])[:, one], one)
    assert (then - now[one])[0] / step == pytest.approx(slope, rel=1e-3)
