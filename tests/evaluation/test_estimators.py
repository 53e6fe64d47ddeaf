"""Estimators against enumeration of a small decision problem and against slow readings of the papers' formulas."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from tests.problems import PROBLEM, TARGET

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS, lengths_considered, smallest_on_simplex
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import log_weights
from poela.simulators.tabular import TablePolicy
from poela.stats.contributions import Contributions, standard_error
from poela.stats.weights import LogWeights

BEHAVIOR = TablePolicy(PROBLEM, [[0.3, 0.7], [0.8, 0.2]])


def random_evidence(seed: int, discount: float = 0.9, n: int = 12) -> Evidence:
    """Ragged episodes with moderate weights and a wrong model."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, size=n))])
    steps = int(offsets[-1])
    logs = Trajectories(np.zeros((steps, 1)), np.zeros(steps, int), rng.normal(size=steps), offsets, n_actions=2)
    model = ModelValues(rng.normal(size=steps), rng.normal(size=steps))
    return Evidence(
        LogWeights(rng.normal(scale=0.6, size=steps), offsets), logs, discount, truncation=2.0, values=model
    )


def per_episode(evidence: Evidence) -> list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Rewards, running weights (as plain products), Q and V of each episode, padded to the longest as if absorbed."""
    assert evidence.values is not None
    offsets = evidence.logs.offsets
    horizon = int(np.diff(offsets).max())
    result = []
    for start, end in itertools.pairwise(offsets):
        idle = horizon - (end - start)
        running = np.cumprod(np.exp(evidence.weights.log_ratios[start:end]))
        result.append(
            (
                np.r_[evidence.logs.rewards[start:end], np.zeros(idle)],
                np.r_[running, np.full(idle, running[-1])],
                np.r_[evidence.values.taken[start:end], np.zeros(idle)],
                np.r_[evidence.values.expected[start:end], np.zeros(idle)],
            )
        )
    return result


def slow_cwpdis(evidence: Evidence) -> float:
    episodes = per_episode(evidence)
    total = 0.0
    for step in range(len(episodes[0][0])):
        weights = [episode[1][step] for episode in episodes]
        rewards = [episode[0][step] for episode in episodes]
        total += evidence.discount**step * sum(w * r for w, r in zip(weights, rewards, strict=True)) / sum(weights)
    return total


def slow_j_step_returns(evidence: Evidence, counts: FloatArray) -> FloatArray:
    """g⁽ʲ⁾ for j = −1 … H − 1 of Thomas & Brunskill (2016), in parts [n, J]; episode i counts counts[i] times."""
    episodes = per_episode(evidence)
    horizon = len(episodes[0][0])

    def normalised(step: int) -> FloatArray:
        weights = np.array([1.0 if step < 0 else episode[1][step] for episode in episodes]) * counts
        return np.asarray(weights / weights.sum())

    parts = np.zeros((len(episodes), horizon + 1))
    for j in range(-1, horizon):
        for i, (rewards, _, q, v) in enumerate(episodes):
            for t in range(j + 1):
                parts[i, j + 1] += evidence.discount**t * normalised(t)[i] * (rewards[t] - q[t])
                parts[i, j + 1] += evidence.discount**t * normalised(t - 1)[i] * v[t]
            if j + 1 < horizon:
                parts[i, j + 1] += evidence.discount ** (j + 1) * normalised(j)[i] * v[j + 1]
    return parts


def slow_magic(evidence: Evidence) -> float:
    n = evidence.weights.n_episodes
    ones = np.ones(n)
    parts = slow_j_step_returns(evidence, ones)
    returns = parts.sum(axis=0)
    nudges = np.eye(n) * 1e-5
    slopes = [
        (slow_j_step_returns(evidence, ones + e)[:, -1].sum() - slow_j_step_returns(evidence, ones - e)[:, -1].sum())
        / 2e-5
        for e in nudges
    ]
    margin = norm.ppf(0.95) * np.sqrt(np.square(slopes).sum())
    low, high = returns[-1] - margin, returns[-1] + margin
    bias = np.where(returns > high, returns - high, np.where(returns < low, returns - low, 0.0))
    centred = parts - parts.mean(axis=0)
    error = n / (n - 1) * centred.T @ centred + np.outer(bias, bias)
    width = len(returns)
    on_simplex: Any = {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(width)}
    exactly: Any = {"ftol": 1e-16, "maxiter": 1000}
    solve: Any = minimize
    found = solve(
        lambda x: float(x @ error @ x),
        np.full(width, 1 / width),
        jac=lambda x: 2 * error @ x,
        bounds=[(0, 1)] * width,
        constraints=on_simplex,
        options=exactly,
    )
    return float(found.x @ returns)


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("name", ["is", "pdis", "dr"])
def test_unbiased_over_every_episode_that_can_happen(name: str, discount: float) -> None:
    logs, chances = PROBLEM.episodes_of(BEHAVIOR)
    of_target, target_chances = PROBLEM.episodes_of(TARGET)
    truth = float(target_chances @ of_target.returns(discount))
    rng = np.random.default_rng(0)
    any_q = rng.normal(size=(2, 2))[logs.contexts.argmax(axis=1)]
    model = ModelValues.under(TARGET.along(logs), any_q, logs.actions)
    evidence = Evidence(log_weights(TARGET, logs), logs, discount, values=model)
    contributions = ESTIMATORS[name].function(evidence)
    assert float(chances @ contributions.numerators[:, 0]) == pytest.approx(truth, abs=1e-12)
    assert (contributions.denominators == 1).all()
    if discount == 1.0:
        assert truth == pytest.approx(PROBLEM.value(TARGET), abs=1e-12)


def test_the_average_of_the_true_q_is_the_value_of_each_start() -> None:
    logs, _ = PROBLEM.episodes_of(BEHAVIOR)
    states = logs.contexts.argmax(axis=1)
    true_q = PROBLEM.q_values(TARGET.table)
    model = ModelValues.under(TARGET.along(logs), true_q[logs.step_numbers, states], logs.actions)
    evidence = Evidence(log_weights(TARGET, logs), logs, values=model)
    value_of_state = (TARGET.table * true_q[0]).sum(axis=1)
    averages = ESTIMATORS["fqe"].function(evidence).numerators[:, 0]
    np.testing.assert_allclose(averages, value_of_state[states[logs.offsets[:-1]]], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_episode_weighting_agrees_with_plain_products(seed: int, discount: float) -> None:
    evidence = random_evidence(seed, discount)
    episodes = per_episode(evidence)
    weights = np.array([episode[1][-1] for episode in episodes])
    returns = np.array([sum(discount**t * r for t, r in enumerate(episode[0])) for episode in episodes])
    truncated = np.minimum(weights, 2.0)
    expected = {
        "is": (weights * returns).mean(),
        "truncated_is": (truncated * returns).mean(),
        "snis": (weights * returns).sum() / weights.sum(),
        "sntis": (truncated * returns).sum() / truncated.sum(),
        "pdis": np.mean([sum(discount**t * e[1][t] * r for t, r in enumerate(e[0])) for e in episodes]),
        "behavior": returns.mean(),
        "direct": np.mean([episode[3][0] for episode in episodes]),
    }
    for name, value in expected.items():
        assert ESTIMATORS[name].function(evidence).value == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("seed", range(3))
def test_sntis_has_the_standard_error_of_the_paper(seed: int) -> None:
    evidence = random_evidence(seed)
    weights = np.minimum(np.exp(evidence.weights.episodes), evidence.truncation)
    value = (weights * evidence.returns).sum() / weights.sum()
    variance = (((evidence.returns - value) * weights) ** 2).sum() / weights.sum() ** 2
    assert standard_error(ESTIMATORS["sntis"].function(evidence)) == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_cwpdis_agrees_with_a_slow_reading(seed: int) -> None:
    evidence = random_evidence(seed)
    assert ESTIMATORS["cwpdis"].function(evidence).value == pytest.approx(slow_cwpdis(evidence), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_wdr_agrees_with_a_slow_reading(seed: int) -> None:
    evidence = random_evidence(seed)
    slow = slow_j_step_returns(evidence, np.ones(evidence.weights.n_episodes))[:, -1].sum()
    assert ESTIMATORS["wdr"].function(evidence).value == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_magic_agrees_with_a_slow_reading(seed: int) -> None:
    evidence = random_evidence(seed, n=6)
    assert ESTIMATORS["magic"].function(evidence).value == pytest.approx(slow_magic(evidence), abs=1e-5)


def test_magic_goes_on_where_no_episode_has_weight_left() -> None:
    evidence = random_evidence(0)
    ratios = np.array(evidence.weights.log_ratios)
    ratios[evidence.logs.step_numbers >= 1] = -np.inf
    first_steps = np.diff(evidence.logs.offsets) == 1
    assert not first_steps.all()
    dead = Evidence(LogWeights(ratios, evidence.logs.offsets), evidence.logs, values=evidence.values)
    longer = dead.logs.take(~first_steps)
    rows = np.repeat(~first_steps, dead.logs.lengths)
    assert dead.values is not None
    model = ModelValues(dead.values.taken[rows], dead.values.expected[rows])
    only_longer = Evidence(LogWeights(ratios[rows], longer.offsets), longer, values=model)
    assert np.isnan(ESTIMATORS["wdr"].function(only_longer).value)
    assert np.isfinite(ESTIMATORS["magic"].function(only_longer).value)


def test_the_simplex_problem_agrees_with_a_general_solver() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        factor = rng.normal(size=(4, 6)) * 10.0 ** rng.integers(-4, 5)
        found = smallest_on_simplex(factor)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        # First-order conditions: the slope is equal where x > 0 and no smaller elsewhere.
        slope = factor.T @ (factor @ found)
        lowest = slope[found > 1e-9].max()
        assert (slope >= lowest - 1e-6 * np.abs(factor).max() ** 2).all()


def test_long_horizons_blend_few_lengths_from_first_to_last() -> None:
    kept = lengths_considered(5001)
    assert (len(kept), kept[0], kept[-1]) == (64, 0, 5000)


def test_huge_weights_cannot_overflow_a_normalised_estimate() -> None:
    evidence = random_evidence(0)
    huge = Evidence(
        LogWeights(evidence.weights.log_ratios + 700, evidence.logs.offsets), evidence.logs, values=evidence.values
    )
    for name in ("snis", "sntis", "cwpdis", "wdr", "magic"):
        contributions = ESTIMATORS[name].function(huge)
        assert np.isfinite(contributions.value), name
        episodes_alone = Contributions(contributions.numerators, contributions.denominators)
        assert np.isfinite(standard_error(episodes_alone)), name


def test_vanishing_weights_cannot_underflow_a_normalised_estimate() -> None:
    evidence = random_evidence(0)
    tiny = Evidence(LogWeights(evidence.weights.log_ratios - 900, evidence.logs.offsets), evidence.logs)
    for name in ("snis", "sntis", "cwpdis"):
        assert np.isfinite(ESTIMATORS[name].function(tiny).value), name


def test_a_table_that_would_not_fit_memory_is_refused_in_words() -> None:
    lengths = np.r_[np.ones(100_000, int), 5000]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = int(offsets[-1])
    logs = Trajectories(np.zeros((steps, 1)), np.zeros(steps, int), np.ones(steps), offsets)
    evidence = Evidence(LogWeights(np.zeros(steps), offsets), logs)
    with pytest.raises(InputError, match="100001 episodes × 5000 steps"):
        ESTIMATORS["cwpdis"].function(evidence)
    assert ESTIMATORS["pdis"].function(evidence).value == pytest.approx(105_000 / 100_001)


def test_unnormalised_weights_beyond_floating_point_are_infinite_not_wrong() -> None:
    logs = Trajectories([[0.0]] * 2, [0, 0], [1.0, 1.0], [0, 2])
    evidence = Evidence(LogWeights([400.0, 400.0], logs.offsets), logs)
    assert ESTIMATORS["is"].function(evidence).value == np.inf
    assert np.isnan(standard_error(ESTIMATORS["is"].function(evidence)))


def test_without_any_weight_there_is_no_estimate() -> None:
    logs = Trajectories([[0.0]] * 2, [0, 0], [1.0, 1.0], [0, 1, 2])
    contributions = ESTIMATORS["sntis"].function(Evidence(LogWeights([-np.inf, -np.inf], logs.offsets), logs))
    assert np.isnan(contributions.value)
    assert np.isnan(standard_error(contributions))


@pytest.mark.parametrize("name", [name for name, estimator in ESTIMATORS.items() if estimator.model != "none"])
def test_model_estimators_ask_for_a_model(name: str) -> None:
    evidence = random_evidence(0)
    with pytest.raises(InputError, match="needs a Q model"):
        ESTIMATORS[name].function(Evidence(evidence.weights, evidence.logs))


def test_every_estimator_gives_contributions_of_every_episode() -> None:
    evidence = random_evidence(0)
    for name, estimator in ESTIMATORS.items():
        contributions = estimator.function(evidence)
        assert isinstance(contributions, Contributions), name
        assert contributions.n_episodes == evidence.weights.n_episodes, name
