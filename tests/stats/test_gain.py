"""The gain over the logging policy: coverage, closed forms, and worst cases by linear programming."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.stats.bounds import Interval
from poela.stats.contributions import Contributions
from poela.stats.gain import MOST_SENSITIVITY, Gain, gain_over_logging, least_value, vanishing_sensitivity
from poela.stats.verdict import TrustThresholds


class Chooser(Memoryless):
    def __init__(self, p: float) -> None:
        self.p = p

    def probabilities(self, contexts: object) -> FloatArray:
        return np.tile([1 - self.p, self.p], (len(np.asarray(contexts)), 1))


def bandit(n: int, seed: int, *, effect: float = 0.3, binary: bool = False) -> Trajectories:
    """One step, a fair coin decides, action 1 pays `effect` more; most of the noise is in the context."""
    rng = np.random.default_rng(seed)
    contexts, actions = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    rewards = 2 * contexts[:, 0] + effect * actions + 0.2 * rng.normal(size=n)
    if binary:
        rewards = (rng.random(n) < 0.3 + effect * actions).astype(float)
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), propensities=np.full((n, 2), 0.5))


def gain_of(policy: Memoryless, logs: Trajectories, estimator: str = "sntis") -> Gain:
    gain = evaluate(policy, logs, estimator=estimator).gain
    assert gain is not None
    return gain


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("n", [100, 400])
def test_the_paired_interval_covers(binary: bool, n: int) -> None:
    gains = [gain_of(Chooser(0.9), bandit(n, seed, binary=binary)) for seed in range(60)]
    truth = 0.3 * (0.9 - 0.5)
    covered = sum(gain.low <= truth <= gain.high for gain in gains if gain.low is not None and gain.high is not None)
    assert covered >= 53  # of 60: fewer have a chance of 1 in 100 at 95%
    assert np.mean([gain.value for gain in gains]) == pytest.approx(truth, abs=0.06)


def test_what_both_policies_share_cancels() -> None:
    logs = bandit(400, seed=0)
    estimate = evaluate(Chooser(0.6), logs)
    assert estimate.gain is not None
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.gain.low is not None
    assert estimate.gain.high is not None
    assert estimate.gain.high - estimate.gain.low < 0.5 * (estimate.high - estimate.low)


@pytest.mark.parametrize("estimator", ["is", "snis", "sntis", "pdis", "cwpdis"])
def test_the_logging_policy_gains_nothing_over_itself(estimator: str) -> None:
    logs = bandit(400, seed=1)
    gain = gain_of(Chooser(0.5), logs, estimator)
    assert gain.low is not None
    assert gain.high is not None
    assert (gain.value, gain.sensitivity or 1.0) == pytest.approx((0.0, 1.0), abs=1e-12)
    spread = logs.returns().std() / np.sqrt(400)
    assert -0.3 * spread < gain.low <= 0 <= gain.high < 0.3 * spread


def test_the_fit_of_a_model_is_not_shared_with_the_log() -> None:
    returns = np.random.default_rng(0).normal(size=50)
    interval = Interval(returns.mean() - 1.0, returns.mean() + 1.0, "normal")
    alone, fitted = (
        gain_over_logging(Contributions(returns[:, None], np.ones((50, 1)), variance), returns, interval, 0.95)
        for variance in (0.0, 0.5)
    )
    assert alone.low is not None
    assert fitted.low is not None
    assert fitted.low < alone.low - 0.1


def test_clusters_widen_the_gain() -> None:
    logs = bandit(100, seed=2)
    copies = logs.take(np.repeat(np.arange(100), 4))
    alone = evaluate(Chooser(0.9), logs, interval="normal").gain
    together = evaluate(Chooser(0.9), copies, interval="normal", clusters=np.repeat(np.arange(100), 4)).gain
    assert alone is not None
    assert together is not None
    assert (together.value, together.low, together.high) == pytest.approx((alone.value, alone.low, alone.high))


def least_by_programming(weights: FloatArray, returns: FloatArray, gamma: float) -> float:
    """Charnes & Cooper: weights v = s·w' that sum to 1, with s·w/Γ ≤ v ≤ s·w·Γ."""
    n = len(weights)
    above = np.c_[np.eye(n), -gamma * weights]
    below = np.c_[-np.eye(n), weights / gamma]
    found = linprog(
        np.append(returns, 0.0),
        A_ub=np.vstack([above, below]),
        b_ub=np.zeros(2 * n),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
    )
    return float(found.fun)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_value_is_that_of_a_linear_program_and_of_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, returns = rng.lognormal(size=7), rng.integers(0, 4, size=7).astype(float)
    for gamma in (1.0, 1.3, 5.0):
        found = least_value(np.log(weights) + 700, returns, gamma)  # the scale of weights does not matter
        assert found == pytest.approx(least_by_programming(weights, returns, gamma), abs=1e-8)
        choices = [weights * factors for factors in itertools.product([1 / gamma, gamma], repeat=7)]
        assert found == pytest.approx(min(w @ returns / w.sum() for w in choices), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_vanishes_where_the_least_value_is_the_mean_return(seed: int) -> None:
    rng = np.random.default_rng(seed)
    returns = rng.normal(size=30)
    log_weights = 0.5 * returns + 0.3 * rng.normal(size=30)
    found = vanishing_sensitivity(log_weights, returns)
    root = brentq(
        lambda gamma: least_by_programming(np.exp(log_weights), returns, gamma) - returns.mean(), 1.0, 50.0, xtol=1e-9
    )
    assert found == pytest.approx(root, rel=1e-5)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-3, 3)), min_size=2, max_size=12))
