"""Some of the pooled episodes that judge, such as a group of them: their evidence and their units."""

from dataclasses import replace

import numpy as np

from poela.core.arrays import BoolArray, IntArray
from poela.evaluation.evidence import Evidence
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import LogWeights


def units_of(units: IntArray) -> IntArray:
    """The units of some episodes, in the order of their first appearance.

    >>> units_of(np.array([4, 1, 4, 2]))
    array([4, 1, 2])
    """
    _, first = np.unique(units, return_index=True)
    return np.asarray(units[np.sort(first)])


def part_of(evidence: Evidence, episodes: BoolArray) -> Evidence:
    """The evidence of some episodes [n] of pooled ones, which have one step each.

    How much of the policy lies outside support is known for all episodes together alone: all of it may be in here.
    """
    logs = evidence.logs.take(episodes)
    times = len(episodes) / int(episodes.sum())
    outside, controlled = evidence.outside, evidence.controlled
    if outside is not None:
        outside = OutsideSupport(
            min(times * outside.decisions, 1.0),
            min(times * outside.episodes, 1.0),
            times * outside.missing,
            times * outside.missing_error,
        )
    return replace(
        evidence,
        weights=LogWeights(evidence.weights.log_ratios[episodes], logs.offsets),
        logs=logs,
        outside=outside,
        controlled=None if controlled is None else controlled.take(episodes),
        stranded_steps=None,
        reference=None if evidence.reference is None else evidence.reference[episodes],
    )
