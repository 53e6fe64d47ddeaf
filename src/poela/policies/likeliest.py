"""The likeliest action instead of a drawn one: another policy, which is judged as one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.policy import LoggedSteps


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
    """A learned policy's likeliest actions, along logged episodes; where nothing was near, it falls back as before."""

    policy: Any

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        drawn = self.policy.along(trajectories)
        # Deferred cases are left to those who decide, whichever way actions are handed out.
        return np.where(self.stranded(trajectories)[:, None], drawn, likeliest_alone(drawn))

    def stranded(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] had nothing eligible nearby."""
        found: BoolArray = self.policy.stranded(trajectories)
        return found
