"""The logging policy as learners know it: a behavior model, or the propensities of the nearest logged context."""

from typing import Any

from poela.behavior.propensities import nearest_propensities
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Policy, as_policy
from poela.data.trajectories import Trajectories


def logging_policy(train: Trajectories, behavior: Policy | None) -> Any:
    """μ at any context.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[0.9, 0.1], [0.5, 0.5]])
    >>> logging_policy(logs, None).probabilities([[0.2]])
    array([[0.9, 0.1]])
    """
    if behavior is not None:
        return behavior
    _ = known_propensities(train)
    return nearest_propensities(train)


def logging_probabilities(train: Trajectories, behavior: Policy | None) -> FloatArray:
    """μ along the training log [N, A]."""
    return known_propensities(train) if behavior is None else as_policy(behavior).along(train)


def known_propensities(train: Trajectories) -> FloatArray:
    """The propensities of every action, which must be known."""
    if train.propensities is None or train.propensities.ndim == 1:
        raise InputError(
            "this learner stays near the logging policy, so it must know the propensities of every action: "
            "give a behavior model (behavior=...), or training logs with all propensities (annotate)"
        )
    return train.propensities
