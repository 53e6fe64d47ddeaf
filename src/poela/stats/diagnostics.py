"""What the weights say about an estimate: how many episodes carry it, and how heavy their tail is."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.ragged import step_numbers
from poela.core.typed import Count, Unknowable, Whole
from poela.stats.bounds import Bounds, two_valued
from poela.stats.contributions import skewness
from poela.stats.weights import LogWeights, effective_share

# The shape of the weights' tail: a generalised Pareto fit, as in Pareto-smoothed importance sampling.

SMALLEST_TAIL = 5
# Log weights that differ by less are equal but for the rounding of their sums; taken as a tail, it would look heavy.
TIE = 1e-9
# Below this, reciprocals overflow; a tail that spans so many orders is hopeless at any precision.
SMALLEST_EXCESS = 1e-290


def pareto_k(log_weights: FloatArray) -> float:
    """The tail shape k̂ of the weights (Vehtari et al. 2024): about 1/k̂ moments exist; above 0.7 distrust the mean.

    The tail is the min(n/5, 3√n) largest weights. −inf where they are all equal; NaN where fewer than five stand out.

    >>> pareto_k(np.zeros(100))
    -inf
    """
    n = len(log_weights)
    size = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    if size < SMALLEST_TAIL or log_weights.max() == -np.inf:
        return float("nan")
    largest = np.sort(np.partition(log_weights, n - size - 1)[n - size - 1 :])
    above = largest > largest[0] + TIE
    if not above.any():
        return float("-inf")
    if above.sum() < SMALLEST_TAIL:
        return float("nan")
    relative = np.exp(largest - largest[-1])
    shape, _ = fit_generalised_pareto(np.maximum(relative[above] - relative[0], SMALLEST_EXCESS))
    # A weak prior worth ten observations at 0.5 steadies short tails (Vehtari et al. 2024, appendix).
    return float((above.sum() * shape + 10 * 0.5) / (above.sum() + 10))


def fit_generalised_pareto(excess: FloatArray) -> tuple[float, float]:
    """Shape k and scale σ of P(X > x) = (1 + k·x/σ)^(−1/k), by the near-Bayesian fit of Zhang & Stephens (2009).

    >>> quantiles = (np.arange(1000) + 0.5) / 1000
    >>> shape, scale = fit_generalised_pareto(((1 - quantiles) ** -0.4 - 1) / 0.4 * 2.0)  # k = 0.4, σ = 2
    >>> round(shape, 1), round(scale, 1)
    (0.4, 2.0)
    """
    x = np.sort(excess)
    n = len(x)
    grid = 30 + int(np.sqrt(n))
    quartile = x[max(int(n / 4 + 0.5) - 1, 0)]
    # Candidates θ = −k/σ around 1/max, spread by the first quartile (their equation for the prior grid).
    theta = 1 / x[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile)
    shapes = -np.log1p(-theta[:, None] * x).mean(axis=1)  # their k has the other sign
    # At θ = 0 the tail is exponential, and θ / k the reciprocal of its mean.
    slopes = np.divide(theta, shapes, out=np.full(grid, 1 / x.mean()), where=shapes != 0)
    log_likelihood = n * (np.log(slopes) + shapes - 1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    mean_theta = float((theta * posterior).sum() / posterior.sum())
    shape = float(np.log1p(-mean_theta * x).mean())
    return shape, -shape / mean_theta


@dataclass(frozen=True)
class OutsideSupport:
    """How much of a policy lies outside support.

    `missing` is the probability that an episode takes a doubtful pair that is never taken, as far as weights can tell:
    what it does there, less the weight of those who did. It is unbiased where propensities are known.
    """

    decisions: float  # the share of its decisions
    episodes: float  # the share of episodes with any such decision
    missing: float = 0.0
    missing_error: float = 0.0


class RecombinedWeights(Protocol):
    """Log weights of many more episodes like the logged ones, which show what these may lack."""

    @property
    def log_weights(self) -> FloatArray:
        """[m]."""

    @property
    def redrawn(self) -> bool:
        """Whether their actions were drawn anew."""

    def expected_ess(self, n_units: int, truncation: float) -> float:
        """The effective sample size to expect of a log of so many episodes or clusters."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Numbers on the weights behind an estimate. What cannot be known is NaN, or None."""

    n_episodes: Count
    n_steps: Count
    ess: Unknowable  # Kish, of the weights that the estimator uses; of clusters where there are any
    ess_by_step: FloatArray  # [H], of the cumulative weights; an ended episode keeps its last
    largest_share: Unknowable  # of the normalised weight, held by one episode or cluster
    pareto_k: Unknowable  # of the untruncated weights; above 0.7 the mean weight cannot be relied on
    mean_weight: Unknowable  # untruncated; 1 in expectation
    mean_weight_z: Unknowable  # its distance from 1 in standard errors
    zero_weight_share: Unknowable  # of episodes
    ineligible_steps: Whole  # steps whose logged action the policy never takes
    truncated_share: Unknowable  # of episodes
    stranded_steps: Whole | None = None  # steps where nothing was near and the policy fell back
    outside_share: Unknowable = float("nan")  # of the policy's decisions: never made in like cases
    leaving_share: Unknowable = float("nan")  # of its episodes: with any such decision
    missing_share: Unknowable = float("nan")  # of its episodes: lost where support is in doubt, as far as weights tell
    missing_error: Unknowable = float("nan")
    calibration_error: float | None = None  # of the propensities, where those of all actions are logged
    n_clusters: Whole | None = None  # None: every episode is a unit of its own
    expected_ess: Unknowable = float("nan")  # of a log like this one, from recombined episodes
    redrawn: bool = False  # whether those had their actions drawn anew, which shows the weights' tail as it is
    trait_ratio: Unknowable = float("nan")  # spread of log weights over that of recombined ones
    events: Unknowable = float("nan")  # effective episodes with the rarer of two outcomes
    return_skew: Unknowable = float("nan")  # skewness of other returns over √ESS: how far from normal their mean is
    gain_skew: Unknowable = float("nan")  # skewness towards losses of what units add to the gain, over √units

    @property
    def n_units(self) -> int:
        """How many independent units there are, which effective ones are of: clusters, or else episodes."""
        return self.n_episodes if self.n_clusters is None else self.n_clusters

    @property
    def units(self) -> str:
        """The same, in words where these are clusters."""
        return f"{self.n_units:,}" if self.n_clusters is None else self.units_in_words

    @property
    def units_in_words(self) -> str:
        """The same, always in words."""
        return f"{self.n_units:,} {'episodes' if self.n_clusters is None else 'clusters'}"


