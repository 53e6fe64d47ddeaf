"""Every interval by its name, and the one that `evaluate` uses by default."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError
from poela.core.registry import Registry
from poela.stats.bootstrap import bca, percentile, refit, studentised
from poela.stats.bounds import Bounds, Interval, IntervalMethod, Sample, normal, student
from poela.stats.contributions import Contributions
from poela.stats.recombined import recombined

# Bounds that hold at any sample size: for returns in a known range and weights up to a known size.
# They promise at least the level asked for, always, and pay in width. With truncated weights the promise is for the
# truncated value that the estimator aims at; truncation moves that away from the policy's own value.

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


# Empirical likelihood intervals: which values could be had by reweighting the episodes a little (Owen 1988).
# With `moment=True` the reweighted weights must also average 1, as true importance weights do (Kallus & Uehara 2019,
# Karampatziakis et al. 2020). That is more information where propensities are right, and false where they are not.

_STEPS = 200
_TOLERANCE = 1e-13


def empirical_likelihood(sample: Sample, levels: Sequence[float], *, moment: bool = False) -> list[Interval]:
    """All values whose log likelihood ratio is below the chi-square quantile.

    >>> contributions = Contributions.mean(np.array([0.0, 1.0, 2.0, 3.0, 9.0]))
    >>> [interval] = empirical_likelihood(Sample(contributions), [0.9])
    >>> 0 < interval.low < 3 < interval.high < 9
    True
    """
    units = sample.contributions
    method = "el_moment" if moment else "el"
    center, least = _most_likely(units, moment)
    lowest, highest = _support(units)
    if not lowest < center < highest:  # equal returns: nothing to be uncertain of
        return [Interval(center, center, method)] * len(levels)

    def interval(level: float) -> Interval:
        allowed = least + float(ndtri((1 + level) / 2)) ** 2

        def excess(value: float) -> float:
            return _dual(_functions(units, value, moment))[0] - allowed

        return Interval(_crossing(excess, center, lowest), _crossing(excess, center, highest), method)

    return [interval(level) for level in levels]


empirical_likelihood_moment = partial(empirical_likelihood, moment=True)


def log_likelihood_ratio(contributions: Contributions, value: float, *, moment: bool = False) -> float:
    """Twice the log likelihood lost by reweighting episodes so that the estimate becomes `value`; inf if none can.

    >>> contributions = Contributions.mean(np.array([0.0, 1.0, 2.0]))
    >>> round(log_likelihood_ratio(contributions, 1.0), 9), log_likelihood_ratio(contributions, 3.0)
    (0.0, inf)
    """
    lost, weights = _dual(_functions(contributions, value, moment))
    least = _most_likely(contributions, moment)[1]
    return lost - least if abs(weights.sum() - 1) < 1e-6 else float("inf")


def _functions(contributions: Contributions, value: float, moment: bool) -> FloatArray:
    """What averages zero at the true value, [n, 1 or 2]; several ratios are taken to first order."""
    if contributions.numerators.shape[1] == 1:
        functions = contributions.numerators - value * contributions.denominators
    else:
        functions = (contributions.influence + contributions.value - value)[:, None]
    return np.hstack([functions, _weights(contributions) - 1]) if moment else functions


def _most_likely(contributions: Contributions, moment: bool) -> tuple[float, float]:
    """The value of highest likelihood, and twice the log likelihood that the moment condition alone costs."""
    if not moment:
        return contributions.value, 0.0
    cost, shares = _dual(_weights(contributions) - 1)
    if abs(shares.sum() - 1) > 1e-6:
        raise InputError("no reweighting makes the weights average 1: all are above 1, or all below")
    return float((shares @ contributions.numerators / (shares @ contributions.denominators)).sum()), cost


def _weights(contributions: Contributions) -> FloatArray:
    if contributions.numerators.shape[1] > 1 or np.ptp(contributions.denominators) == 0:
        raise InputError("the moment condition needs a self-normalised estimator of whole episodes: snis or sntis")
    return contributions.denominators


def _support(contributions: Contributions) -> tuple[float, float]:
    """The lowest and highest value that any reweighting can give."""
    if contributions.numerators.shape[1] > 1:
        values = contributions.influence + contributions.value
    else:
        weighted = contributions.denominators > 0
        values = contributions.numerators[weighted] / contributions.denominators[weighted]
    return float(values.min()), float(values.max())


def _crossing(excess: Callable[[float], float], center: float, edge: float) -> float:
    return edge if excess(edge) <= 0 else float(brentq(excess, center, edge, xtol=1e-10 * abs(edge - center)))


def _dual(functions: FloatArray) -> tuple[float, FloatArray]:
    """2 max_λ Σ log(1 + λ·z), and the shares [n] of the episodes there; where no shares exist they do not sum to 1.

    Newton's method on Owen's extension of the logarithm, which is finite for any λ.
    """
    n, scale = len(functions), np.sqrt(np.square(functions).mean(axis=0))
    z = functions / np.where(scale > 0, scale, 1.0)
    multipliers, reached = np.zeros(z.shape[1]), 0.0
    for _ in range(_STEPS):
        first, second = _slopes(1 + z @ multipliers, n)
        gradient = first @ z
        step = np.linalg.lstsq((z * -second[:, None]).T @ z, gradient, rcond=None)[0]
        if float(gradient @ step) < _TOLERANCE:
            break
        while (value := _log_star(1 + z @ (multipliers + step), n)) < reached and np.abs(step).max() > _TOLERANCE:
            step = step / 2
        multipliers, reached = multipliers + step, value
    return 2 * reached, 1 / (n * np.maximum(1 + z @ multipliers, 1 / n))


def _log_star(x: FloatArray, n: int) -> float:
    """Σ log x, continued by a parabola below 1/n."""
    small = x < 1 / n
    parabola = -np.log(n) - 1.5 + 2 * n * x - np.square(n * x) / 2
    return float(np.where(small, parabola, np.log(np.where(small, 1.0, x))).sum())


def _slopes(x: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """The first and second derivative of the extended logarithm."""
    small = x < 1 / n
    inverse = 1 / np.where(small, 1.0, x)
    return np.where(small, 2 * n - float(n) ** 2 * x, inverse), np.where(small, -(float(n) ** 2), -np.square(inverse))


_OWN: Mapping[str, IntervalMethod] = {
    "recombined": IntervalMethod(recombined),
    "bca": IntervalMethod(bca),
    "percentile": IntervalMethod(percentile),
    "studentised": IntervalMethod(studentised),
    "normal": IntervalMethod(normal),
    "student": IntervalMethod(student),
    "el": IntervalMethod(empirical_likelihood),
    "el_moment": IntervalMethod(empirical_likelihood_moment, frozenset({"self-normalised"})),
    "hoeffding": IntervalMethod(hoeffding, frozenset({"bounds", "whole episodes"})),
    "empirical_bernstein": IntervalMethod(empirical_bernstein, frozenset({"bounds", "whole episodes"})),
    "refit": IntervalMethod(refit, frozenset({"behavior"})),
}


def _made(ends: Any) -> IntervalMethod:
    """A function of one's own, of a sample and levels, which needs nothing more."""
    return ends if isinstance(ends, IntervalMethod) else IntervalMethod(ends)


INTERVALS: Registry[IntervalMethod] = Registry("poela.intervals", _OWN, _made)
DEFAULT_INTERVAL = "recombined"


def intervals_of(name: str, sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """The intervals of this name at each level, from one sample.

    >>> import numpy as np
    >>> from poela.stats.contributions import Contributions
    >>> [narrow, wide] = intervals_of("normal", Sample(Contributions.mean(np.array([1.0, 3.0]))), [0.5, 0.9])
    >>> narrow.width < wide.width
    True
    """
    if name not in INTERVALS:
        raise InputError(f"interval {name!r} is unknown: choose one of {', '.join(INTERVALS)}")
    problems = [
        f"level {level} must lie between 0 and 1, for example 0.95" for level in levels if not 0 < level < 1
    ] + INTERVALS[name].problems(sample)
    if problems:
        raise InputError(problems)
    return INTERVALS[name].ends(sample, levels)
