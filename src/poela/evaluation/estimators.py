"""Estimators by their names: pure functions from `Evidence` to episode `Contributions`.

Those that weight whole episodes are here; those that weight step by step are in `estimators_by_step`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import episode_sums, step_numbers
from poela.core.registry import Registry
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions
from poela.stats.weights import LogWeights, safe_shift

# Estimators that weight step by step: per-decision importance sampling and the doubly robust family.
# Ragged episodes follow Thomas & Brunskill (2016): an ended episode is thought to stay in an absorbing state with
# reward 0, value 0 and ratio 1. So it keeps its last cumulative weight in every later step's normaliser; dividing by
# the running episodes alone would estimate the reward given that the episode still runs, and overrate it.

# One table of this size takes a gigabyte, and an estimate makes a few: better a clear word than no memory left.
MOST_CELLS = 1 << 27
# A step's correction counts half where this many effective episodes stand behind it.
HALF_BELIEF = 10.0


def pdis(evidence: Evidence) -> Contributions:
    """Per-decision IS: each reward under the weight up to its own step. Unbiased.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [0.0]], [0, 0], [1.0, 1.0], [0, 2])
    >>> round(pdis(Evidence(LogWeights(np.log([2.0, 3.0]), logs.offsets), logs)).value, 9)  # 2·1 + 6·1
    8.0
    """
    return Contributions.mean(_weighted_sums(evidence, evidence.logs.rewards))


def cwpdis(evidence: Evidence) -> Contributions:
    """Weighted per-decision IS (CWPDIS): at each step, the self-normalised mean of the rewards.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 3, [0] * 3, [1.0, 1.0, 4.0], [0, 2, 3])
    >>> weights = LogWeights(np.log([1.0, 3.0, 2.0]), logs.offsets)
    >>> round(cwpdis(Evidence(weights, logs)).value, 9)  # (1·1 + 2·4) / 3 + 3·1 / (3 + 2)
    3.6
    """
    running = _running_by_step(evidence.weights)
    return Contributions(running * by_step(evidence.discounts * evidence.logs.rewards, evidence.logs.offsets), running)


def dr(evidence: Evidence) -> Contributions:
    """Doubly robust (Jiang & Li 2016): the model's value, corrected by weighted surprises. Unbiased for any fixed Q.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> logs = Trajectories([[0.0]], [0], [3.0], [0, 1])
    >>> given = ModelValues(taken=np.array([2.0]), expected=np.array([1.0]))
    >>> dr(Evidence(LogWeights(np.log([2.0]), logs.offsets), logs, values=given)).value  # 1 + 2·(3 − 2)
    3.0
    """
    initial = evidence.model.expected[evidence.logs.offsets[:-1]]
    return Contributions.mean(initial + _weighted_sums(evidence, evidence.surprises))


def wdr(evidence: Evidence) -> Contributions:
    """Weighted doubly robust (Thomas & Brunskill 2016): DR with each step's weights self-normalised.

    Gathering the terms that share a normaliser leaves one ratio for the initial value and one for each step.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> logs = Trajectories([[0.0]] * 2, [0, 0], [3.0, 2.0], [0, 1, 2])
    >>> given = ModelValues(taken=np.array([2.0, 2.0]), expected=np.array([1.0, 1.0]))
    >>> wdr(Evidence(LogWeights(np.log([2.0, 2.0]), logs.offsets), logs, values=given)).value  # 1 + ½·1 + ½·0
    1.5
    """
    running = _running_by_step(evidence.weights)
    initial = evidence.model.expected[evidence.logs.offsets[:-1], None]
    surprises = by_step(evidence.discounts * evidence.surprises, evidence.logs.offsets)
    return Contributions(np.hstack([initial, running * surprises]), np.hstack([np.ones_like(initial), running]))


def guarded(evidence: Evidence) -> Contributions:
    """Weighted doubly robust, with each step's correction believed as far as effective episodes support it.

    The estimate is the model's value plus Σ_t f_t·c_t: c_t is the self-normalised mean surprise of step t, and
    f_t = ESS_t / (ESS_t + 10). With many effective episodes this is WDR, with none it is the model alone.

    Its error holds up where one episode has all the weight (so that its own influence is near zero): the corrections
    vary at least as the logged surprises would in ESS_t episodes. It is large where the model extrapolates.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> logs = Trajectories([[0.0]] * 20, [0] * 20, [3.0, 1.0] * 10, np.arange(21))
    >>> given = ModelValues(np.full(20, 1.0), np.full(20, 1.0), np.array([0.1]))
    >>> guarded(Evidence(LogWeights(np.zeros(20), logs.offsets), logs, values=given)).value  # 1 + 20 / 30 · 1
    1.666...
    """
    whole = wdr(evidence)
    running, weighted = whole.denominators[:, 1:], whole.numerators[:, 1:]
    surprises = by_step(evidence.discounts * evidence.surprises, evidence.logs.offsets)
    totals, squares = running.sum(axis=0), np.square(running).sum(axis=0)
    seen = totals > 0
    ess = np.divide(totals**2, squares, out=np.zeros_like(totals), where=seen)
    belief = ess / (ess + HALF_BELIEF)
    scale = np.where(seen, totals, 1.0)
    shown = np.square((weighted - weighted.sum(axis=0) / scale * running) / scale).sum(axis=0) * belief**2
    # f²/ESS = f / (ESS + 10): finite where no episode has weight.
    least = surprises.var(axis=0) * belief / (ess + HALF_BELIEF)
    fitted = fit_variance(evidence, 1 - belief) + float(np.maximum(least - shown, 0.0).sum())
    denominators = np.where(seen, running, 1.0)  # a step without weight corrects nothing
    return Contributions(
        np.hstack([whole.numerators[:, :1], belief * np.where(seen, weighted, 0.0)]),
        np.hstack([whole.denominators[:, :1], denominators]),
        fitted,
    )


def fit_variance(evidence: Evidence, lean: FloatArray) -> float:
    """The variance that the fit of Q brings into an estimate that leans on it at each step by a share [H].

    The surprises of a step vary under the policy as in the logs, and its regression rests on 1 / `squared_weights` of
    them. NaN where the model does not know what it rests on.
    """
    weights = evidence.model.squared_weights
    if weights is None:
        return float("nan") if (lean > 0).any() else 0.0
    steps, squares = step_numbers(evidence.logs.offsets), np.square(evidence.discounts * evidence.surprises)
    mean_squares = np.bincount(steps, squares) / np.bincount(steps)
    return float((mean_squares * weights * np.square(lean)).sum())


def by_step(values: FloatArray, offsets: IntArray, *, keep_last: bool = False) -> FloatArray:
    """Flat values [N] as a table [n, H]; after the end of an episode 0, or its last value.

    >>> by_step(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 3]), keep_last=True)
    array([[1., 2.],
           [3., 3.]])
    """
    lengths = np.diff(offsets)
    steps = np.arange(lengths.max())
    if len(lengths) * len(steps) > MOST_CELLS:
        raise InputError(
            f"estimates step by step need a table of {len(lengths)} episodes × {len(steps)} steps, which is too large: "
            "use an estimator of whole episodes or 'pdis' or 'dr', or cut the longest episodes"
        )
    table = values[offsets[:-1, None] + np.minimum(steps, lengths[:, None] - 1)]
    return table if keep_last else np.where(steps < lengths[:, None], table, 0.0)


def _running_by_step(weights: LogWeights) -> FloatArray:
    """Cumulative weights [n, H], each step's on a scale of its own where they would overflow."""
    running = by_step(weights.running, weights.offsets, keep_last=True)
    return np.asarray(np.exp(running - safe_shift(running)))


