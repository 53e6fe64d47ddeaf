"""Bounds that hold at any sample size: for returns in a known range and weights up to a known size.

They promise at least the level asked for, always, and pay in width. With truncated weights the promise is for the
truncated value that the estimator aims at; truncation moves that away from the policy's own value.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq

from poela.core.arrays import BoolArray
from poela.core.errors import InputError
from poela.stats.bounds import Bounds, Interval, Sample
from poela.stats.contributions import Contributions

_ROUNDING = 1e-9


def hoeffding(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Hoeffding (1963); the width falls with the square root of the number of episodes.

    >>> coins = Contributions.mean(np.array([0.0, 1.0] * 500))
    >>> hoeffding(Sample(coins, bounds=Bounds(0.0, 1.0, largest_weight=1.0)), [0.95])[0].width < 0.09
    True
    """
    bounds, spread = _checked(sample)

    def interval(level: float) -> Interval:
        deviation = spread * float(np.sqrt(np.log(2 / (1 - level)) / (2 * sample.contributions.n_episodes)))
        return _inverted(sample.contributions, bounds, lambda value: deviation, "hoeffding")

    return [interval(level) for level in levels]


def empirical_bernstein(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Maurer & Pontil (2009), theorem 4, at both ends: narrow where the observed variance is small beside the range.

    >>> nearly_constant = Contributions.mean(np.array([0.5, 0.501] * 500))
    >>> sample = Sample(nearly_constant, bounds=Bounds(0.0, 1.0, largest_weight=1.0))
    >>> empirical_bernstein(sample, [0.95])[0].width < hoeffding(sample, [0.95])[0].width
    True
    """
    bounds, spread = _checked(sample)
    units = sample.contributions
    n = units.n_episodes

    def interval(level: float) -> Interval:
        log_term = float(np.log(4 / (1 - level)))

        def deviation(value: float) -> float:
            variance = float((units.numerators - value * units.denominators).var(ddof=1))
            return float(np.sqrt(2 * variance * log_term / n)) + 7 * spread * log_term / (3 * (n - 1))

        return _inverted(units, bounds, deviation, "empirical_bernstein")

    return [interval(level) for level in levels]


def _checked(sample: Sample) -> tuple[Bounds, float]:
    """The bounds, and the range of numerator − value × denominator at any value."""
    assert sample.bounds is not None
    outside, spread = _outside(sample.contributions, sample.bounds, sample.bounds.largest_weight or np.inf)
    if outside.any():
        raise InputError(f"{int(outside.sum())} episodes lie outside the bounds: give wider ones, or truncate weights")
    return sample.bounds, spread


def _outside(units: Contributions, bounds: Bounds, largest_weight: float) -> tuple[BoolArray, float]:
    """Which episodes break the bounds, and the range of numerator − value × denominator at any value."""
    numerators, denominators = units.numerators, units.denominators
    if (denominators == 1).all():  # a mean of weighted returns
        lowest = min(largest_weight * bounds.lowest_return, 0.0)
        highest = max(largest_weight * bounds.highest_return, 0.0)
        return (numerators < lowest) | (numerators > highest), highest - lowest
    tolerance = _ROUNDING * (1 + np.abs(numerators))
    below = numerators < bounds.lowest_return * denominators - tolerance
    above = numerators > bounds.highest_return * denominators + tolerance
    heavy = denominators > largest_weight * (1 + _ROUNDING)
    return below | above | heavy, largest_weight * bounds.return_range


def _inverted(units: Contributions, bounds: Bounds, deviation: Callable[[float], float], method: str) -> Interval:
    """All values within the range of returns at which the mean of numerator − value × denominator is near zero."""
    numerator, denominator = float(units.numerators.mean()), float(units.denominators.mean())

    def excess(value: float) -> float:
        return abs(numerator - value * denominator) - deviation(value)

    def end(edge: float) -> float:
        return edge if excess(edge) <= 0 else float(brentq(excess, center, edge))

    center = min(max(numerator / denominator, bounds.lowest_return), bounds.highest_return)
    return Interval(end(bounds.lowest_return), end(bounds.highest_return), method)
