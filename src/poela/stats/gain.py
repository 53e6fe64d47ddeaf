"""The gain over the logging policy: one paired quantity, and how much hidden confounding it survives."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import stdtrit

from poela.core.arrays import FloatArray, IntArray
from poela.core.readable import between, factor_in_words, readable
from poela.core.typed import Range, refuse_problems
from poela.stats.bounds import Bounds, Interval, against_tail, bounded_ends, degrees_of_freedom, in_clusters
from poela.stats.contributions import Contributions, standard_error
from poela.stats.weights import safe_shift

MOST_SENSITIVITY = 1000.0


@dataclass(frozen=True)
class Gain:
    """New minus current: by how much the policy is better than the one that made the logs.

    `sensitivity` is Γ: the gain vanishes if something that was not recorded made some episodes' weights wrong by a
    factor of up to Γ, in the worst way (1000 where more than that would be needed). None where that means nothing: the
    lower end is not above zero, so that chance alone may undo the gain, or the estimate is not to be trusted.

    >>> print(Gain(2.1, 0.8, 3.3, sensitivity=1.4))
    +2.10 [0.80, 3.30]; vanishes at Γ = 1.40
    >>> print(Gain(1260.0, -40.0, 2560.0, sensitivity=1000.0))  # as of an earlier version
    +1,260 [-40, 2,560]
    """

    value: float  # new minus current
    low: float | None  # lower end of its interval
    high: float | None  # upper end of its interval
    sensitivity: Annotated[float, Range(least=1)] | None = None  # Γ at which it vanishes; None: that means nothing

    def __post_init__(self) -> None:
        refuse_problems(self)

    @property
    def undone_by(self) -> float | None:
        """Γ, where there is something to undo: a gain whose lower end is above zero."""
        return self.sensitivity if self.low is not None and self.low > 0 else None

    def __str__(self) -> str:
        error = None if self.low is None or self.high is None else (self.high - self.low) / 4
        ends = "" if error is None else f" {between(self.low, self.high, error)}"
        gamma = "" if self.undone_by is None else f"; vanishes at Γ = {factor_in_words(self.undone_by)}"
        return f"{readable(self.value, error, signed=True)}{ends}{gamma}"

    def _repr_html_(self) -> str:
        from poela.core.readable import block

        return block("New − current", str(self))


def gain_over_logging(
    contributions: Contributions,
    returns: FloatArray,
    interval: Interval | None,
    level: float,
    *,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
    log_weights: FloatArray | None = None,
    done_now: Contributions | None = None,
    strata: IntArray | None = None,
    tail: float = 0.0,
) -> Gain:
    """The gain, from an estimate's contributions [n] and its interval at this level, and the logged returns [n].

    Given the `log_weights` [n] behind it, a gain whose lower end is above zero has a Γ. `done_now` is what is done now,
    where that is not the mean of the returns; `strata` [n] are the loggers of episodes, where there are several, and
    `tail` is how skewed towards losses the gain is.

    The gain is one estimate with a standard error of its own, in which what both policies share cancels. Each end is as
    many of these errors away as the end of the value's interval is of the value's errors, and at least as many as
    Student's: a wider interval of the value never makes a narrower one of the gain.

    >>> returns, weights = np.array([0.0, 1.0] * 50), np.array([1.0, 3.0] * 50)
    >>> contributions = Contributions.ratio(weights * returns, weights)
    >>> round(gain_over_logging(contributions, returns, None, 0.95).value, 9)
    0.25
    """
    logging = Contributions.mean(returns) if done_now is None else done_now
    value = contributions.value - logging.value
    if interval is None:
        return Gain(value, None, None)
    own, base = in_clusters(contributions, clusters, strata), in_clusters(logging, clusters, strata)
    gain = own.less(base)
    errors = standard_error(own), standard_error(gain)
    least = student_quantile(gain, level)
    # An unnormalised value may lie outside of what is possible, where its interval ends.
    below, above = max(own.value - interval.low, 0.0), max(interval.high - own.value, 0.0)
    if bounds is None:  # bounded returns end where nothing more is possible
        below, above = max(below, least * errors[0]), max(above, least * errors[0])
    # A policy that avoids what varies errs the other way round than its value does, and so do its longer tails.
    turned = float(gain.influence @ own.influence) < 0
    down, up = (max(below, above),) * 2 if turned else (below, above)
    low, high = _mean_ends(base, bounds, level)
    # Never wider than if nothing were shared, and so within what is possible.
    down = min(_paired(down, *errors, least, tail), below + high - base.value)
    up = min(_paired(up, *errors, least), above + base.value - low)
    sensitivity = None
    if log_weights is not None and value > down:
        apart = 0.0 if done_now is None else done_now.value - float(returns.mean())
        sensitivity = vanishing_sensitivity(log_weights, returns, apart)
    return Gain(value, float(value - down), float(value + up), sensitivity)


def _paired(distance: float, of_value: float, of_gain: float, least: float, tail: float = 0.0) -> float:
    """As many errors of the gain as the distance has errors of the value, and at least so many; more with a tail.

    >>> _paired(6.0, of_value=2.0, of_gain=0.5, least=1.96), _paired(0.0, of_value=2.0, of_gain=0.5, least=2.0)
    (1.5, 1.0)
    """
    if of_value > 0:
        return against_tail(max(distance / of_value, least), tail) * of_gain
    # A rate without events has no error, and yet a width.
    return against_tail(least, tail) * of_gain if distance == 0 < of_gain else float("inf")


def student_quantile(units: Contributions, level: float) -> float:
    """Student's quantile, with as many degrees of freedom as units that decide."""
    n = units.n_episodes
    freedom = degrees_of_freedom(units.influence)
    return float(stdtrit(freedom, (1 + level) / 2)) * float(np.sqrt(n / max(n - 1, 1)))


