"""The gain over the logging policy: paired, from the same episodes, and how much hidden confounding it survives."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import stdtrit

from poela.core.arrays import FloatArray, IntArray
from poela.core.readable import between, factor_in_words, readable
from poela.core.typed import Range, refuse_problems
from poela.evaluation.bounded import bounded_ends
from poela.evaluation.bounds import Bounds, Interval, in_clusters
from poela.evaluation.contributions import Contributions, standard_error
from poela.evaluation.weights import safe_shift

MOST_SENSITIVITY = 1000.0


@dataclass(frozen=True)
class Gain:
    """New minus current: by how much the policy is better than the one that made the logs.

    `sensitivity` is Γ: the gain vanishes if something that was not recorded made some episodes' weights wrong by a
    factor of up to Γ, in the worst way (1 where there is no gain; 1000 where more than that would be needed).

    >>> print(Gain(2.1, 0.8, 3.3, sensitivity=1.4))
    +2.10 [0.80, 3.30]; vanishes at Γ = 1.40
    >>> print(Gain(1260.0, None, None, sensitivity=1000.0))
    +1,260; vanishes at Γ = 1,000.0
    """

    value: float
    low: float | None
    high: float | None
    sensitivity: Annotated[float, Range(least=1)] | None = None

    def __post_init__(self) -> None:
        refuse_problems(self)

    def __str__(self) -> str:
        error = None if self.low is None or self.high is None else (self.high - self.low) / 4
        ends = "" if error is None else f" {between(self.low, self.high, error)}"
        gamma = (
            ""
            if self.sensitivity is None or self.value <= 0
            else f"; vanishes at Γ = {factor_in_words(self.sensitivity)}"
        )
        return f"{readable(self.value, error, signed=True)}{ends}{gamma}"

    def _repr_html_(self) -> str:
        from poela.core.html import block

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
) -> Gain:
    """The gain, from an estimate's contributions [n] and its interval at this level, and the logged returns [n].

    What both policies share cancels: the distances from the two values to the ends of their intervals are put together
    by the correlation of the two estimates over episodes (MOVER; Zou & Donner 2008).

    >>> returns, weights = np.array([0.0, 1.0] * 50), np.array([1.0, 3.0] * 50)
    >>> contributions = Contributions.ratio(weights * returns, weights)
    >>> round(gain_over_logging(contributions, returns, None, 0.95).value, 9)
    0.25
    """
    logging = Contributions.mean(returns)
    sensitivity = None if log_weights is None else vanishing_sensitivity(log_weights, returns)
    value = contributions.value - logging.value
    if interval is None:
        return Gain(value, None, None, sensitivity)
    together = _correlation(in_clusters(contributions, clusters), in_clusters(logging, clusters))
    low, high = _mean_ends(in_clusters(logging, clusters), bounds, level)
    # An unnormalised value may lie outside of what is possible, where its interval ends.
    down = _combined(max(contributions.value - interval.low, 0.0), high - logging.value, together)
    up = _combined(max(interval.high - contributions.value, 0.0), logging.value - low, together)
    return Gain(value, value - down, value + up, sensitivity)


def _combined(first: float, second: float, correlation: float) -> float:
    return float(np.sqrt(max(first**2 + second**2 - 2 * correlation * first * second, 0.0)))


def _correlation(first: Contributions, second: Contributions) -> float:
    """Of two estimates; what the fit of a model adds to an error is taken to be its own."""
    shared = float(first.influence @ second.influence) / first.n_episodes**2
    spread = standard_error(first) * standard_error(second)
    return shared / spread if spread > 0 else 0.0


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


def least_value(log_weights: FloatArray, returns: FloatArray, gamma: float) -> float:
    """The least self-normalised value that weights within [w/Γ, Γ·w] can have; NaN without any weight.

    >>> round(least_value(np.zeros(2), np.array([0.0, 1.0]), gamma=2.0), 9)  # (1/2) / (2 + 1/2)
    0.2
    """
    order = np.argsort(returns, kind="stable")
    weights = np.exp(log_weights[order] - safe_shift(log_weights))
    if not weights.any():
        return float("nan")
    sums, products = np.append(0.0, np.cumsum(weights)), np.append(0.0, np.cumsum(weights * returns[order]))
    return float(
        ((gamma * products + (products[-1] - products) / gamma) / (gamma * sums + (sums[-1] - sums) / gamma)).min()
    )
