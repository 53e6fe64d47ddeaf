"""The interval of recombined episodes: how far off estimates are on logs made of them."""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from poela.core.arrays import FloatArray
from poela.stats.bootstrap import resample, tails
from poela.stats.bounds import Interval, Sample, bounded_ends, student
from poela.stats.contributions import Contributions, standard_error
from poela.stats.weights import effective_sample_size

MOST_RESAMPLES = 1000  # with as many its coverage was measured
_APART = 15_000  # groups to draw from, at least, where episodes of the pool are drawn together


def recombined(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Bootstrap-t on recombined episodes, and for bounded returns at least what counts of events allow.

    Without recombined episodes (estimators that weight step by step or not at all) the interval is `student`.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> rng = np.random.default_rng(0)
    >>> weights = LogWeights(rng.normal(-0.08, 0.4, 800), np.arange(0, 801, 4))
    >>> logs = Trajectories(np.zeros((800, 1)), np.zeros(800), rng.random(800), weights.offsets)
    >>> from poela.evaluation.estimators import snis
    >>> from poela.evaluation.evidence import Evidence
    >>> from poela.evaluation.recombination import Recombined
    >>> evidence = Evidence(weights, logs)
    >>> pool = Recombined(logs, seed=0).pool(evidence).contributions(snis, evidence.truncation)
    >>> sample = Sample(snis(evidence), resamples=500, returns=evidence.returns, pool=pool)
    >>> [interval] = recombined(sample, [0.95])
    >>> interval.method, interval.low < sample.value < interval.high
    ('recombined', True)
    """
    if sample.pool is None or sample.returns is None:
        ends = [(interval.low, interval.high) for interval in student(sample, levels)]
    else:
        resamples = min(sample.resamples, MOST_RESAMPLES)
        errors = studentised_errors(sample.pool, sample.contributions.n_episodes, resamples, sample.seed)
        ends = recombined_ends(errors, sample.contributions, sample.returns, levels, sample.ess)
    if sample.bounds is not None:
        ess = sample.ess or _units(sample.contributions)
        counted = bounded_ends(sample.value, standard_error(sample.contributions), ess, sample.bounds, levels)
        ends = [
            (max(min(low, least), sample.bounds.lowest_return), min(max(high, most), sample.bounds.highest_return))
            for (low, high), (least, most) in zip(ends, counted, strict=True)
        ]
    return [Interval(low, high, "student" if sample.pool is None else "recombined") for low, high in ends]


def recombined_ends(
    errors: FloatArray,
    contributions: Contributions,
    returns: FloatArray,
    levels: Sequence[float],
    ess: float | None = None,
) -> list[tuple[float, float]]:
    """The ends from errors in standard errors, as they occur on recombined logs.

    Each end reaches as far as errors do on its side, and at least as far as Student's with as many degrees of freedom
    as effective units; so an interval holds those of all lower levels. It reaches no farther beyond the logged returns
    than these reach (a good policy may do better on average than the best logged episode). The standard error is near
    zero where one episode has all the weight, just where the estimate knows least, so what one more effective episode
    may change is added to it: the spread of returns over the effective sample size. With many of those it is nothing.

    >>> recombined_ends(np.array([-1.0, 1.0]), Contributions.mean(np.array([1.0, 1.0])), np.ones(2), [0.95])
    [(1.0, 1.0)]
    """
    value, ess, n = contributions.value, ess or _units(contributions), contributions.n_episodes
    if not len(errors):
        return [(value, value)] * len(levels)
    error = float(np.hypot(standard_error(contributions) * np.sqrt(n / (n - 1)), returns.std() / ess))
    beyond = float(np.ptp(returns))
    ends = []
    for level in levels:
        least = float(stdtrit(max(ess - 1, 1.0), (1 + level) / 2))
        few, many = np.quantile(errors, tails(level))
        low = value - max(float(many), least) * error
        high = value + max(-float(few), least) * error
        lowest, highest = min(value, float(returns.min())) - beyond, max(value, float(returns.max())) + beyond
        ends.append((max(low, lowest), min(high, highest)))
    return ends


def _units(contributions: Contributions) -> float:
    """How many effective units an estimate of whole episodes rests on."""
    if contributions.denominators.shape[1] > 1:
        return float(contributions.n_episodes)
    with np.errstate(divide="ignore"):
        return effective_sample_size(np.log(contributions.denominators[:, 0]))


def studentised_errors(pool: Contributions, n: int, resamples: int, seed: int) -> FloatArray:
    """(Estimate − truth) / standard error on logs of n episodes drawn from the pool, whose own value is the truth.

    Recombined episodes come in no order, so of a large pool those in a row are drawn together. Given the pool, that
    moves the variance of the errors by a random share of about √(2 / _APART), a hundredth.

    >>> errors = studentised_errors(Contributions.mean(np.array([0.0, 1.0])), n=50, resamples=2000, seed=0)
    >>> round(float(errors.std()), 1)
    1.0
    """
    together = max(1, pool.n_episodes // _APART)
    whole = pool.n_episodes // together * together
    pool = Contributions(pool.numerators[:whole], pool.denominators[:whole])
    drawn = resample(pool, resamples, seed, size=n, together=together, standard_errors=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (drawn.values - pool.value) / drawn.standard_errors
    return errors[np.isfinite(errors)]
