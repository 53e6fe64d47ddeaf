"""Episodes recombined from logged steps: what the weights' tail looks like beyond the episodes that were drawn.

A weight is a product over steps. A log of a thousand episodes holds a thousand products, but the factors were seen far
more often than that: putting the early steps of one episode before the late steps of another gives products that could
have been logged and were not. Recombined weights show how heavy the tail is where the log itself is silent, and the
errors of estimates on logs made of them show how far the estimate at hand may be off.

An episode goes on as another did whose context was alike at that step. The assumption is that, given the context, early
and late ratios have little to do with each other. Where they go together for reasons that the context does not show
(some patients are unusual throughout), the tail is longer than this shows.
"""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import stdtrit

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.ragged import episode_of_step, lengths_of, step_numbers
from poela.data.trajectories import Trajectories
from poela.evaluation.bootstrap import resample, tails
from poela.evaluation.bounds import Interval, Pool, Sample
from poela.evaluation.contributions import Contributions, standard_error
from poela.evaluation.evidence import Evidence
from poela.evaluation.normal import degrees_of_freedom, student
from poela.evaluation.weights import LogWeights, effective_sample_size

STRETCHES = 4  # of steps that stay together
MOST_RESAMPLES = 1000  # with as many its coverage was measured
# Recombined episodes for each logged one: enough to show the tail, few enough to stay in the processor's cache.
COPIES = (4, 40)
_MANY = 120_000
_ENOUGH = 20_000  # for moments of the weights
# Among how many episodes those alike are sought, and how many distances that may take.
_CANDIDATES, _FEWEST, _PAIRS = 1000, 100, 5_000_000
_AT_ONCE = 1 << 18  # distances computed at once: few enough to stay in the processor's cache
_APART = 15_000  # groups to draw from, at least, where episodes of the pool are drawn together
_LEVELS = np.linspace(0.5, 0.99, 50)
_POOL = 1  # joined to the seed, so that the pool and draws from it have nothing in common


def recombined(sample: Sample) -> Interval:
    """Bootstrap-t on recombined episodes: as wide as errors in standard errors are there, moved half their skewness.

    The whole shift would follow skewness that is itself estimated, and errs where the estimate errs; half of it was
    measured to cover best. Without recombined episodes (estimators that weight step by step or not at all, clusters)
    the interval is `student`.

    >>> rng = np.random.default_rng(0)
    >>> weights = LogWeights(rng.normal(-0.08, 0.4, 800), np.arange(0, 801, 4))
    >>> logs = Trajectories(np.zeros((800, 1)), np.zeros(800), rng.random(800), weights.offsets)
    >>> from poela.evaluation.estimators import snis
    >>> evidence = Evidence(weights, logs)
    >>> sample = Sample(snis(evidence), resamples=500, pool=recombined_pool(evidence, snis, seed=0))
    >>> interval = recombined(sample)
    >>> interval.method, interval.low < sample.value < interval.high
    ('recombined', True)
    """
    if sample.pool is None:
        return student(sample)
    resamples = min(sample.resamples, MOST_RESAMPLES)
    errors = studentised_errors(sample.pool.contributions, sample.contributions.n_episodes, resamples, sample.seed)
    ends = recombined_ends(errors, sample.contributions, sample.pool.logged_returns, sample.level)
    return Interval(*ends, "recombined")


def recombined_ends(
    errors: FloatArray, contributions: Contributions, returns: FloatArray, level: float
) -> tuple[float, float]:
    """The ends from errors in standard errors, as they occur on recombined logs.

    Every level has its own width and shift; an interval holds those of all lower levels, down to a half, so that more
    confidence is never beside less. The ends reach at least as far as those of `student`, and no farther beyond the
    logged returns than these reach (a good policy may do better on average than the best logged episode). The standard
    error is near zero where one episode has all the weight, just where the estimate knows least, so what one more
    effective episode may change is added to it: the spread of returns over the effective sample size. With many of
    those it is nothing.

    >>> recombined_ends(np.array([-1.0, 0.0, 1.0]), Contributions.mean(np.array([1.0, 1.0])), np.ones(2), 0.95)
    (1.0, 1.0)
    """
    value = contributions.value
    if not len(errors):
        return value, value
    with np.errstate(divide="ignore"):
        ess = effective_sample_size(np.log(contributions.denominators[:, 0]))
    error = float(np.hypot(standard_error(contributions), returns.std() / ess))
    levels = np.append(_LEVELS[level > _LEVELS], level)
    least = stdtrit(degrees_of_freedom(contributions.influence), (1 + levels) / 2)
    reach = np.maximum(np.quantile(np.abs(errors), levels), least)
    shift = np.clip(np.quantile(errors, tails(levels)).mean(axis=0) / 2, -reach, reach)
    low = float((value - (shift + reach) * error).min())
    high = float((value - (shift - reach) * error).max())
    beyond = float(np.ptp(returns))
    return max(low, min(value, float(returns.min())) - beyond), min(high, max(value, float(returns.max())) + beyond)


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


