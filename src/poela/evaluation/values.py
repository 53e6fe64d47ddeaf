"""Values along logs of a Q model that the caller gives."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from poela.core.arrays import FloatArray, first_bad
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import ModelValues


@runtime_checkable
class QValues(Protocol):
    """Any model of Q: the value of each action at each logged step."""

    def q(self, trajectories: Trajectories) -> FloatArray:
        """[N, A]."""


def given_values(model: Any, probabilities: FloatArray, logs: Trajectories) -> ModelValues:
    """The caller's model under the target policy, after checking what it gives.

    >>> class Zero:
    ...     def q(self, trajectories):
    ...         return np.zeros((trajectories.n_steps, trajectories.n_actions))
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> given_values(Zero(), np.full((2, 2), 0.5), logs).expected
    array([0., 0.])
    """
    if not isinstance(model, QValues):
        raise InputError(f"{type(model).__name__} is no Q model: it has no method q(trajectories)")
    q = np.asarray(model.q(logs), np.float64)
    if q.shape != (logs.n_steps, logs.n_actions):
        raise InputError(f"the Q model gives shape {q.shape} where the logs need {(logs.n_steps, logs.n_actions)}")
    if not np.isfinite(q).all():
        count, first = first_bad(~np.isfinite(q))
        raise InputError(f"{count} rows of the Q model are NaN or infinite, first at step {first} of the flat log")
    return ModelValues.under(probabilities, q, logs.actions)
