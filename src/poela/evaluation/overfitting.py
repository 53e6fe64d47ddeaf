"""The paper's diagnostics of propensity overfitting: does the policy look good by avoiding some contexts?

A policy may move weight between actions, never between initial contexts. Where contexts do not repeat, neighbourhoods
take the place of identical contexts: all contexts within `radius` (a mean squared difference by default, as in
`Eligibility`; `metric="euclidean"` for the Euclidean distance).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.readable import readable
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.value_model import ValueModel
from poela.evaluation.weights import probabilities_along, weights_of
from poela.stats.weights import LogWeights

# Distances held at once.
_CELLS = 1 << 23


@dataclass(frozen=True)
class Decomposition:
    """Equation 4 of the paper: estimate = empirical + context_shift + within_contexts."""

    estimate: float
    empirical: float  # the mean of v over the logged initial contexts
    context_shift: float  # what moving weight between contexts adds; an honest policy has about 0
    within_contexts: float  # the error of weighting within neighbourhoods


def decompose(
    log_weights: FloatArray,
    returns: FloatArray,
    values: FloatArray,
    contexts: Float32Array,
    radius: float,
    metric: str = "mean_squared",
) -> Decomposition:
    """Split a self-normalised estimate into its three terms, given v(x) [n] at the initial contexts [n, d].

    v is averaged over each context's neighbourhood; with radius 0 that leaves the paper's sums over identical contexts.
    (Printed there, the second term has the opposite sign; the three terms sum to the estimate with this one.)

    >>> contexts = np.array([[0.0], [0.0], [9.0], [9.0]], np.float32)
    >>> weights, returns = np.array([2.0, 2.0, 0.0, 0.0]), np.array([1.0, 1.0, -5.0, -5.0])
    >>> with np.errstate(divide="ignore"):
    ...     decompose(np.log(weights), returns, values=returns, contexts=contexts, radius=0.0)
    Decomposition(estimate=1.0, empirical=-2.0, context_shift=3.0, within_contexts=0.0)
    """
    shares = _shares(log_weights)
    counts, _ = _ball_sums(contexts, np.ones(len(shares)), radius, metric)
    totals, _ = _ball_sums(contexts, values, radius, metric)
    nearby = totals / counts
    empirical = float(nearby.mean())
    context_shift = float((shares - 1 / len(shares)) @ nearby)
    return Decomposition(float(shares @ returns), empirical, context_shift, float(shares @ (returns - nearby)))


@dataclass(frozen=True)
class LowReturnWeight:
    """How much of the weight lies on episodes of low return; far less than their share hints at avoidance."""

    threshold: float
    weight: float  # sum of normalised weights
    share_of_episodes: float


def low_return_weight(log_weights: FloatArray, returns: FloatArray, threshold: float) -> LowReturnWeight:
    """The normalised weight of episodes whose return is below the threshold.

    >>> low_return_weight(np.log([3.0, 1.0]), np.array([1.0, 0.0]), threshold=0.5)
    LowReturnWeight(threshold=0.5, weight=0.25, share_of_episodes=0.5)
    """
    low = returns < threshold
    return LowReturnWeight(threshold, float(_shares(log_weights)[low].sum()), float(low.mean()))


@dataclass(frozen=True, eq=False)
class BallWeights:
    """The sum of one-step ratios in the ball around each logged context, against Theorem 1: at least 1 − δ·L·A."""

    rows: IntArray  # [m], the contexts looked at, as rows of the flat log
    sums: FloatArray  # [m]
    lipschitz: float  # L, per unit of Euclidean distance
    bound: float  # 1 − δ·L·A with the Euclidean δ; at or below 0 it promises nothing

    @property
    def below_bound(self) -> int:
        """How many balls hold less than the bound: none, if every action of the policy is eligible."""
        return int((self.sums < self.bound - 1e-9).sum())

    @property
    def empty(self) -> int:
        """How many balls hold no weight at all: contexts whose logged actions the policy avoids altogether."""
        return int((self.sums == 0).sum())


def ball_weights(
    weights: LogWeights,
    logs: Trajectories,
    probabilities: FloatArray,
    radius: float,
    metric: str = "mean_squared",
    *,
    most_contexts: int = 2000,
    lipschitz: float | None = None,
) -> BallWeights:
    """Look at up to `most_contexts` logged contexts, evenly spread over the log, pooled over steps.

    Unless given, the Lipschitz constant is the steepest slope of the policy seen between a context and its ball.

    >>> logs = Trajectories([[0.0], [0.1]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[0.5, 0.5])
    >>> found = ball_weights(LogWeights([0.0, 0.0], logs.offsets), logs, np.full((2, 2), 0.5), radius=0.5)
    >>> found.sums, found.bound, found.below_bound
    (array([2., 2.]), 1.0, 0)
    """
    rows = np.unique(np.linspace(0, logs.n_steps - 1, min(most_contexts, logs.n_steps)).round().astype(np.int64))
    slopes_of = probabilities if lipschitz is None else None
    sums, steepest = _ball_sums(logs.contexts, np.exp(weights.log_ratios), radius, metric, rows, slopes_of)
    constant = steepest if lipschitz is None else lipschitz
    bound = 1 - _euclidean(radius, metric, logs.n_features) * constant * logs.n_actions
    return BallWeights(rows, sums, constant, bound)


@dataclass(frozen=True)
class Gap:
    """How much better a policy looks on the logs that it was trained on."""

    train: float
    validation: float
    gap: float
    standard_error: float

    @property
    def z(self) -> float:
        """The gap in standard errors; NaN without one."""
        return self.gap / self.standard_error if self.standard_error > 0 else float("nan")


def train_validation_gap(train: Estimate, validation: Estimate) -> Gap:
    """The difference of two estimates of one policy on independent logs."""
    error = float(np.hypot(train.standard_error, validation.standard_error))
    return Gap(train.value, validation.value, train.value - validation.value, error)


@dataclass(frozen=True)
class AvoidedContext:
    """An initial context whose neighbourhood has lost weight: `weight` of the `neighbours` that it should hold."""

    episode: int  # position in the logs
    neighbours: int
    weight: float  # sum of weights in the neighbourhood, scaled to mean 1 over all episodes
    mean_return: float  # of the logged neighbours
    features: dict[str, float]

    @property
    def missing(self) -> float:
        """How many episodes' worth of weight is gone."""
        return self.neighbours - self.weight


def avoided_contexts(
    log_weights: FloatArray,
    logs: Trajectories,
    radius: float,
    metric: str = "mean_squared",
    *,
    most: int = 10,
    discount: float = 1.0,
) -> tuple[AvoidedContext, ...]:
    """Initial contexts by missing weight, most first; each next one lies outside the neighbourhoods before it.

    >>> logs = Trajectories([[0.0], [0.0], [9.0]], [0, 0, 0], [-5.0, -3.0, 1.0], [0, 1, 2, 3])
    >>> [worst] = avoided_contexts(np.array([-np.inf, -np.inf, 0.0]), logs, radius=1.0)
    >>> worst.neighbours, worst.weight, worst.mean_return, worst.features
    (2, 0.0, -4.0, {'x0': 0.0})
    """
    contexts, returns = logs.initial_contexts, logs.returns(discount)
    scaled = _shares(log_weights) * len(log_weights)
    counts, _ = _ball_sums(contexts, np.ones(len(scaled)), radius, metric)
    held, _ = _ball_sums(contexts, scaled, radius, metric)
    totals, _ = _ball_sums(contexts, returns, radius, metric)
    missing = counts - held
    result: list[AvoidedContext] = []
    reach = _euclidean(radius, metric, logs.n_features)
    for episode in np.argsort(-missing, kind="stable"):
        if len(result) == most or missing[episode] <= 0:
            break
        earlier = contexts[[avoided.episode for avoided in result]]
        if len(earlier) and (cdist(contexts[episode : episode + 1], earlier) <= reach).any():
            continue
        features = {name: float(x) for name, x in zip(logs.feature_names, contexts[episode], strict=True)}
        mean_return = float(totals[episode] / counts[episode])
        result.append(AvoidedContext(int(episode), int(counts[episode]), float(held[episode]), mean_return, features))
    return tuple(result)


def _shares(log_weights: FloatArray) -> FloatArray:
    largest = log_weights.max()
    if largest == -np.inf:
        raise InputError("every weight is zero: the policy takes none of the logged actions")
    relative = np.exp(log_weights - largest)
    return np.asarray(relative / relative.sum())


def _euclidean(radius: float, metric: str, n_features: int) -> float:
    if metric not in ("mean_squared", "euclidean") or not radius >= 0:
        raise InputError(f"radius {radius} must not be negative, and metric {metric!r} 'mean_squared' or 'euclidean'")
    return radius if metric == "euclidean" else float(np.sqrt(radius * max(n_features, 1)))


def _ball_sums(
    contexts: Float32Array,
    amounts: FloatArray,
    radius: float,
    metric: str,
    rows: IntArray | None = None,
    slopes_of: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """The sum of amounts [N] within the ball around each context (or the given rows), and the steepest slope there."""
    reach = _euclidean(radius, metric, contexts.shape[1])
    rows = np.arange(len(contexts)) if rows is None else rows
    sums, steepest = np.empty(len(rows)), 0.0
    for part, distances in _distances(contexts, rows):
        inside = distances <= reach * (1 + 1e-12)  # a neighbour at the very edge belongs to the ball
        sums[part] = inside @ amounts
        if slopes_of is not None:
            steepest = max(steepest, _steepest(slopes_of, rows[part], distances, inside & (distances > 0)))
    return sums, steepest


def _distances(contexts: Float32Array, rows: IntArray) -> Iterator[tuple[slice, FloatArray]]:
    """Euclidean distances from the rows to all contexts, a bounded number at a time."""
    points = np.asarray(contexts, np.float64)
    at_once = max(1, _CELLS // len(points))
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        yield part, cdist(points[rows[part]], points)


def _steepest(probabilities: FloatArray, rows: IntArray, distances: FloatArray, near: BoolArray) -> float:
    """The largest change of any action's probability per unit of distance, between rows and what is near them."""
    here, there = np.nonzero(near)
    if not len(here):
        return 0.0
    changes = np.zeros(len(here))
    for column in probabilities.T:
        np.maximum(changes, np.abs(column[rows[here]] - column[there]), out=changes)
    return float((changes / distances[here, there]).max())


# All diagnostics of propensity overfitting of one policy on the logs that it was trained on.


@dataclass(frozen=True)
class PropensityOverfitting:
    """What `propensity_overfitting` found."""

    decomposition: Decomposition
    low_returns: LowReturnWeight
    balls: BallWeights
    avoided: tuple[AvoidedContext, ...]

    def __str__(self) -> str:
        terms, low, balls = self.decomposition, self.low_returns, self.balls
        return (
            f"estimate {readable(terms.estimate)} = {readable(terms.empirical)} on the logged contexts "
            f"{readable(terms.context_shift, signed=True)} by shifting weight between contexts "
            f"{readable(terms.within_contexts, signed=True)} within them; "
            f"{low.weight:.1%} of the weight on the {low.share_of_episodes:.1%} of episodes with low returns; "
            f"{balls.empty} of {len(balls.rows)} contexts without any weight near them"
        )


def propensity_overfitting(
    policy: Any,
    logs: Trajectories,
    radius: float,
    metric: str = "mean_squared",
    *,
    low_return: float | None = None,
    discount: float = 1.0,
    truncation: float = DEFAULT_TRUNCATION,
    seed: int = 0,
) -> PropensityOverfitting:
    """The paper's diagnostics together; v(x) comes from cross-fitted step regressions.

    `low_return` is below which returns count as low; by default, below the median.

    >>> from poela.simulators.episodes import run
    >>> from poela.simulators.tumor import TumorBehavior, TumorGrowth
    >>> logs = run(TumorGrowth(), TumorBehavior(), episodes=100, seed=0)
    >>> found = propensity_overfitting(TumorBehavior(), logs, radius=0.5)
    >>> abs(found.decomposition.context_shift) < 1e-9, found.balls.empty, found.avoided
    (True, 0, ())
    """
    probabilities = probabilities_along(policy, logs)
    weights = weights_of(probabilities, logs)
    used, returns = weights.truncated(truncation), logs.returns(discount)
    (model,) = ValueModel(logs, discount=discount, seed=seed).values(probabilities[None])
    values = model.expected[logs.offsets[:-1]]
    threshold = float(np.median(returns)) if low_return is None else low_return
    return PropensityOverfitting(
        decompose(used, returns, values, logs.initial_contexts, radius, metric),
        low_return_weight(used, returns, threshold),
        ball_weights(weights, logs, probabilities, radius, metric),
        avoided_contexts(used, logs, radius, metric, discount=discount),
    )