def recombined_pool(evidence: Evidence, estimator: Callable[[Evidence], Contributions], seed: int) -> Pool:
    """What `recombined` needs of a log."""
    return Pool(recombined_contributions(evidence, estimator, seed), evidence.returns)


def recombined_contributions(
    evidence: Evidence, estimator: Callable[[Evidence], Contributions], seed: int
) -> Contributions:
    """What an estimator of whole episodes makes of recombined episodes.

    >>> logs = Trajectories([[0.0]] * 4, [0] * 4, [1.0, 1.0, 1.0, 1.0], [0, 2, 4])
    >>> from poela.evaluation.estimators import snis
    >>> recombined_contributions(Evidence(LogWeights([0.0, 1.0, -1.0, 0.0], logs.offsets), logs), snis, seed=0).value
    2.0
    """
    rng = np.random.default_rng((seed, _POOL))
    n = evidence.weights.n_episodes
    size = max(COPIES[0] * n, min(COPIES[1] * n, _MANY))
    log_weights = recombined_weights(evidence.weights, size, rng, evidence.logs.contexts)
    returns = _returns_like(log_weights, evidence.weights.episodes, evidence.returns, rng)
    steps = np.arange(len(returns) + 1)
    logs = Trajectories(np.zeros((len(returns), 1)), np.zeros(len(returns), np.int64), returns, steps)
    return estimator(Evidence(LogWeights(log_weights, steps), logs, truncation=evidence.truncation))


def recombined_weights(
    weights: LogWeights, size: int, rng: np.random.Generator, contexts: Float32Array | None = None
) -> FloatArray:
    """Log weights [size] of episodes spliced from stretches of different logged episodes.

    Where contexts [N, d] are given, an episode goes on as another did whose context was alike at that step.

    >>> logged = LogWeights(np.log([1.0, 2.0, 5.0, 7.0]), np.array([0, 2, 4]))
    >>> drawn = recombined_weights(logged, 100, np.random.default_rng(0))
    >>> sorted({round(float(weight)) for weight in np.exp(drawn)})
    [2, 7, 10, 35]
    """
    lengths, first = lengths_of(weights.offsets), weights.offsets[:-1]
    starts, sums = _stretches(weights)
    total, going_on = np.zeros(size), np.arange(size)
    chosen = rng.integers(len(lengths), size=size)
    for index, start in enumerate(starts):
        if index > 0:
            still = np.flatnonzero(lengths[chosen] > start)
            going_on, chosen = going_on[still], chosen[still]
            donors = np.flatnonzero(lengths > start)
            if contexts is None:
                others = rng.integers(len(donors), size=len(chosen))
            else:
                row = np.cumsum(lengths > start) - 1
                others = _alike(row[chosen], contexts[first[donors] + start], rng)
            chosen = donors[others]
        total[going_on] += sums[index, chosen]
    return total


def _stretches(weights: LogWeights) -> tuple[IntArray, FloatArray]:
    """The first step of each stretch, with about as many logged steps in each, and the log weights in them [B, n]."""
    lengths = lengths_of(weights.offsets)
    running = np.cumsum(np.bincount(lengths)[::-1])[::-1][1:]  # how many episodes have each step
    quarters = np.ceil(np.arange(1, STRETCHES) / STRETCHES * (len(weights.log_ratios) - 1))
    cuts = np.searchsorted(np.cumsum(running), quarters, side="right")
    starts = np.unique(np.concatenate([[0], cuts])).astype(np.int64)
    stretch_of_step = np.searchsorted(starts, np.arange(len(running)), side="right") - 1
    stretch = stretch_of_step[step_numbers(weights.offsets)]
    cell = stretch * weights.n_episodes + episode_of_step(weights.offsets)
    sums = np.bincount(cell, weights.log_ratios, weights.n_episodes * len(starts))
    return starts, np.asarray(sums, np.float64).reshape(len(starts), -1)


