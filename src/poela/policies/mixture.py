"""One of several policies for each episode, drawn at its start: what a cross-fitted estimate is the value of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps
from poela.core.ragged import running_sums

LEAST = -1e6  # of a log probability: running sums stay finite, far below any likelihood


def mixed_along(rows: FloatArray, actions: IntArray, offsets: IntArray, log_shares: FloatArray) -> FloatArray:
    """[N, A] of one policy that follows one of K in each episode, drawn with these shares (logs [K], up to a constant).

    `rows` [K, N, A] are theirs along logged episodes. Each counts as the actions so far make it likely, so that the
    product along an episode is exactly Σ_k share_k Π_t π_k: the balanced denominator of importance weights.

    >>> rows = np.array([[[0.9, 0.1]] * 2, [[0.5, 0.5]] * 2])
    >>> mixed = mixed_along(rows, np.array([0, 1]), np.array([0, 2]), np.log([0.5, 0.5]))
    >>> round(float(mixed[0, 0] * mixed[1, 1]), 9)  # (0.9·0.1 + 0.5·0.5) / 2
    0.17
    """
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(rows[:, np.arange(rows.shape[1]), actions]), LEAST)
    so_far = np.stack([running_sums(one, offsets) for one in logs]) - logs + log_shares[:, None]
    shares = np.exp(so_far - so_far.max(axis=0))
    shares /= shares.sum(axis=0)
    return np.asarray(np.minimum((shares[:, :, None] * rows).sum(axis=0), 1.0))  # rounding may go beyond


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
        return mixed_along(rows, trajectories.actions, trajectories.offsets, np.zeros(len(rows)))

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
            self._log_shares += np.maximum(np.log(self._last[:, np.arange(len(actions)), actions]), LEAST)
        for actor in self._actors:
            actor.record(actions)