def test_the_sensitivity_is_one_without_a_gain_and_else_the_last_gamma_with_one(
    pairs: list[tuple[float, float]],
) -> None:
    returns, log_weights = np.array(pairs).T
    found = vanishing_sensitivity(log_weights, returns)
    gain = least_value(log_weights, returns, 1.0) - returns.mean()
    assert 1 <= found <= MOST_SENSITIVITY
    if gain < -1e-9:
        assert found == 1
    if 1 < found < MOST_SENSITIVITY:
        assert least_value(log_weights, returns, found * (1 + 1e-6)) <= returns.mean() + 1e-9
        assert least_value(log_weights, returns, 1 + (found - 1) * (1 - 1e-6)) >= returns.mean() - 1e-9


def test_a_gain_that_no_weights_can_undo_and_weights_that_gain_nothing() -> None:
    returns = np.array([0.0, 0.0, 1.0])
    assert vanishing_sensitivity(np.array([-np.inf, -np.inf, 0.0]), returns) == MOST_SENSITIVITY
    nothing = np.full(3, -np.inf)
    assert vanishing_sensitivity(nothing, returns) == 1.0
    assert np.isnan(least_value(nothing, returns, 2.0))


def test_sensitivity_uses_the_weights_of_the_estimator() -> None:
    """Truncation at 1.5 halves what the heavier episodes weigh, so less hidden confounding explains the gain."""
    logs = bandit(400, seed=3, effect=4.0)
    believed = TrustThresholds(truncated_share=(1.0, 1.0))
    whole, truncated = (
        evaluate(Chooser(0.95), logs, estimator=name, truncation=1.5, thresholds=believed).gain
        for name in ("snis", "sntis")
    )
    assert whole is not None
    assert truncated is not None
    weights = np.where(logs.actions == 1, 1.9, 0.1)
    assert whole.sensitivity == pytest.approx(vanishing_sensitivity(np.log(weights), logs.returns()))
    assert truncated.sensitivity == pytest.approx(
        vanishing_sensitivity(np.log(np.minimum(weights, 1.5)), logs.returns())
    )
    assert whole.sensitivity != truncated.sensitivity


def test_no_gamma_where_chance_alone_may_undo_the_gain_or_the_estimate_is_not_to_be_trusted() -> None:
    """A gain above zero whose interval holds zero; one of one effective episode; and the same policy on more logs."""
    unsure = evaluate(Chooser(0.95), bandit(60, seed=5))
    assert unsure.gain is not None
    assert unsure.gain.low is not None
    assert unsure.gain.low < 0 < unsure.gain.value
    rewards = np.append(np.zeros(49), 9.0)
    rare = Trajectories(
        np.zeros((50, 1)), np.append(np.zeros(49, int), 1), rewards, np.arange(51), np.full((50, 2), 0.5)
    )
    lost = evaluate(Chooser(0.999), rare, interval="student")
    assert lost.gain is not None
    assert lost.verdict == "do not trust"
    assert lost.gain.value > 5
    without = evaluate(Chooser(0.95), bandit(4000, seed=5, effect=4.0), interval=None)
    for found in (unsure, lost, without):
        assert found.gain is not None
        assert (found.gain.sensitivity, found.gain.undone_by) == (None, None)
        assert "Γ" not in str(found)
    sure = evaluate(Chooser(0.95), bandit(4000, seed=5, effect=4.0))
    assert sure.gain is not None
    assert sure.gain.undone_by == sure.gain.sensitivity is not None
    assert "vanishes at Γ" in str(sure)
    assert Gain(2.0, -1.0, 5.0, sensitivity=6.5).undone_by is None  # as an earlier version stored it


def test_only_self_normalised_weights_have_a_sensitivity_and_the_log_itself_no_gain() -> None:
    logs = bandit(100, seed=4)
    assert gain_of(Chooser(0.9), logs, "is").sensitivity is None
    assert evaluate(Chooser(0.9), logs, estimator="behavior").gain is None
