"""Bootstrap intervals over episodes (or clusters of them); the normaliser is recomputed on every resample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.stats.bounds import Interval, Sample
from poela.stats.contributions import Contributions, ratio_sum, standard_error

# Episodes drawn at once for one ratio: few enough to stay in the processor's cache.
_DRAWS = 1 << 17
# Resamples counted and multiplied at once for several ratios. It is fixed, and short blocks are padded, because the
# last bits of a matrix product depend on its shape.
_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Resampled:
    """The estimate on each resample [B] and its standard error there [B]; NaN where all drawn weights are zero."""

    values: FloatArray
    standard_errors: FloatArray

    @property
    def defined(self) -> FloatArray:
        """The values that could be computed."""
        return self.values[np.isfinite(self.values)]

    @property
    def undefined(self) -> int:
        """How many could not."""
        return int((~np.isfinite(self.values)).sum())


def resample(
    contributions: Contributions,
    resamples: int,
    seed: int,
    *,
    size: int | None = None,
    together: int = 1,
    standard_errors: bool = False,
) -> Resampled:
    """Draw `size` episodes (by default as many as there are) with replacement, again and again; memory is bounded.

    Of a single ratio, `together` episodes in a row may be drawn at once, which is faster. That is as good where
    episodes come in no order, are many times `together`, and a multiple of it: a rest is left out.

    The same seed gives the same bits, and more resamples begin with the same ones.

    >>> contributions = Contributions.mean(np.array([1.0, 1.0, 4.0]))
    >>> sorted({round(float(value), 6) for value in resample(contributions, 200, seed=0).values})
    [1.0, 2.0, 3.0, 4.0]
    """
    rng = np.random.default_rng(seed)
    n, ratios = contributions.numerators.shape
    center, columns = centred(contributions)
    size = size or n
    if ratios == 1 and together > 1:
        parts = _in_groups(columns, resamples, size, together, rng)
    elif ratios == 1:
        parts = _gathered(columns, resamples, size, rng, standard_errors)
    else:
        parts = _counted(columns, resamples, size, rng, standard_errors)
    values, errors = np.empty(resamples), np.full(resamples, np.nan)
    start = 0
    for value, error in parts:
        safe_point()
        values[start : start + len(value)], errors[start : start + len(value)] = value, error
        start += len(value)
    if not np.isfinite(values).any():
        raise InputError("every resample has only zero weights: the policy never takes the logged actions")
    return Resampled(values + center.sum(), errors)


def drawn_episodes(n: int, shape: tuple[int, int], rng: np.random.Generator) -> IntArray:
    """Episodes 0 … n − 1, each row a resample; how many rows are drawn at once does not change them.

    Half a random word is scaled to the range, which is twice as fast as exact draws; the chance of an episode is off by
    a share of n / 2³² at most.

    >>> drawn_episodes(3, (2, 4), np.random.default_rng(0))
    array([[2, 1, 1, 0],
           [0, 0, 0, 0]])
    """
    rows, size = shape
    words = rng.integers(0, 2**64, size=(rows, (size + 1) // 2), dtype=np.uint64)
    scaled = np.multiply(words.view(np.uint32)[:, :size], n, dtype=np.uint64)
    return np.right_shift(scaled, 32, out=scaled).view(np.int64)


def _gathered(
    columns: FloatArray, resamples: int, size: int, rng: np.random.Generator, standard_errors: bool
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Values and standard errors of a single ratio: sums of what the drawn episodes hold."""
    # One gather for both: residuals as the real part, denominators as the imaginary one.
    pairs = columns[:, 0] + 1j * columns[:, 1]
    rows = max(1, _DRAWS // size)
    memory = np.empty((rows, size), np.complex128)
    for start in range(0, resamples, rows):
        drawn = drawn_episodes(len(pairs), (min(rows, resamples - start), size), rng)
        # None is out of range; "clip" is faster.
        taken = pairs.take(drawn, out=memory[: len(drawn)], mode="clip")
        totals = taken.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = totals.real / totals.imag
            errors = np.full(len(values), np.nan)
            if standard_errors:
                taken *= (1 + 1j * values)[:, None]  # residual − value × denominator as the real part
                errors = np.sqrt(np.vecdot(taken.real, taken.real)) / totals.imag
        yield values, errors


def _in_groups(
    columns: FloatArray, resamples: int, size: int, together: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The same where episodes in a row are drawn together: their sums, squares and products are summed only once.

    Of the last group that is drawn, only as many episodes count as the size leaves.
    """
    units, needed = len(columns) // together, -(-size // together)
    residuals, denominators = columns[: units * together].reshape(units, together, 2).transpose(2, 0, 1)
    # One gather for two sums, as real and imaginary parts.
    held = (residuals + 1j * denominators, residuals**2 + 1j * denominators**2, residuals * denominators)
    sums = [(part.sum(axis=1), part[:, : size - (needed - 1) * together].sum(axis=1)) for part in held]
    rows = max(1, _DRAWS // needed)
    for start in range(0, resamples, rows):
        drawn = drawn_episodes(units, (min(rows, resamples - start), needed), rng)
        totals, powers, products = (
            whole.take(drawn[:, :-1], mode="clip").sum(axis=1) + last[drawn[:, -1]] for whole, last in sums
        )
        first, second, squares, others = totals.real, totals.imag, powers.real, powers.imag
        with np.errstate(divide="ignore", invalid="ignore"):
            values = first / second
            crossed = 2 * values * products
            spread = squares - crossed + values**2 * others  # of residual − value × denominator
            rounding = 64 * np.finfo(np.float64).eps * (squares + np.abs(crossed))
            yield values, np.sqrt(np.where(spread <= rounding, 0.0, spread)) / second


def _counted(
    columns: FloatArray, resamples: int, size: int, rng: np.random.Generator, standard_errors: bool
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Values and standard errors of a sum of ratios: how often each episode was drawn, times what it holds."""
    n, ratios = len(columns), columns.shape[1] // 2
    counts = np.zeros((_BLOCK, n))
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        for row, drawn in enumerate(drawn_episodes(n, (rows, size), rng)):
            counts[row] = np.bincount(drawn, minlength=n)
        sums = counts @ columns
        values = ratio_sum(sums[:, :ratios], sums[:, ratios:])
        errors = _standard_errors(counts, columns, sums) if standard_errors else np.full(_BLOCK, np.nan)
        yield values[:rows], errors[:rows]


def centred(contributions: Contributions) -> tuple[FloatArray, FloatArray]:
    """The ratios [K], and numerators minus ratio × denominators beside the denominators [n, 2K].

    Centring keeps the digits of the spread where the estimate is large beside it; what is left of equal returns is
    rounding, and is put to zero so that their interval has no width.

    >>> centred(Contributions.ratio(np.array([0.3, 0.6]), np.array([1.0, 2.0])))[1]
    array([[0., 1.],
           [0., 2.]])
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


def percentile(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """The plain bootstrap quantiles.

    >>> percentile(Sample(Contributions.mean(np.array([1.0, 1.0, 1.0]))), [0.9])
    [Interval(low=1.0, high=1.0, method='percentile', undefined_resamples=0)]
    """
    resampled = resample(sample.contributions, sample.resamples, sample.seed)
    return [Interval(*percentile_ends(resampled, level), "percentile", resampled.undefined) for level in levels]


def bca(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Bias-corrected and accelerated bootstrap (Efron 1987), with a closed-form jackknife: linear in episodes.

    >>> returns = np.arange(40.0) ** 2
    >>> [interval] = bca(Sample(Contributions.mean(returns), resamples=2000), [0.9])
    >>> bool(interval.low < returns.mean() < interval.high)
    True
    """
    resampled = resample(sample.contributions, sample.resamples, sample.seed)
    left_out = sample.contributions.leave_one_out
    ends = [bca_ends(resampled, sample.value, left_out, level) for level in levels]
    return [Interval(low, high, "bca", resampled.undefined) for low, high in ends]


def studentised(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Bootstrap of the estimate's error in standard errors, each resample with its own (bootstrap-t; Efron 1982).

    >>> studentised(Sample(Contributions.mean(np.array([3.0, 3.0, 3.0])), resamples=50), [0.95])[0].width
    0.0
    """
    resampled = resample(sample.contributions, sample.resamples, sample.seed, standard_errors=True)
    ends = [studentised_ends(resampled, sample.contributions, level) for level in levels]
    return [Interval(low, high, "studentised", resampled.undefined) for low, high in ends]


def refit(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Bootstrap quantiles of an estimate whose propensities are fitted on each resample, then used on that resample."""
    assert sample.refitted is not None
    resampled = sample.refitted(sample.resamples, sample.seed)
    return [Interval(*percentile_ends(resampled, level), "refit", resampled.undefined) for level in levels]


def percentile_ends(resampled: Resampled, level: float) -> tuple[float, float]:
    """The two quantiles.

    >>> percentile_ends(Resampled(np.array([0.0, 1.0, 2.0]), np.zeros(3)), 0.5)
    (0.5, 1.5)
    """
    return _quantiles(resampled.defined, tails(level))


def bca_ends(resampled: Resampled, value: float, leave_one_out: FloatArray, level: float) -> tuple[float, float]:
    """The BCa ends, from the resamples, the estimate, and its jackknife values.

    >>> bca_ends(Resampled(np.array([0.0, 1.0, 2.0]), np.zeros(3)), 1.0, np.array([0.5, 1.5]), 0.5)
    (0.5, 1.5)
    """
    values = resampled.defined
    below = ((values < value).sum() + (values <= value).sum()) / (2 * len(values))
    # With every resample on one side the correction is infinite: take half a resample as the smallest share.
    bias = ndtri(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values)))
    acceleration = _acceleration(leave_one_out)
    shifted = bias + ndtri(tails(level))
    with np.errstate(divide="ignore"):
        stretched = shifted / (1 - acceleration * shifted)
    # Past its pole the map has sent the quantile to the end of the distribution.
    stretched = np.where(acceleration * shifted < 1, stretched, np.sign(shifted) * np.inf)
    return _quantiles(values, ndtr(bias + stretched))


def studentised_ends(resampled: Resampled, contributions: Contributions, level: float) -> tuple[float, float]:
    """Estimate − quantiles of (resampled estimate − estimate) / its standard error, times the standard error.

    >>> contributions = Contributions.mean(np.array([0.0, 2.0]))
    >>> studentised_ends(Resampled(np.array([0.0, 1.0, 2.0]), np.ones(3)), contributions, 0.5)
    (0.64..., 1.35...)
    """
    value = contributions.value
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (resampled.values - value) / resampled.standard_errors
    # Resamples without spread say nothing about the error in units of the spread.
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return value, value
    low, high = _quantiles(errors, tails(level))
    error = standard_error(contributions)
    return value - high * error, value - low * error


def tails(level: float | FloatArray) -> FloatArray:
    """The two shares that leave equal tails.

    >>> tails(0.5)
    array([0.25, 0.75])
    """
    return np.array([(1 - level) / 2, (1 + level) / 2])


def _acceleration(leave_one_out: FloatArray) -> float:
    """Skewness of the jackknife values over six; an episode that holds all the weight has no such value."""
    defined = leave_one_out[np.isfinite(leave_one_out)]
    deviations = defined.mean() - defined if len(defined) else defined
    largest = np.abs(deviations).max(initial=0.0)
    if largest == 0:
        return 0.0
    relative = deviations / largest  # so that powers of tiny deviations do not vanish
    return float((relative**3).sum() / (6 * (relative**2).sum() ** 1.5))


def _quantiles(values: FloatArray, shares: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(values, shares)
    return float(low), float(high)