def _weighted_sums(evidence: Evidence, amounts: FloatArray) -> FloatArray:
    """The discounted, weighted sum of per-step amounts [N] over each episode."""
    # An unnormalised weight beyond double precision is honestly infinite, and so is the estimate.
    with np.errstate(over="ignore", invalid="ignore"):
        return episode_sums(evidence.discounts * np.exp(evidence.weights.running) * amounts, evidence.logs.offsets)


# MAGIC (Thomas & Brunskill 2016): a blend of partial importance-sampling returns and the model's value.
# Here the j-step return g⁽ʲ⁾ is the sum of the first ratios of WDR: only the model for j = −1, all of WDR at the end.

MOST_LENGTHS = 64
# The bias of a return is its distance from WDR's 90% interval, as published.
INTERVAL_LEVEL = 0.9


def magic(evidence: Evidence) -> Contributions:
    """The blend of j-step returns with the least estimated squared error.

    The blend is chosen on all episodes and then held, so intervals do not carry its own uncertainty. WDR's interval is
    the normal approximation where the paper resamples: the estimate needs no seed and ignores the order of episodes.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0]] * 2, [0, 0], [3.0, 3.0], [0, 1, 2])
    >>> perfect = ModelValues(taken=np.array([3.0, 3.0]), expected=np.array([3.0, 3.0]))
    >>> magic(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs, values=perfect)).value
    3.0
    """
    whole = wdr(evidence)
    # From the step on where no episode has weight left, there is nothing to correct the model with.
    alive = np.logical_and.accumulate(whole.denominators.sum(axis=0) > 0)
    whole = Contributions(whole.numerators[:, alive], whole.denominators[:, alive])
    lengths = lengths_considered(int(alive.sum()))
    blend = least_squared_error(whole, lengths)
    # A ratio belongs to every return that is at least as long.
    shares = np.zeros(len(alive))
    shares[lengths] = blend
    shares = np.cumsum(shares[::-1])[::-1]
    return Contributions(whole.numerators * shares[alive], whole.denominators, fit_variance(evidence, 1 - shares[1:]))


