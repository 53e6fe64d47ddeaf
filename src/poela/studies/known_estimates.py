"""The estimate of each point of a path, made once: provisional answers and the last one ask for the same."""

from dataclasses import replace
from hashlib import blake2b
from weakref import WeakKeyDictionary

import numpy as np

from poela.core.arrays import Float32Array
from poela.evaluation.estimate import Estimate
from poela.evaluation.evidence import Evidence
from poela.evaluation.scoring import Scoring
from poela.studies.held_out import Episodes

_known: "WeakKeyDictionary[Episodes, dict[bytes, Estimate]]" = WeakKeyDictionary()


def estimate_of(
    episodes: Episodes, point: tuple[Evidence, Float32Array], scoring: Scoring, least_ess: float
) -> Estimate:
    """What a point is worth, with an interval where it can be trusted and has so many effective episodes.

    A point is its pooled evidence and the log weights [copies, n] of recombined episodes. Points of equal weights are
    one policy here, and are looked at once.
    """
    evidence, recombined = point
    settings = scoring, least_ess, evidence.outside, evidence.stranded_steps, evidence.smoothing
    seen = blake2b(repr(settings).encode())
    for numbers in (evidence.weights.log_ratios, recombined):
        seen.update(np.ascontiguousarray(numbers).tobytes())
    known, key = _known.setdefault(episodes, {}), seen.digest()
    if key not in known:
        pool = episodes.pool(evidence, recombined, scoring.seed)
        estimate = episodes.evaluator(replace(scoring, interval=None)).estimate(evidence, pool, by_chance=True)
        able = estimate.verdict == "trust" and estimate.ess >= least_ess
        known[key] = episodes.evaluator(scoring).estimate(evidence, pool, by_chance=True) if able else estimate
    return known[key]
