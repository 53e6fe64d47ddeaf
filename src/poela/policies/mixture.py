"""One of several policies for each episode, drawn at its start: what a cross-fitted estimate is the value of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps
from poela.core.ragged import running_sums


@dataclass(frozen=True, eq=False)
class EpisodeMixture:
    """Each episode follows one of the policies throughout, all equally likely.

    Seen from outside it remembers: what was done so far tells which policy is acting.
    """

    policies: tuple[Any, ...]

    def probabilities(self, contexts: Any) -> FloatArray:
        """Not defined: loose contexts do not tell which policy is acting."""
        raise InputError("this policy follows one of several in each episode: use along(trajectories) or actor(n)")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes: each policy counts as the actions so far make it likely."""
        rows = np.stack([policy.along(trajectories) for policy in self.policies])  # [K, N, A]
        taken = rows[:, np.arange(rows.shape[1]), trajectories.actions]
        with np.errstate(divide="ignore"):
            logs = np.log(taken)
        # −inf stays −inf; running sums of it are kept finite by a floor far below any likelihood.
        so_far = np.stack([running_sums(np.maximum(one, -1e6), trajectories.offsets) for one in logs]) - np.maximum(
            logs, -1e6
        )
        shares = np.exp(so_far - so_far.max(axis=0))
        shares /= shares.sum(axis=0)
        return np.asarray(np.minimum((shares[:, :, None] * rows).sum(axis=0), 1.0))  # rounding may go beyond

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _MixtureActor(self, n)


class _MixtureActor:
    def __init__(self, mixture: EpisodeMixture, n: int) -> None:
        self._actors = [policy.actor(n) for policy in mixture.policies]
        self._log_shares = np.zeros((len(self._actors), n))
        self._last: FloatArray | None = None

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        self._last = np.stack([actor.probabilities(contexts) for actor in self._actors])
        shares = np.exp(self._log_shares - self._log_shares.max(axis=0))
        shares /= shares.sum(axis=0)
        return np.asarray(np.minimum((shares[:, :, None] * self._last).sum(axis=0), 1.0))

    def record(self, actions: IntArray) -> None:
        assert self._last is not None
        with np.errstate(divide="ignore"):
            self._log_shares += np.maximum(np.log(self._last[:, np.arange(len(actions)), actions]), -1e6)
        for actor in self._actors:
            actor.record(actions)
