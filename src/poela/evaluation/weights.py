"""The log weights of policies along logs: what a policy says there, checked, over what the logging policy said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, first_bad
from poela.core.errors import InputError
from poela.core.policy import Policy, as_density_policy, as_policy, log_prob_of
from poela.data.action_space import Box, Finite
from poela.data.trajectories import Trajectories
from poela.stats.weights import LogWeights

# Policies may compute in single precision; rows further from 1 than this are mistakes.
ROW_SUM_TOLERANCE = 1e-5
GREEDY = 1e-9


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
