"""Nearest same-action distances at the size of the sepsis cohort, beside scikit-learn and a scan row by row.

OMP_NUM_THREADS=2 python benchmarks/nearest_actions.py

The alternatives answer for some of the contexts only; each must agree with ours. The scan is what comes first to mind:
for each context the mean squared difference to all logged ones, then the smallest for each action.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.neighbors import NearestNeighbors

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius

LENGTH = 13


def logs_of(steps: int, features: int, actions: int) -> Trajectories:
    """Correlated features and actions that depend on them, roughly as in intensive care."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(steps, 12)) @ rng.normal(size=(12, features)) / np.sqrt(12)
    contexts = (0.7 * common + 0.7 * rng.normal(size=(steps, features))).astype(np.float32)
    scores = contexts @ rng.normal(size=(features, actions)) / 4
    chosen = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return Trajectories(contexts, chosen, np.zeros(steps), np.arange(0, steps + 1, LENGTH), n_actions=actions)


def by_poela(logs: Trajectories, rows: int) -> FloatArray:
    """Everything that `Eligibility` does, from the logs to distances."""
    return Radius(0.6).fit(logs).distances(logs.contexts[:rows])


def by_scikit_learn(logs: Trajectories, rows: int) -> FloatArray:
    """One brute-force search for each action, in float64."""
    contexts = logs.contexts.astype(np.float64)
    columns = []
    for action in range(logs.n_actions):
        search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(contexts[logs.actions == action])
        columns.append(search.kneighbors(contexts[:rows])[0][:, 0] ** 2 / logs.n_features)
    return np.stack(columns, axis=1)


def by_scan(logs: Trajectories, rows: int) -> FloatArray:
    """A loop over contexts."""
    result = np.empty((rows, logs.n_actions))
    for row in range(rows):
        distances = np.square(logs.contexts - logs.contexts[row]).mean(axis=1, dtype=np.float64)
        for action in range(logs.n_actions):
            result[row, action] = distances[logs.actions == action].min()
    return result


def timed(answer: Callable[[Trajectories, int], FloatArray], logs: Trajectories, rows: int) -> tuple[FloatArray, float]:
    """The answer and its seconds."""
    started = time.perf_counter()
    return answer(logs, rows), time.perf_counter() - started


def main() -> None:
    """Print seconds, microseconds per context, and how much longer the alternatives take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--features", type=int, default=44)
    parser.add_argument("--actions", type=int, default=25)
    parser.add_argument("--part", type=int, default=5_000, help="contexts that scikit-learn is asked about")
    parser.add_argument("--scanned", type=int, default=50, help="contexts that the scan is asked about")
    options = parser.parse_args()
    logs = logs_of(options.steps, options.features, options.actions)

    before = time.process_time()
    ours, seconds = timed(by_poela, logs, logs.n_steps)
    of_cores = time.process_time() - before  # on a busy machine the clock says little
    print(f"{logs.n_steps} x {logs.n_features} contexts, {logs.n_actions} actions: ", end="")
    print(f"{seconds:.1f} s ({of_cores:.1f} s of all cores)")
    _, of_part = timed(by_poela, logs, options.part)
    for name, answer, rows, exact in (
        ("scikit-learn", by_scikit_learn, options.part, of_part / options.part),
        ("scan", by_scan, options.scanned, seconds / logs.n_steps),
    ):
        theirs, of_theirs = timed(answer, logs, rows)
        difference = np.abs(theirs - ours[:rows]).max()
        print(f"{name:>12}: {1e6 * of_theirs / rows:8.0f} us per context, ours {1e6 * exact:6.0f}: ", end="")
        print(f"{of_theirs / rows / exact:6.1f} times as long; largest difference {difference:.2g}")


if __name__ == "__main__":
    main()
