"""The gain over the logging policy that a log can show, for all policies of all paths together.

A point takes part if its verdict is "trust". Its bound is the one-sided lower end of the gain's interval, widened by
how much the largest of all errors exceeds a single one (max-t, by a multiplier bootstrap over episodes or clusters, as
in Chernozhukov, Lee, Rosen & Sun 2025; points of one path are nearly one policy, so this costs far less than
Bonferroni's correction), and by what folds add to the error by teaching each other.
"""

from collections.abc import Callable, Sequence
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
from poela.evaluation.outside import lost_outside, lowest_return
from poela.evaluation.scoring import Scoring
from poela.studies.held_out import Episodes

DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Judged:
    """A point's estimate, and by how much it is at least better than the logging policy (None: cannot be told).

    `reach` is how far that is below the estimate by chance, and `error` the gain's standard error, both of folds that
    are independent; `factor` is by how much folds that teach each other add to both (None: not looked at).
    """

    estimate: Estimate
    shown: float | None
    reach: float = 0.0
    error: float = 0.0
    factor: float | None = None

    def knowing(self, shared: float | None) -> "Judged":
        """The same with the variance that folds share added to the squared error; None: twice of it, the worst case.

        >>> plain = Judged(None, shown=1.0, reach=2.0, error=0.5)
        >>> plain.knowing(0.75).shown, round(plain.knowing(None).factor, 6)
        (-1.0, 1.414214)
        """
        assert self.shown is not None
        grown = 2.0 if shared is None else 1 + (shared / self.error**2 if self.error > 0 else 0.0)
        factor = float(np.sqrt(grown))
        return replace(self, shown=self.shown - (factor - 1) * self.reach, factor=factor)


def judged(
    episodes: Episodes,
    points: Sequence[tuple[Evidence, Float32Array]],
    scoring: Scoring,
    confidence: float,
    sensitivity: float = 1.0,
    least_ess: float = 0.0,
) -> list[Judged]:
    """Every point with the gain that is shown, with this confidence in all of them together, by independent folds.

    A point is its pooled evidence and the log weights [copies, n] of recombined episodes.
    """
    # "At least" is one-sided: the lower end of an interval that misses as often on its other side.
    single = replace(scoring, estimator="sntis", discount=1.0, level=2 * confidence - 1)
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
    lowest = lowest_return(returns, whole.bounds)
    influences = [_influence(points[number][0], returns) for number in able_ones]
    widened = critical_value(np.stack(influences), confidence, scoring.seed) / float(ndtri(confidence))
    result = [Judged(estimate, None) for estimate in estimates]
    for number, influence in zip(able_ones, influences, strict=True):
        gain = estimates[number].gain
        if gain is not None and gain.low is not None:
            lost = 0.0
            if sensitivity > 1:
                least = least_value(points[number][0].used, returns, sensitivity)
                lost = estimates[number].value - least
            worst, chance = lost_outside(
                points[number][0].outside, estimates[number].value, lowest, known=not episodes.estimated
            )
            lost += worst
            reach = float(np.hypot(widened * (gain.value - gain.low), widened * ndtri(confidence) * chance))
            error = float(np.sqrt(np.square(influence).sum())) / len(influence)
            result[number] = Judged(estimates[number], gain.value - lost - reach, reach, error)
    return result


def corrected(
    judged_ones: Sequence[Judged],
    paths: Sequence[str],
    shared: Callable[[str, Sequence[int]], Sequence[float | None]],
) -> list[Judged]:
    """Bounds that know of what folds share, as far as that matters: it has to be learned, path by path.

    `shared` gives the variance that folds share in some points (by their places) of a path. The best bound's path comes
    first, until the best bound is a corrected one, or none is above zero. Other bounds above zero, of points that do
    not matter any more, take the worst case.

    >>> plain = [Judged(None, 3.0, reach=2.0, error=1.0), Judged(None, 1.5, 1.0, 1.0), Judged(None, -1.0, 1.0, 1.0)]
    >>> [round(one.shown, 3) for one in corrected(plain, ["a", "b", "c"], lambda path, places: [0.21])]
    [2.8, 1.086, -1.0]
    """
    ones, known = list(judged_ones), set[str]()
    able = [place for place, one in enumerate(ones) if one.shown is not None]
    while able:
        best = max(able, key=lambda place: ones[place].shown or 0.0)  # the first of equals, as the choice has it
        path = paths[best]
        if (ones[best].shown or 0.0) <= 0 or path in known:
            break
        known.add(path)
        places = [place for place in able if paths[place] == path]
        for place, variance in zip(places, shared(path, places), strict=True):
            ones[place] = ones[place].knowing(variance)
    return [
        one.knowing(None) if one.factor is None and one.shown is not None and one.shown > 0 else one for one in ones
    ]


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
