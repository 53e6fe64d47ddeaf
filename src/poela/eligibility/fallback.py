"""Where nothing is eligible: which action is the nearest to being so."""

from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility


def nearness_where_stranded(
    rule: "FittedEligibility",
    contexts: Float32Array,
    distances: FloatArray | None,
    probabilities: FloatArray | None,
    probable: BoolArray,
    here: IntArray,
) -> FloatArray:
    """What the fallback "nearest" makes smallest: the distance (of probable actions, where such were logged).

    Without distances it is the probability, negated. `here` are the places of m stranded contexts; the distances of
    these and the result are [m, A].
    """
    if distances is None or rule.logged is None:
        return np.zeros((len(here), rule.n_actions)) if probabilities is None else -probabilities[here]
    nearness = np.where(probable[here], distances, np.inf)
    nearness = np.where(np.isfinite(nearness).any(axis=1, keepdims=True), nearness, distances)
    unknown = np.isinf(nearness).all(axis=1)
    if unknown.any():
        # A step number that was never logged: the nearest over all steps.
        pooled = rule.logged.pooled().squared_distances(contexts[here[unknown]], None)
        nearness[unknown] = rule.on_metric_scale(pooled)
    return nearness
