"""Probabilities of the logging policy by 100 neighbours, beside scikit-learn's classifier.

python benchmarks/bench.py knn_behavior
"""

import numpy as np
from measuring import Speed, Work
from nearest_actions import ROWS_AT_ONCE, logs_of

from poela.behavior.propensities import KNNBehavior

K = 100


def by_poela(steps: int) -> Work:
    """Fitted, and asked about all contexts."""
    logs = logs_of(steps)
    return lambda: KNNBehavior(k=K).fit(logs).probabilities(logs.contexts)


def by_scikit_learn(steps: int) -> Work:
    """The same by brute force."""
    from sklearn.neighbors import KNeighborsClassifier

    logs = logs_of(steps)
    classifier = KNeighborsClassifier(n_neighbors=K, algorithm="brute")
    return lambda: classifier.fit(logs.contexts, logs.actions).predict_proba(logs.contexts)


def bare_product(steps: int) -> Work:
    """Products of all contexts with all."""
    contexts = logs_of(steps).contexts
    points = np.ascontiguousarray(contexts.T)

    def work() -> None:
        for start in range(0, steps, ROWS_AT_ONCE):
            np.matmul(contexts[start : start + ROWS_AT_ONCE], points)

    return work


SPEED = Speed(
    case=f"Logged steps with 44 features and 25 actions, {K} neighbours of each",
    ours=by_poela,
    alternative=by_scikit_learn,
    alternative_name="scikit-learn, KNeighborsClassifier",
    floor=bare_product,
    floor_name="bare matrix product in float32",
    sizes=(5_000, 10_000, 20_000),
    large=(30_000, 60_000, 117_000),
)