def _mean_ends(logging: Contributions, bounds: Bounds | None, level: float) -> tuple[float, float]:
    """An interval for what the logging policy achieves: Student's, and for bounded returns that of counted events."""
    units, value, error = logging.n_episodes, logging.value, standard_error(logging)
    reach = float(stdtrit(max(units - 1, 1), (1 + level) / 2)) * error * np.sqrt(units / max(units - 1, 1))
    if bounds is None:
        return value - reach, value + reach
    [(low, high)] = bounded_ends(value, error, float(units), bounds, [level])
    return low, high


def vanishing_sensitivity(log_weights: FloatArray, returns: FloatArray, margin: float = 0.0) -> float:
    """The least Γ at which weights within [w/Γ, Γ·w] leave no gain over the mean return (Zhao et al. 2019).

    With a `margin`, which is what chance may account for: at which they leave no more than that.

    The least value has Γ·w on the episodes of the lowest returns and w/Γ on the others: one sort, then one pass over
    where they part.

    >>> vanishing_sensitivity(np.zeros(2), np.array([0.0, 1.0]))
    1.0
    >>> round(vanishing_sensitivity(np.log([1.0, 3.0]), np.array([0.0, 1.0])), 6)  # (3/Γ) / (Γ + 3/Γ) = 1/2
    1.732051
    """
    target = float(returns.mean()) + margin
    order = np.argsort(returns, kind="stable")
    weights = np.exp(log_weights[order] - safe_shift(log_weights))
    products = np.append(0.0, np.cumsum(weights * (returns[order] - target)))

    def least(log_gamma: float) -> float:
        """The sign of the least gain: its numerator, since the denominator is positive."""
        gamma = np.exp(log_gamma)
        return float((gamma * products + (products[-1] - products) / gamma).min())

    if least(0.0) <= 1e-12 * float(np.abs(weights * (returns[order] - target)).sum()):
        return 1.0
    low, high = 0.0, float(np.log(MOST_SENSITIVITY))
    if least(high) > 0:
        return MOST_SENSITIVITY
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if least(middle) > 0 else (low, middle)
    return float(np.exp(high))


def least_value(
    log_weights: FloatArray, returns: FloatArray, gamma: float, factors: tuple[FloatArray, FloatArray] | None = None
) -> float:
    """The least self-normalised value that weights within [w/Γ, Γ·w] can have; NaN without any weight.

    With `factors` [n], the least and the largest for each episode in place of 1/Γ and Γ.

    >>> round(least_value(np.zeros(2), np.array([0.0, 1.0]), gamma=2.0), 9)  # (1/2) / (2 + 1/2)
    0.2
    """
    order = np.argsort(returns, kind="stable")
    weights = np.exp(log_weights[order] - safe_shift(log_weights))
    if not weights.any():
        return float("nan")
    low, high = (np.full(len(weights), 1 / gamma), np.full(len(weights), gamma)) if factors is None else factors

    def least_after(amounts: FloatArray) -> FloatArray:
        more, less = np.cumsum(amounts * high[order]), np.cumsum(amounts * low[order])
        return np.asarray(np.append(0.0, more) + (less[-1] - np.append(0.0, less)))

    return float((least_after(weights * returns[order]) / least_after(weights)).min())


def seen_factors(seen: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """The factors [n] by which weights of having been seen are wrong if the odds of that are wrong by up to Γ.

    An episode whose chance was C weighs 1/C = 1 + (1 − C)/C, of which only the odds of being lost are in doubt: with
    little loss, little is at stake.

    >>> [round(float(one[0]), 3) for one in seen_factors(-np.log([0.8]), gamma=1.5)]  # 0.8 + 0.2 / 1.5, 0.8 + 0.2 · 1.5
    [0.933, 1.1]
    """
    chance = np.exp(-np.where(np.isfinite(seen), seen, 0.0))
    return chance + (1 - chance) / gamma, chance + (1 - chance) * gamma