def _alike(rows: IntArray, contexts: Float32Array, rng: np.random.Generator) -> IntArray:
    """For each of some rows of the contexts [n, d] another that is drawn from the nearest of a random part of all."""
    n = len(contexts)
    candidates = rng.permutation(n)[: max(_FEWEST, min(_CANDIDATES, _PAIRS // n))]
    among = len(candidates)
    nearest = max(1, int(np.sqrt(among)))
    centred = contexts - contexts.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(np.square(centred).mean(axis=0))
    scaled = (centred / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    # One product gives squared distances, less what is the same for all candidates.
    others = np.c_[-2 * scaled[candidates], np.square(scaled[candidates]).sum(axis=1)].T
    scaled = np.c_[scaled, np.ones(n, np.float32)]
    # Equal contexts are many in finite problems: which of them counts as near is left to chance, anew in every row.
    chances = sliding_window_view(1e-3 * rng.random(n + among, np.float32), among)
    found = []
    for start in range(0, n, step := max(1, _AT_ONCE // among)):
        distances = scaled[start : start + step] @ others
        distances += chances[start : start + len(distances)]
        found.append(start * among + np.flatnonzero(distances <= _smallest(distances, nearest)[:, -1:]))
    near = np.concatenate(found)
    first = np.searchsorted(near, among * np.arange(n + 1))
    drawn = near[first[rows] + (rng.random(len(rows)) * np.diff(first)[rows]).astype(np.int64)]
    return np.asarray(candidates[drawn % among])


def _smallest(values: Float32Array, count: int) -> Float32Array:
    """The smallest values of each row, in order.

    Values are several times as fast to sort as their positions, and up to 256 at once faster than more.
    """
    pieces = np.array_split(values, -(-values.shape[1] // 256), axis=1)
    return np.sort(np.hstack([np.sort(piece, axis=1)[:, :count] for piece in pieces]), axis=1)[:, :count]


def recombined_ess(weights: LogWeights, truncation: float = np.inf) -> float:
    """The effective sample size to expect of a log this long, from its steps in other combinations.

    A log that has missed its heaviest weights shows a larger effective sample size than it should: this one is far
    steadier.

    >>> recombined_ess(LogWeights(np.zeros(40), np.arange(0, 41, 2)))
    20.0
    """
    size = max(_ENOUGH, min(weights.n_episodes, _MANY))
    drawn = recombined_weights(weights, size, np.random.default_rng(0))
    return effective_sample_size(np.minimum(drawn, np.log(truncation))) / size * weights.n_episodes


def _returns_like(drawn: FloatArray, logged: FloatArray, returns: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A return for each drawn log weight: that of a logged episode of similar weight, moved along the common trend."""
    n = len(logged)
    order = np.argsort(logged, kind="stable")
    reach = int(np.sqrt(n))
    near = np.searchsorted(logged[order], drawn) + rng.integers(-reach, reach + 1, size=len(drawn))
    near = np.abs(near)
    near = order[np.minimum(near, 2 * (n - 1) - near)]  # reflected at both ends
    with np.errstate(invalid="ignore"):
        beyond = drawn - logged[near]
    moved = returns[near] + _trend(logged, returns) * np.where(np.isfinite(beyond), beyond, 0.0)
    return np.asarray(np.clip(moved, returns.min(), returns.max()))


def _trend(log_weights: FloatArray, returns: FloatArray) -> float:
    """How returns rise with the log weight, by least squares under the weights."""
    finite = np.isfinite(log_weights)
    if not finite.any():
        return 0.0
    x, y = log_weights[finite], returns[finite]
    shares = np.exp(x - x.max())
    shares = shares / shares.sum()
    x, y = x - shares @ x, y - shares @ y
    spread = float(shares @ np.square(x))
    return float(shares @ (x * y)) / spread if spread > 0 else 0.0
