"""Closed-form intervals from the influence of each episode: the normal approximation and a Student version of it."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from poela.core.arrays import FloatArray
from poela.stats.bounds import Interval, Sample
from poela.stats.contributions import Contributions, standard_error


def normal(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Estimate ± normal quantile × standard error (Owen 2013, equation 9.9, for any sum of ratios).

    >>> [interval] = normal(Sample(Contributions.mean(np.array([1.0, 3.0]))), [0.95])
    >>> round(interval.high - 2.0, 6) == round(1.959964 * 0.5**0.5, 6)
    True
    """
    return [_around(sample.contributions, float(ndtri((1 + level) / 2)), "normal") for level in levels]


def student(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """As `normal`, with Student quantiles whose degrees of freedom tell how well the variance itself is known.

    >>> sample = Sample(Contributions.mean(np.array([0.0, 1.0, 2.0, 9.0])))
    >>> student(sample, [0.9])[0].width > normal(sample, [0.9])[0].width
    True
    """
    freedom = degrees_of_freedom(sample.contributions.influence)
    return [_around(sample.contributions, float(stdtrit(freedom, (1 + level) / 2)), "student") for level in levels]


def degrees_of_freedom(influence: FloatArray) -> float:
    """Satterthwaite's match of the variance estimate's own variance: n for normal values, about 2 for one outlier.

    Heavy weights make the few largest squares decide the variance; their number, not that of episodes, counts. There
    are never more than the units less one.

    >>> round(degrees_of_freedom(np.array([1.0, -1.0] * 50 + [1000.0])), 1)
    2.0
    """
    squares = np.square(influence)
    total = squares.sum()
    most = max(len(influence) - 1.0, 1.0)
    if total == 0:
        return most
    spread = float(np.square(squares / total).sum()) - 1 / len(squares)
    return min(2 / spread, most) if spread > 0 else most


def against_tail(errors: float, skew: float) -> float:
    """How many standard errors a lower end has to be away, where it is this many if nothing is skewed towards losses.

    The inverse of Hall's transformation t − skew·t²/3 + skew²·t³/27 − skew/6, which is as good as normal; `skew` is
    skewness over √n. Up to three times as many: there the transformation is flat.

    >>> [round(against_tail(1.645, skew), 2) for skew in (0.0, 0.05, 0.15, 0.9)]
    [1.65, 1.7, 1.83, 5.38]
    >>> t = against_tail(2.0, 0.1)
    >>> round(t - 0.1 * t**2 / 3 + 0.1**2 * t**3 / 27 - 0.1 / 6, 9)
    2.0
    """
    if skew < 1e-6:  # too little to tell from rounding
        return errors
    flat = min(skew * (errors + skew / 6), 1.0)
    return float(3 * (errors + skew / 6) * (1 - np.cbrt(1 - flat)) / flat)


def _around(units: Contributions, quantile: float, method: str) -> Interval:
    reach = quantile * standard_error(units)
    value = units.value
    return Interval(value - reach, value + reach, method)
