"""Intervals for yes/no outcomes and other bounded returns, down to no event at all.

An estimate of a rare rate is a weighted count. Seen as a gamma variable of the same mean and variance it has the exact
interval's shape, and one more event of the weight of an effective episode is what may have been missed (Fay & Feuer
1997, for weighted sums of Poisson counts); half of that event counts (mid-p), which is less cautious. With no event
among ESS effective episodes the upper end is about 3 / ESS: the rule of three.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc

from poela.stats.bounds import Bounds

NOTHING = 1e-9  # beside one event


def bounded_ends(
    value: float, error: float, ess: float, bounds: Bounds, levels: Sequence[float]
) -> list[tuple[float, float]]:
    """Ends within the bounds, for an estimate with this standard error and effective sample size.

    The rate of events and the rate of what is no event are the same question asked from both sides; both answers count.

    >>> [(low, high)] = bounded_ends(0.0, 0.0, 100.0, Bounds(0.0, 1.0), [0.95])
    >>> low, round(high, 3)
    (0.0, 0.03)
    """
    lowest, highest = bounds.lowest_return, bounds.highest_return
    if lowest == highest:
        return [(lowest, highest)] * len(levels)
    value = min(max(value, lowest), highest)
    jump = bounds.return_range / ess
    ends_by_level = []
    for level in levels:
        low, high = (jump * end for end in _gamma_ends((value - lowest) / jump, error / jump, level))
        rest_low, rest_high = (jump * end for end in _gamma_ends((highest - value) / jump, error / jump, level))
        ends = min(lowest + low, highest - rest_high), max(lowest + high, highest - rest_low)
        ends_by_level.append((max(ends[0], lowest), min(ends[1], highest)))
    return ends_by_level


def _gamma_ends(mean: float, error: float, level: float) -> tuple[float, float]:
    """Equal-tailed quantiles of half Gamma(mean, error²), half of that and one more event; all in events."""

    def share_below(amount: float) -> float:
        one_more = _gamma_below(amount, mean + 1, error**2 + 1)
        return 0.5 * _gamma_below(amount, mean, error**2) + 0.5 * one_more

    def quantile(share: float) -> float:
        if share_below(0.0) >= share:
            return 0.0
        reach = mean + 1
        while share_below(reach) < share:
            reach *= 2
        return float(brentq(lambda amount: share_below(amount) - share, 0.0, reach, xtol=1e-12 * reach))

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


def _gamma_below(amount: float, mean: float, variance: float) -> float:
    """P(X ≤ amount) for a gamma variable; next to no variance makes it its mean, next to no mean makes it zero."""
    if mean <= NOTHING or variance <= (NOTHING * mean) ** 2:
        return float(amount >= mean)
    return float(gammainc(mean**2 / variance, amount * mean / variance)) if amount > 0 else 0.0


def two_valued(bounds: Bounds, returns: np.ndarray) -> bool:
    """Whether the returns take no value but the two ends of their range.

    >>> two_valued(Bounds(0.0, 1.0), np.array([0.0, 1.0])), two_valued(Bounds(0.0, 1.0), np.array([0.5]))
    (True, False)
    """
    return bool(np.isin(returns, (bounds.lowest_return, bounds.highest_return)).all())