def lengths_considered(count: int) -> IntArray:
    """Which of `count` returns take part: all, or 64 spread evenly from the shortest to the longest.

    >>> lengths_considered(3)
    array([0, 1, 2])
    """
    return np.unique(np.linspace(0, count - 1, min(count, MOST_LENGTHS)).round().astype(np.int64))


def least_squared_error(whole: Contributions, lengths: IntArray) -> FloatArray:
    """The blend on the simplex that minimises variance + bias² as estimated from WDR's contributions."""
    n = whole.n_episodes
    parts = np.cumsum(whole.numerators / whole.denominators.sum(axis=0), axis=1)[:, lengths]  # g_i⁽ʲ⁾, [n, J]
    returns = parts.sum(axis=0)
    margin = ndtri((1 + INTERVAL_LEVEL) / 2) * np.sqrt(np.square(whole.influence).sum()) / n
    distances = returns - returns[-1]
    bias = np.sign(distances) * np.maximum(np.abs(distances) - margin, 0.0)
    # Ω = Σ_i centred² · n/(n − 1), factored so that the error of a blend x is |factor · x|².
    factor = np.linalg.qr(parts - parts.mean(axis=0), mode="r") * np.sqrt(n / max(n - 1, 1))
    return smallest_on_simplex(np.vstack([factor, bias]))


def smallest_on_simplex(factor: FloatArray) -> FloatArray:
    """The x ≥ 0 with Σx = 1 that minimises |factor·x|².

    For x = s·u with Σu = 1, |factor·x|² + (Σx − 1)² is least at s = 1 / (1 + |factor·u|²), where it grows with
    |factor·u|². So non-negative least squares with one more row finds u.

    >>> smallest_on_simplex(np.diag([1.0, 2.0])).round(9)
    array([0.8, 0.2])
    """
    width = factor.shape[1]
    scale = np.abs(factor).max()
    if scale == 0:
        return np.full(width, 1 / width)
    rows = np.vstack([factor / scale, np.ones(width)])
    solution, _ = nnls(rows, np.r_[np.zeros(len(factor)), 1.0])
    return np.asarray(solution / solution.sum())


def importance_sampling(evidence: Evidence) -> Contributions:
    """IS: the mean of weighted returns. Unbiased.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> importance_sampling(Evidence(LogWeights(np.log([0.5, 1.5]), logs.offsets), logs)).value
    1.75
    """
    return Contributions.weighted(evidence.weights.episodes, evidence.returns)


