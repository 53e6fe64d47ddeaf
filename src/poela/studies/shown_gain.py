"""The gain over the logging policy that a log can show, for all policies of all paths together.

A point takes part if its verdict is "trust". Its bound is the lower end of the gain's interval, widened by how much the
largest of all errors exceeds a single one (max-t, by a multiplier bootstrap over episodes or clusters; points of one
path are nearly one policy, so this costs far less than Bonferroni's correction).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import Float32Array, FloatArray
from poela.core.progress import progress
from poela.evaluation.bounds import in_clusters
from poela.evaluation.contributions import Contributions
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.gain import least_value
from poela.evaluation.scoring import Scoring
from poela.studies.held_out import Episodes

DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Judged:
    """A point's estimate, and by how much it is at least better than the logging policy (None: cannot be told)."""

    estimate: Estimate
    shown: float | None


def judged(
    episodes: Episodes,
    points: Sequence[tuple[Evidence, Float32Array]],
    scoring: Scoring,
    confidence: float,
    sensitivity: float = 1.0,
    least_ess: float = 0.0,
) -> list[Judged]:
    """Every point with the gain that is shown, with this confidence in all of them together.

    A point is its pooled evidence and the log weights [copies, n] of recombined episodes.
    """
    single = replace(scoring, estimator="sntis", discount=1.0, level=confidence)
    quick, whole = episodes.evaluator(replace(single, interval=None)), episodes.evaluator(single)
    estimates: list[Estimate] = []
    with progress(f"{len(points)} policies judged", len(points)) as advance:
        for evidence, recombined in points:
            pool = episodes.pool(evidence, recombined, scoring.seed)
            estimate = quick.estimate(evidence, pool)
            able = estimate.verdict == "trust" and estimate.ess >= least_ess
            estimates.append(whole.estimate(evidence, pool) if able else estimate)
            advance()
    able_ones = [number for number, estimate in enumerate(estimates) if estimate.low is not None]
    if not able_ones:
        return [Judged(estimate, None) for estimate in estimates]
    returns = episodes.logs.rewards
    influences = [_influence(points[number][0], returns) for number in able_ones]
    tail = (1 + confidence) / 2  # the lower end of a two-sided interval
    widened = critical_value(np.stack(influences), tail, scoring.seed) / float(ndtri(tail))
    result = [Judged(estimate, None) for estimate in estimates]
    for number in able_ones:
        gain = estimates[number].gain
        if gain is not None and gain.low is not None:
            lost = 0.0
            if sensitivity > 1:
                least = least_value(points[number][0].used, returns, sensitivity)
                lost = estimates[number].value - least
            result[number] = Judged(estimates[number], gain.value - lost - widened * (gain.value - gain.low))
    return result


def _influence(evidence: Evidence, returns: FloatArray) -> FloatArray:
    """The influence of each unit on the gain."""
    clusters = evidence.logs.clusters
    of_value = in_clusters(sntis(evidence), clusters).influence
    return np.asarray(of_value - in_clusters(Contributions.mean(returns), clusters).influence)


def critical_value(influences: FloatArray, share: float, seed: int) -> float:
    """How many standard errors the largest error of all points [k, n] stays within in this share of cases.

    Never below that of a single point.

    >>> rng = np.random.default_rng(0)
    >>> alike = np.tile(rng.normal(size=500), (20, 1))
    >>> round(critical_value(alike, 0.95, seed=0), 1), round(critical_value(rng.normal(size=(20, 500)), 0.95, 0), 1)
    (1.6, 2.8)
    """
    norms = np.sqrt(np.square(influences).sum(axis=1, keepdims=True))
    standardised = (influences / np.where(norms > 0, norms, 1.0)).T  # [n, k]
    rng = np.random.default_rng((seed, 2))
    largest = [(rng.normal(size=(100, len(standardised))) @ standardised).max(axis=1) for _ in range(DRAWS // 100)]
    return max(float(np.quantile(np.concatenate(largest), share)), float(ndtri(share)))
