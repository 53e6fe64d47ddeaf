"""Closed-form intervals from the influence of each episode: the normal approximation and a Student version of it."""

import numpy as np
from scipy.special import ndtri, stdtrit

from poela.core.arrays import FloatArray, IntArray
from poela.evaluation.bounds import DEFAULT_RESAMPLES, Bounds, Interval, prepared
from poela.evaluation.contributions import Contributions, standard_error


def normal(
    contributions: Contributions,
    level: float = 0.95,
    *,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Estimate ± normal quantile × standard error (Owen 2013, equation 9.9, for any sum of ratios).

    >>> interval = normal(Contributions.mean(np.array([1.0, 3.0])), 0.95)
    >>> round(interval.high - 2.0, 6) == round(1.959964 * 0.5**0.5, 6)
    True
    """
    units = prepared(contributions, level, clusters)
    return _around(units, float(ndtri((1 + level) / 2)), "normal")


def student(
    contributions: Contributions,
    level: float = 0.95,
    *,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
) -> Interval:
    """As `normal`, with Student quantiles whose degrees of freedom tell how well the variance itself is known.

    >>> returns = np.array([0.0, 1.0, 2.0, 9.0])
    >>> student(Contributions.mean(returns)).width > normal(Contributions.mean(returns)).width
    True
    """
    units = prepared(contributions, level, clusters)
    freedom = degrees_of_freedom(units.influence)
    return _around(units, float(stdtrit(freedom, (1 + level) / 2)), "student")


def degrees_of_freedom(influence: FloatArray) -> float:
    """Satterthwaite's match of the variance estimate's own variance: n for normal values, about 2 for one outlier.

    Heavy weights make the few largest squares decide the variance; their number, not that of episodes, counts.

    >>> round(degrees_of_freedom(np.array([1.0, -1.0] * 50 + [1000.0])), 1)
    2.0
    """
    squares = np.square(influence)
    total = squares.sum()
    if total == 0:
        return float("inf")
    spread = float(np.square(squares / total).sum()) - 1 / len(squares)
    return 2 / spread if spread > 0 else float("inf")


def _around(units: Contributions, quantile: float, method: str) -> Interval:
    reach = quantile * standard_error(units)
    value = units.value
    return Interval(value - reach, value + reach, method)
