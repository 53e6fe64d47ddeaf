"""Bootstrap intervals over episodes (or clusters of them); the normaliser is recomputed on every resample."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.evaluation.bounds import DEFAULT_RESAMPLES, Bounds, Interval, prepared
from poela.evaluation.contributions import Contributions, ratio_sum

# Resamples counted and multiplied at once. It is fixed, and short blocks are padded, because the last bits of a
# matrix product depend on its shape.
_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Resampled:
    """The estimate on each resample [B] and its standard error there [B]; NaN where all drawn weights are zero."""

    values: FloatArray
    standard_errors: FloatArray


def resample(contributions: Contributions, resamples: int, seed: int, *, standard_errors: bool = False) -> Resampled:
    """Draw episodes with replacement; memory is that of 16 resamples, whatever their number.

    >>> contributions = Contributions.mean(np.array([1.0, 1.0, 4.0]))
    >>> sorted({round(float(value), 6) for value in resample(contributions, 200, seed=0).values})
    [1.0, 2.0, 3.0, 4.0]
    """
    if resamples < 1:
        raise InputError(f"resamples is {resamples}: at least 1 is needed")
    rng = np.random.default_rng(seed)
    n, ratios = contributions.numerators.shape
    center, columns = _centred(contributions)
    values = np.empty(resamples)
    index_type = np.int32 if n < 2**31 else np.int64
    errors = np.full(resamples, np.nan)
    counts = np.zeros((_BLOCK, n))
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        for row, drawn in enumerate(rng.integers(n, size=(rows, n), dtype=index_type)):
            counts[row] = np.bincount(drawn, minlength=n)
        sums = counts @ columns
        values[start : start + rows] = ratio_sum(sums[:rows, :ratios], sums[:rows, ratios:])
        if standard_errors:
            errors[start : start + rows] = _standard_errors(counts, columns, sums)[:rows]
    return Resampled(values + center.sum(), errors)


def _centred(contributions: Contributions) -> tuple[FloatArray, FloatArray]:
    """The ratios [K], and numerators minus ratio × denominators beside the denominators [n, 2K].

    Centring keeps the digits of the spread where the estimate is large beside it; what is left of equal returns is
    rounding, and is put to zero so that their interval has no width.
    """
    numerators, denominators = contributions.numerators, contributions.denominators
    with np.errstate(divide="ignore", invalid="ignore"):
        center = numerators.sum(axis=0) / denominators.sum(axis=0)
    expected = center * denominators
    residuals = numerators - expected
    rounding = 64 * np.finfo(np.float64).eps * (np.abs(numerators) + np.abs(expected))
    return center, np.hstack([np.where(np.abs(residuals) <= rounding, 0.0, residuals), denominators])


def _standard_errors(counts: FloatArray, columns: FloatArray, sums: FloatArray) -> FloatArray:
    """The influence-function standard error on each resample of a block."""
    ratios = columns.shape[1] // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = 1.0 / sums[:, ratios:]
        influence = columns @ np.hstack([slopes, -sums[:, :ratios] * slopes**2]).T  # [n, block]
        return np.asarray(np.sqrt(np.einsum("bn,nb->b", counts, influence**2)))


def percentile(
    contributions: Contributions,
    level: float = 0.95,
    *,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
) -> Interval:
    """The plain bootstrap quantiles.

    >>> percentile(Contributions.mean(np.array([1.0, 1.0, 1.0])), 0.9)
    Interval(low=1.0, high=1.0, method='percentile', undefined_resamples=0)
    """
    units = prepared(contributions, level, clusters)
    values, undefined = _defined(resample(units, resamples, seed).values)
    low, high = _quantiles(values, np.array([(1 - level) / 2, (1 + level) / 2]))
    return Interval(low, high, "percentile", undefined)


def bca(
    contributions: Contributions,
    level: float = 0.95,
    *,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
) -> Interval:
    """Bias-corrected and accelerated bootstrap (Efron 1987), with a closed-form jackknife: linear in episodes.

    >>> returns = np.arange(40.0) ** 2
    >>> interval = bca(Contributions.mean(returns), 0.9, resamples=2000)
    >>> bool(interval.low < returns.mean() < interval.high)
    True
    """
    units = prepared(contributions, level, clusters)
    values, undefined = _defined(resample(units, resamples, seed).values)
    low, high = bca_ends(values, units.value, units.leave_one_out, level)
    return Interval(low, high, "bca", undefined)


def bca_ends(resampled: FloatArray, value: float, leave_one_out: FloatArray, level: float) -> tuple[float, float]:
    """The BCa ends, from the values on resamples, the estimate, and its jackknife values.

    >>> bca_ends(np.array([0.0, 1.0, 2.0]), 1.0, np.array([0.5, 1.5]), 0.5)
    (0.5, 1.5)
    """
    below = ((resampled < value).sum() + (resampled <= value).sum()) / (2 * len(resampled))
    # With every resample on one side the correction is infinite: take half a resample as the smallest share.
    bias = ndtri(np.clip(below, 0.5 / len(resampled), 1 - 0.5 / len(resampled)))
    acceleration = _acceleration(leave_one_out)
    shifted = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    with np.errstate(divide="ignore"):
        stretched = shifted / (1 - acceleration * shifted)
    # Past its pole the map has sent the quantile to the end of the distribution.
    stretched = np.where(acceleration * shifted < 1, stretched, np.sign(shifted) * np.inf)
    return _quantiles(resampled, ndtr(bias + stretched))


def _acceleration(leave_one_out: FloatArray) -> float:
    """Skewness of the jackknife values over six; an episode that holds all the weight has no such value."""
    defined = leave_one_out[np.isfinite(leave_one_out)]
    deviations = defined.mean() - defined if len(defined) else defined
    largest = np.abs(deviations).max(initial=0.0)
    if largest == 0:
        return 0.0
    scaled = deviations / largest  # so that no power of a small spread underflows
    return float((scaled**3).sum() / (6 * (scaled**2).sum() ** 1.5))


def _defined(values: FloatArray) -> tuple[FloatArray, int]:
    """The values that could be computed, and how many could not."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        raise InputError("every resample has only zero weights: the policy never takes the logged actions")
    return defined, len(values) - len(defined)


def _quantiles(values: FloatArray, shares: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(values, shares)
    return float(low), float(high)