def diagnose(
    weights: LogWeights,
    *,
    used: FloatArray | None = None,
    truncation: float = np.inf,
    stranded_steps: int | None = None,
    outside: OutsideSupport | None = None,
    calibration_error: float | None = None,
    clusters: IntArray | None = None,
    pool: RecombinedWeights | None = None,
    returns: FloatArray | None = None,
    bounds: Bounds | None = None,
) -> Diagnostics:
    """Diagnostics of the weights; `used` are the log weights [n] that the estimator uses, by default untruncated.

    >>> equal = LogWeights(np.zeros(40), np.arange(0, 41, 2))
    >>> found = diagnose(equal)
    >>> found.ess, found.largest_share, found.mean_weight
    (20.0, 0.05, 1.0)
    """
    episodes = weights.episodes
    used = episodes if used is None else used
    units = weights.n_episodes if clusters is None else int(clusters.max()) + 1
    mean, z = mean_weight(episodes, clusters)
    ess = effective_share(used, clusters) * units
    expected = float("nan") if pool is None else pool.expected_ess(units, truncation)
    return Diagnostics(
        n_episodes=weights.n_episodes,
        n_steps=len(weights.log_ratios),
        ess=ess,
        ess_by_step=ess_by_step(weights),
        largest_share=largest_share(used, clusters),
        pareto_k=pareto_k(episodes),
        mean_weight=mean,
        mean_weight_z=z,
        zero_weight_share=float((episodes == -np.inf).mean()),
        ineligible_steps=int((weights.log_ratios == -np.inf).sum()),
        truncated_share=float((episodes > np.log(truncation)).mean()),
        stranded_steps=stranded_steps,
        **_of_support(outside),
        calibration_error=calibration_error,
        n_clusters=None if clusters is None else units,
        expected_ess=expected,
        redrawn=pool is not None and pool.redrawn,
        trait_ratio=float("nan") if pool is None else _spread(episodes) / _spread(pool.log_weights),
        **_of_returns(used, returns, bounds, np.fmin(ess, expected)),
    )