def truncated_is(evidence: Evidence) -> Contributions:
    """Truncated IS: no weight counts above the truncation.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> truncated_is(Evidence(LogWeights(np.log([0.5, 1.5]), logs.offsets), logs, truncation=1.0)).value
    1.25
    """
    return Contributions.weighted(evidence.weights.truncated(evidence.truncation), evidence.returns)


def snis(evidence: Evidence) -> Contributions:
    """Self-normalised IS: the mean return under weights that are made to sum to 1.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> snis(Evidence(LogWeights([5000.0, 5000.0], logs.offsets), logs)).value
    1.5
    """
    return Contributions.self_normalised(evidence.weights.episodes, evidence.returns)


def sntis(evidence: Evidence) -> Contributions:
    """The paper's SNTIS: self-normalised IS with weights min(∏W, M).

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> round(sntis(Evidence(LogWeights(np.log([1000.0, 4000.0]), logs.offsets), logs)).value, 9)
    1.5
    """
    return Contributions.self_normalised(evidence.weights.truncated(evidence.truncation), evidence.returns)


def model_average(evidence: Evidence) -> Contributions:
    """The value model's average over initial contexts: no weights, and all the bias of the model.

    Its error contains the variance of the fit, where the model knows it.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> given = ModelValues(taken=np.array([1.0, 2.0]), expected=np.array([1.5, 2.5]))
    >>> model_average(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs, values=given)).value
    2.0
    """
    initial = evidence.model.expected[evidence.logs.offsets[:-1]]
    lean = np.ones(int(evidence.logs.lengths.max()))
    return Contributions(initial[:, None], np.ones((len(initial), 1)), fit_variance(evidence, lean))


def behavior_mean(evidence: Evidence) -> Contributions:
    """The mean return of the logs: the value of the policy that made them.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> behavior_mean(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs)).value
    1.5
    """
    return Contributions.of_logging(evidence.returns, evidence.logs.seen_weights)


@dataclass(frozen=True)
class Estimator:
    """An estimator, which weights it uses, and whether it uses a Q model (fitted here, or given by the caller)."""

    function: Callable[[Evidence], Contributions]
    weights: Literal["episode", "truncated", "running", "none"]
    model: Literal["none", "fitted", "given"] = "none"
    leans: bool = False  # on the model, beyond what weights can correct

    @property
    def whole_episodes(self) -> bool:
        """Whether each episode has one weight."""
        return self.weights in ("episode", "truncated")

    @property
    def normalised(self) -> bool:
        """Whether it is the mean return under weights of whole episodes that are made to sum to 1."""
        return self.function in (snis, sntis)

    @property
    def uses_policy(self) -> bool:
        """Whether the target policy matters at all."""
        return self.weights != "none" or self.model != "none"

    def truncation(self, evidence: Evidence) -> float:
        """From where on weights are cut off."""
        return evidence.truncation if self.weights == "truncated" else np.inf

    def used(self, evidence: Evidence) -> FloatArray:
        """The log weights [n] of whole episodes, truncated where the estimator does so."""
        return evidence.weights.truncated(self.truncation(evidence))


_OWN: Mapping[str, Estimator] = {
    "is": Estimator(importance_sampling, "episode"),
    "truncated_is": Estimator(truncated_is, "truncated"),
    "snis": Estimator(snis, "episode"),
    "sntis": Estimator(sntis, "truncated"),
    "pdis": Estimator(pdis, "running"),
    "cwpdis": Estimator(cwpdis, "running"),
    "dr": Estimator(dr, "running", "fitted"),
    "wdr": Estimator(wdr, "running", "fitted"),
    "guarded": Estimator(guarded, "running", "fitted", leans=True),
    "magic": Estimator(magic, "running", "fitted", leans=True),
    "fqe": Estimator(model_average, "none", "fitted", leans=True),
    "direct": Estimator(model_average, "none", "given", leans=True),
    "behavior": Estimator(behavior_mean, "none"),
}


def _made(function: Estimator | Callable[[Evidence], Contributions]) -> Estimator:
    """A function of one's own: of running weights, since nothing is known of how it uses them."""
    return function if isinstance(function, Estimator) else Estimator(function, "running")


ESTIMATORS: Registry[Estimator] = Registry("poela.estimators", _OWN, _made)
