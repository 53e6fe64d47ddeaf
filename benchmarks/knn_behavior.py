"""kNN behavior at the size of the sepsis cohort, beside scikit-learn's classifier on a part of the same questions.

OMP_NUM_THREADS=2 python benchmarks/knn_behavior.py
"""

import argparse
import time

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from poela.behavior.neighbours import KNNBehavior
from poela.data.trajectories import Trajectories

FEATURES, ACTIONS, LENGTH = 44, 25, 13


def logs_of(steps: int, seed: int = 0) -> Trajectories:
    """Correlated features and actions that depend on them, roughly as in intensive care."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(steps, 12)) @ rng.normal(size=(12, FEATURES)) / np.sqrt(12)
    contexts = (0.7 * common + 0.7 * rng.normal(size=(steps, FEATURES))).astype(np.float32)
    scores = contexts @ rng.normal(size=(FEATURES, ACTIONS)) / 4
    actions = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return Trajectories(contexts, actions, np.zeros(steps), np.arange(0, steps + 1, LENGTH), n_actions=ACTIONS)


def main() -> None:
    """Print seconds for all contexts, and the ratio to scikit-learn on some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--part", type=int, default=5_000, help="contexts that scikit-learn is asked about")
    settings = parser.parse_args()
    logs = logs_of(settings.steps)
    part = logs.contexts[: settings.part]

    started = time.perf_counter()
    model = KNNBehavior(k=settings.k).fit(logs)
    ours = model.probabilities(logs.contexts)
    seconds = time.perf_counter() - started

    started = time.perf_counter()
    model.probabilities(part)
    seconds_of_part = time.perf_counter() - started
    started = time.perf_counter()
    theirs = KNeighborsClassifier(n_neighbors=settings.k, algorithm="brute").fit(logs.contexts, logs.actions)
    expected = theirs.predict_proba(part)
    seconds_of_theirs = time.perf_counter() - started

    print(f"{logs.n_steps} x {FEATURES} contexts, {ACTIONS} actions, k = {settings.k}: {seconds:.1f} s")
    print(f"{len(part)} of them: {seconds_of_part:.2f} s; scikit-learn {seconds_of_theirs:.2f} s, ", end="")
    print(f"{seconds_of_theirs / seconds_of_part:.2f} times as long")
    print(f"largest difference of probabilities: {np.abs(ours[: len(part)] - expected).max():.3g}")


if __name__ == "__main__":
    main()