def _of_support(outside: OutsideSupport | None) -> dict[str, float]:
    if outside is None:
        return {}
    return {
        "outside_share": outside.decisions,
        "leaving_share": outside.episodes,
        "missing_share": outside.missing,
        "missing_error": outside.missing_error,
    }


def _spread(log_weights: FloatArray) -> float:
    """The variance of the log weights that are not zero."""
    finite = log_weights[np.isfinite(log_weights)]
    return max(float(finite.var()), 1e-12) if len(finite) > 1 else float("nan")


def _of_returns(used: FloatArray, returns: FloatArray | None, bounds: Bounds | None, ess: float) -> dict[str, float]:
    """How many events stand behind a rate; how skewed returns of other kinds are, for so many effective episodes."""
    if returns is None or not ess > 0:
        return {}
    if bounds is not None and two_valued(bounds, returns):
        shares = np.exp(used - used.max())
        rate = float(shares @ (returns == bounds.highest_return) / shares.sum())
        return {"events": float(ess * min(rate, 1 - rate))}
    return {"return_skew": abs(skewness(returns)) / float(np.sqrt(ess))}


def largest_share(log_values: FloatArray, clusters: IntArray | None = None) -> float:
    """The share of all weight that the heaviest episode (or cluster) holds.

    >>> round(largest_share(np.log([1.0, 3.0])), 9)
    0.75
    """
    largest = log_values.max()
    if largest == -np.inf:
        return float("nan")
    relative = np.exp(log_values - largest)
    held = relative if clusters is None else np.bincount(clusters, relative)
    return float(held.max() / held.sum())


def mean_weight(log_values: FloatArray, clusters: IntArray | None = None) -> tuple[float, float]:
    """The mean weight, and its distance from 1 in standard errors (0 where it is 1 exactly).

    >>> mean_weight(np.zeros(3))
    (1.0, 0.0)
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights = np.exp(log_values)
        mean = float(weights.mean())
        beyond = weights - mean if clusters is None else np.bincount(clusters, weights - mean)
        units = len(beyond)
        error = np.sqrt(np.square(beyond).sum() * units / (units - 1)) / len(weights) if units > 1 else np.nan
        return mean, 0.0 if mean == 1.0 else float((mean - 1.0) / error)


def ess_by_step(weights: LogWeights) -> FloatArray:
    """Kish's effective sample size [H] of the cumulative weights at each step; linear in steps, no padding.

    >>> ess_by_step(LogWeights(np.log([1.0, 1.0, 1.0, 3.0]), np.array([0, 2, 4])))
    array([2. , 1.6])
    """
    running, steps = weights.running, step_numbers(weights.offsets)
    horizon = int(steps.max()) + 1
    running_sums, running_squares = _log_sums(steps, running, horizon)
    # An ended episode keeps its last weight, so it joins the sums of every later step.
    last = running[weights.offsets[1:] - 1]
    ended_sums, ended_squares = _log_sums(np.diff(weights.offsets), last, horizon + 1)
    sums = np.logaddexp(running_sums, np.logaddexp.accumulate(ended_sums)[:horizon])
    squares = np.logaddexp(running_squares, np.logaddexp.accumulate(ended_squares)[:horizon])
    alive = sums > -np.inf
    return np.where(alive, np.exp(np.where(alive, 2 * sums, 0.0) - np.where(alive, squares, 0.0)), 0.0)


def _log_sums(groups: IntArray, log_values: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The logs of the sum of exp(log_values) and of its squares, in each group."""
    largest = np.full(count, -np.inf)
    np.maximum.at(largest, groups, log_values)
    scale = np.where(np.isfinite(largest), largest, 0.0)
    relative = np.exp(log_values - scale[groups])
    with np.errstate(divide="ignore"):
        sums = np.log(np.bincount(groups, relative, count)) + scale
        squares = np.log(np.bincount(groups, np.square(relative), count)) + 2 * scale
    return sums, squares
