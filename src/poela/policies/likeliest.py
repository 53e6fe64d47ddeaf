"""The likeliest action instead of a drawn one: another policy, which is judged as one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.policy import Actor, LoggedSteps


def likeliest_alone(probabilities: FloatArray) -> FloatArray:
    """All probability on the likeliest action, the first of equals.

    >>> likeliest_alone(np.array([[0.2, 0.8], [0.5, 0.5]]))
    array([[0., 1.],
           [1., 0.]])
    """
    alone = np.zeros(probabilities.shape)
    alone[np.arange(len(alone)), probabilities.argmax(axis=1)] = 1.0
    return alone


@dataclass(frozen=True, eq=False)
class LikeliestActions:
    """A learned policy's likeliest actions; along logged episodes it falls back as before where nothing was near."""

    policy: Any

    def probabilities(self, contexts: Any) -> FloatArray:
        """[N, A] of loose contexts."""
        return likeliest_alone(self.policy.probabilities(contexts))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        drawn = self.policy.along(trajectories)
        # Deferred cases are left to those who decide, whichever way actions are handed out.
        return np.where(self.stranded(trajectories)[:, None], drawn, likeliest_alone(drawn))

    def stranded(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] had nothing eligible nearby."""
        found: BoolArray = self.policy.stranded(trajectories)
        return found

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _LikeliestActor(self.policy.actor(n))


class _LikeliestActor:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return likeliest_alone(self._actor.probabilities(contexts))

    def record(self, actions: IntArray) -> None:
        self._actor.record(actions)
