"""Processes with a known best plain policy: a published one, and a trial of three incentives."""

from typing import Any

import numpy as np

from poela import Trajectories
from poela.core.arrays import FloatArray, IntArray

EFFECTS = (0.0, 0.05, 0.08)  # of no, a small and a large incentive on the chance of success


def zhou_athey_wager(n: int, seed: int) -> tuple[Trajectories, FloatArray]:
    """The process of section 6.4.1 of Zhou, Athey & Wager (arXiv 1810.04778), and the mean outcome of every action.

    The logging policy is worth 1.383, the best tree of one condition 1.756, of two 2.216, and the best policy 2.253.
    """
    rng = np.random.default_rng(seed)
    x = rng.random((n, 10)).astype(np.float32)
    a, b = x[:, 4].astype(np.float64), x[:, 6].astype(np.float64)
    ellipses = (a**2 / 0.6**2 + b**2 / 0.35**2 < 1) | ((a - 1) ** 2 / 0.4**2 + (b - 1) ** 2 / 0.35**2 < 1)
    region = np.where(ellipses, 2, np.where((a < 0.6) & (b > 0.35), 0, 1))
    means = np.array([[3.0, 2.0, 1.0], [1.5, 2.0, 1.5], [-1.5, 0.0, 1.5]])[region]
    chances = np.array([[0.2, 0.6, 0.2], [0.2, 0.6, 0.2], [0.4, 0.2, 0.4]])[region]
    actions: IntArray = np.minimum((chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), 2)
    rewards = means[np.arange(n), actions] + 2 * rng.normal(size=n)
    return Trajectories(x, actions, rewards, np.arange(n + 1), chances), means


def true_value(policy: Any, logs: Trajectories, means: FloatArray) -> float:
    """Of a plain policy, by the true means, with the logged propensities as practice."""
    assert logs.propensities is not None
    acted = np.array(logs.propensities)
    left = np.ones(len(acted), np.bool_)
    for case in policy.cases:
        rows = left & case.holds(logs.contexts, policy.feature_names)
        acted[rows] = case.acted(logs.propensities[rows], np.ones((int(rows.sum()), 3), np.bool_))
        left &= ~rows
    return float((acted * means).sum(axis=1).mean())


def trial(seed: int, n: int = 2830, effects: tuple[float, ...] = EFFECTS) -> Trajectories:
    """A trial of three incentives, like a real one."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(3, size=n)
    contexts = np.stack([rng.integers(18, 80, n), rng.integers(2, size=n), rng.normal(30, 8, n)], axis=1)
    rewards = (rng.random(n) < 0.3 + np.asarray(effects)[actions]) * 1.0
    names: dict[str, Any] = {"feature_names": ["age", "sex", "income"], "action_names": ["none", "small", "large"]}
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), np.full((n, 3), 1 / 3), **names)
