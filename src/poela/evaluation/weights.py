"""Importance weights in log space: ratios of target to logging probability, step by step, of ragged episodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, IntArray, first_bad, readonly
from poela.core.density import as_density_policy
from poela.core.errors import InputError
from poela.core.policy import Policy, as_policy, log_prob_of
from poela.core.ragged import episode_sums, running_sums
from poela.data.action_space import Box, Finite
from poela.data.trajectories import Trajectories

# Policies may compute in single precision; rows further from 1 than this are mistakes.
ROW_SUM_TOLERANCE = 1e-5
# Weights within exp(±300) keep finite squares and sums in double precision, so only others are rescaled.
SAFE_LOG_RANGE = 300.0
GREEDY = 1e-9


@dataclass(frozen=True, eq=False)
class LogWeights:
    """Log ratios [N] of target to logging probability of the logged actions; −inf where the target never acts so.

    >>> weights = LogWeights(np.log([2.0, 0.5, 3.0]), np.array([0, 2, 3]))
    >>> np.exp(weights.episodes)
    array([1., 3.])
    >>> np.exp(weights.truncated(2.0))
    array([1., 2.])
    """

    log_ratios: FloatArray  # [N]
    offsets: IntArray  # [n + 1]

    def __init__(self, log_ratios: ArrayLike, offsets: ArrayLike) -> None:
        object.__setattr__(self, "log_ratios", readonly(log_ratios, np.float64))
        object.__setattr__(self, "offsets", readonly(offsets, np.int64))
        problems = self._problems()
        if problems:
            raise InputError(problems)

    def _problems(self) -> list[str]:
        steps = len(self.log_ratios)
        if self.offsets[0] != 0 or self.offsets[-1] != steps or (np.diff(self.offsets) <= 0).any():
            return [f"offsets must increase from 0 to the number of log ratios, {steps}"]
        bad = np.isnan(self.log_ratios) | (self.log_ratios == np.inf)
        if bad.any():
            count, first = first_bad(bad)
            return [f"{count} log ratios are NaN or +infinity, first at step {first}: check the probabilities"]
        return []

    @property
    def n_episodes(self) -> int:
        """How many episodes."""
        return len(self.offsets) - 1

    @property
    def episodes(self) -> FloatArray:
        """The log weight [n] of each whole episode."""
        return episode_sums(self.log_ratios, self.offsets)

    @property
    def running(self) -> FloatArray:
        """The log weight [N] of each episode up to and including each step."""
        return running_sums(self.log_ratios, self.offsets)

    def truncated(self, truncation: float) -> FloatArray:
        """The log weight [n] of each episode, at most log(truncation)."""
        return np.minimum(self.episodes, np.log(truncation))


def log_weights(policy: object, trajectories: Trajectories) -> LogWeights:
    """The log weights of any policy along logged episodes that carry propensities, or log densities.

    >>> from poela.core.policy import Memoryless
    >>> class Always(Memoryless):
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 1.0], [0, 1, 2], propensities=[0.5, 0.5])
    >>> np.exp(log_weights(Always(), logs).episodes)
    array([2., 0.])
    """
    return _of_seen(log_probs(policy, trajectories) - trajectories.log_propensities, trajectories)


def log_probs(policy: object, logs: Trajectories) -> FloatArray:
    """The log probabilities or densities [N] with which a policy takes the logged actions, checked."""
    return FOLLOWED[logs.action_space.kind].log_probs(policy, logs)


def rows_along(policy: object, logs: Trajectories) -> FloatArray | None:
    """The policy's probabilities [N, A] along the logs, checked; None where actions are amounts, which have no rows."""
    return FOLLOWED[logs.action_space.kind].rows(policy, logs)


def _log_probabilities_along(policy: object, logs: Trajectories) -> FloatArray:
    own = getattr(policy, "log_prob", None)
    if own is None or isinstance(policy, Policy):  # whose rows can be checked whole
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(_of_logged(probabilities_along(policy, logs), logs)))
    return _checked_logs(own(logs), logs, "log probabilities")


def weights_of(probabilities: FloatArray, trajectories: Trajectories) -> LogWeights:
    """The log weights of a policy whose probabilities [N, A] along the logs are known."""
    target = _of_logged(probabilities, trajectories)
    with np.errstate(divide="ignore"):
        # A difference of logs: the quotient itself could overflow where a propensity is tiny.
        return _of_seen(np.log(target) - trajectories.log_propensities, trajectories)


def _of_logged(probabilities: FloatArray, logs: Trajectories) -> FloatArray:
    return np.asarray(probabilities[np.arange(len(probabilities)), logs.actions])


def _of_seen(log_ratios: FloatArray, logs: Trajectories) -> LogWeights:
    """With what having been seen weighs, where episodes were lost."""
    return LogWeights(log_ratios if logs.staying is None else log_ratios + logs.staying, logs.offsets)


