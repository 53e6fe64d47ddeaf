"""Whether an action is missing somewhere, or only rarer there as a smooth trend has it.

Where nothing is missing, groups of cases that got an action less often than usual come from chance, or from a logging
policy that prefers others for some. Barring it there would cost, and protect nobody.
"""

from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray

TREND = 0.9  # of what a smooth trend expects: fewer are missing
NEARLY_NONE = 0.15  # of the usual rate: fewer are missing, even if a trend explains it


@dataclass(frozen=True)
class Evidence:
    """What it takes to call an action missing somewhere, or not missing."""

    enough: float = 160.0  # decisions with it: with fewer, a hole cannot be told from chance, and is taken to be there
    level: float = 0.03  # of the test, one-sided


USUAL = Evidence()


def is_missing(
    predicted: FloatArray, taken: FloatArray, expected: FloatArray, edges: FloatArray, evidence: Evidence = USUAL
) -> bool:
    """Whether cases [N] that are predicted to get an action most rarely got it more rarely than a trend explains.

    `taken` says who got it, `expected` how probable a smooth model calls it; both models have not seen these cases.
    The cases up to each of the `edges` of predictions are compared with it: by a binomial test against `TREND` of what
    is expected (at most the usual rate), and against `NEARLY_NONE` of the usual rate.

    >>> rng = np.random.default_rng(0)
    >>> smooth = np.repeat([0.1, 0.3], [400, 600])
    >>> rarer, never = rng.random(1000) < smooth, (rng.random(1000) < 0.3) & (smooth > 0.2)
    >>> [is_missing(smooth, taken * 1.0, smooth, np.array([0.2])) for taken in (rarer, never)]
    [False, True]
    """
    if taken.sum() < evidence.enough or not taken.any():
        return True
    order, usual = np.argsort(predicted, kind="stable"), float(taken.mean())
    last = np.searchsorted(predicted[order], edges, side="right") - 1
    last = last[last >= 0]
    cases = np.asarray(last + 1, np.float64)
    got = np.cumsum(taken[order])[last]
    trend = np.cumsum(np.minimum(expected, usual)[order])[last] / cases
    chances = [_at_most(got, cases, share) for share in (TREND * trend, np.full(len(cases), NEARLY_NONE * usual))]
    return bool((np.stack(chances) < evidence.level).any())


def _at_most(hits: FloatArray, of: FloatArray, chance: FloatArray) -> FloatArray:
    """The probability of no more hits than these.

    >>> _at_most(np.array([1.0, 3.0]), np.array([3.0, 3.0]), np.array([0.5, 0.5]))
    array([0.5, 1. ])
    """
    from scipy.stats import binom

    return np.asarray(binom.cdf(hits, of, chance), np.float64)
