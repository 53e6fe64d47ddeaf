"""Distances to the nearest logged context with each of 25 actions, beside scikit-learn and the bare matrix product.

    python benchmarks/bench.py nearest_actions

Every context of the log is asked about. scikit-learn does one brute-force search for each action, in float64.
"""

import numpy as np
from measuring import Speed, Work

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius

FEATURES, ACTIONS, LENGTH = 44, 25, 13
ROWS_AT_ONCE = 512


def logs_of(steps: int, features: int = FEATURES, actions: int = ACTIONS) -> Trajectories:
    """Correlated features and actions that depend on them, roughly as in intensive care."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(steps, 12)) @ rng.normal(size=(12, features)) / np.sqrt(12)
    contexts = (0.7 * common + 0.7 * rng.normal(size=(steps, features))).astype(np.float32)
    scores = contexts @ rng.normal(size=(features, actions)) / 4
    chosen = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    offsets = np.unique(np.append(np.arange(0, steps, LENGTH), steps))
    return Trajectories(contexts, chosen, np.zeros(steps), offsets, n_actions=actions)


def by_poela(steps: int) -> Work:
    """Everything that `Eligibility` does, from the logs to distances."""
    import torch  # noqa: F401 - a large search would import it while it is timed

    logs = logs_of(steps)
    return lambda: Radius(0.6).fit(logs).distances(logs.contexts)


def by_scikit_learn(steps: int) -> Work:
    """One search for each action."""
    from sklearn.neighbors import NearestNeighbors

    logs = logs_of(steps)
    contexts = logs.contexts.astype(np.float64)

    def work() -> FloatArray:
        columns = []
        for action in range(logs.n_actions):
            search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(contexts[logs.actions == action])
            columns.append(search.kneighbors(contexts)[0][:, 0] ** 2 / logs.n_features)
        return np.stack(columns, axis=1)

    return work


def bare_product(steps: int) -> Work:
    """Products of all contexts with all logged ones in float32, and nothing else."""
    logs = logs_of(steps)
    of_actions = [np.ascontiguousarray(logs.contexts[logs.actions == action].T) for action in range(logs.n_actions)]

    def work() -> None:
        for points in of_actions:
            for start in range(0, steps, ROWS_AT_ONCE):
                np.matmul(logs.contexts[start : start + ROWS_AT_ONCE], points)

    return work


SPEED = Speed(
    case=f"Logged steps with {FEATURES} features and {ACTIONS} actions, all asked about all",
    ours=by_poela,
    alternative=by_scikit_learn,
    alternative_name="scikit-learn, NearestNeighbors",
    floor=bare_product,
    floor_name="bare matrix product in float32",
    sizes=(7_500, 15_000, 30_000),
    large=(30_000, 60_000, 117_000),
)