def densities_along(policy: object, logs: Trajectories) -> FloatArray:
    """The policy's log densities [N] of the logged actions, checked: shape, and neither NaN nor +infinity."""
    return _checked_logs(log_prob_of(as_density_policy(policy), logs), logs, "log densities")


def _checked_logs(logarithms: ArrayLike, logs: Trajectories, what: str) -> FloatArray:
    """Numbers [N] that are logarithms of chances or densities, checked: shape, and neither NaN nor +infinity."""
    found = np.asarray(logarithms, np.float64)
    if found.shape != (logs.n_steps,):
        raise InputError(
            f"the policy gives {what} of shape {found.shape} where the logs need ({logs.n_steps},): "
            "it was made for other actions or does not answer every context"
        )
    bad = np.isnan(found) | (found == np.inf)
    if bad.any():
        count, first = first_bad(bad)
        raise InputError(
            f"{count} of the policy's {what} are NaN or +infinity, first at step {first} of the flat log: "
            "correct the policy"
        )
    return found


def probabilities_along(policy: object, trajectories: Trajectories) -> FloatArray:
    """The policy's probabilities [N, A] along the logs, checked: shape, finite, within [0, 1], rows that sum to 1."""
    probabilities = np.asarray(as_policy(policy).along(trajectories), np.float64)
    expected = (trajectories.n_steps, trajectories.n_actions)
    if probabilities.shape != expected:
        raise InputError(
            f"the policy gives probabilities of shape {probabilities.shape} where the logs need {expected}: "
            "it was made for other actions or does not answer every context"
        )
    near_one = np.abs(probabilities @ np.ones(probabilities.shape[1]) - 1) <= ROW_SUM_TOLERANCE
    # Both comparisons fail on NaN. A row that sums to 1 without a negative entry has none above 1 either.
    if not (near_one.all() and probabilities.min(initial=0.0) >= 0):
        count, first = first_bad(~(near_one & (probabilities.min(axis=1) >= 0)))
        raise InputError(
            f"{count} rows of the policy's probabilities are not distributions (NaN, negative, or not summing to 1), "
            f"first at step {first} of the flat log: correct the policy"
        )
    return probabilities


@dataclass(frozen=True)
class Followed:
    """How a policy is followed along logs: by log probabilities [N] of what was done, and by rows [N, A] of all."""

    log_probs: Callable[[object, Trajectories], FloatArray]
    rows: Callable[[object, Trajectories], FloatArray | None]


FOLLOWED: Mapping[str, Followed] = {
    Finite.kind: Followed(_log_probabilities_along, probabilities_along),
    Box.kind: Followed(densities_along, lambda policy, logs: None),
}


def smoothed(probabilities: FloatArray, logs: Trajectories, smoothing: float) -> FloatArray:
    """(1 − s)·π + s·μ along the logs [N, A].

    >>> logs = Trajectories([[0.0]], [1], [0.0], [0, 1], propensities=[[0.5, 0.5]])
    >>> smoothed(np.array([[1.0, 0.0]]), logs, smoothing=0.01)
    array([[0.995, 0.005]])
    """
    if smoothing == 0:
        return probabilities
    if logs.propensities is None or logs.propensities.ndim == 1:
        raise InputError("smoothing mixes in the logging policy: it needs logs with the propensities of every action")
    return np.asarray((1 - smoothing) * probabilities + smoothing * logs.propensities)


def is_greedy(probabilities: FloatArray) -> bool:
    """Whether no row leaves more than a trace to any but one action.

    >>> is_greedy(np.array([[1.0, 0.0], [0.0, 1.0]])), is_greedy(np.array([[1.0, 0.0], [0.5, 0.5]]))
    (True, False)
    """
    return bool((probabilities.max(axis=1) > 1 - GREEDY).all())


def safe_shift(log_values: FloatArray) -> FloatArray:
    """What to take off log weights (by column) before exponentiating, for estimates that ignore their scale.

    Zero wherever that is safe, so that weights keep their own scale; the largest where it would over- or underflow.

    >>> safe_shift(np.array([[1.0, 800.0], [2.0, 790.0]]))
    array([  0., 800.])
    """
    largest = log_values.max(axis=0)
    return np.where(np.isfinite(largest) & (np.abs(largest) > SAFE_LOG_RANGE), largest, 0.0)


def effective_sample_size(log_values: FloatArray) -> float:
    """Kish's effective sample size (Σw)² / Σw², from log weights [n]; 0 where all weights are zero.

    >>> effective_sample_size(np.full(200, -5000.0))
    200.0
    >>> effective_sample_size(np.log([1.0, 1.0, 2.0]))
    2.66...
    """
    largest = log_values.max()
    if largest == -np.inf:
        return 0.0
    relative = np.exp(log_values - largest)
    return float(relative.sum() ** 2 / np.square(relative).sum())
