"""Estimators that weight step by step: per-decision importance sampling and the doubly robust family.

Ragged episodes follow Thomas & Brunskill (2016): an ended episode is thought to stay in an absorbing state with
reward 0, value 0 and ratio 1. So it keeps its last cumulative weight in every later step's normaliser; dividing by the
running episodes alone would estimate the reward given that the episode still runs, and overrate it.
"""

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import episode_sums, step_numbers
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions
from poela.stats.weights import LogWeights, safe_shift

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
