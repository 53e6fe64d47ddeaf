"""Logs whose behavior depends on the whole history, with its true probabilities."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, Memoryless
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import Noise, Seed, run

FORGETTING = 0.7  # how much of the running mean of a measurement is kept at each step
LEANING = 2.0  # towards lowering or raising, for each unit of that mean
HABIT = 1.5  # towards the action taken last
ENDING = 0.08  # the chance that an episode ends at a step


@dataclass(frozen=True)
class Ward:
    """Three measurements that drift by themselves, whatever is done; episodes of 1 to 30 steps; no rewards."""

    feature_names: ClassVar[tuple[str, ...]] = ("pressure", "pulse", "warmth")
    action_names: ClassVar[tuple[str, ...]] = ("lower", "keep", "raise")
    horizon: ClassVar[int] = 30

    def reset(self, n: int, noise: Noise) -> FloatArray:
        """The measurements [n, 3] of new patients."""
        return noise.normal(3)

    def contexts(self, state: FloatArray) -> Float32Array:
        """What is observed."""
        return state.astype(np.float32)

    def step(self, state: FloatArray, actions: IntArray, noise: Noise) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The next measurements."""
        following = 0.5 * state + np.sqrt(0.75) * noise.normal(3)
        return following, np.zeros(len(state)), noise.uniform(1)[:, 0] < ENDING


class RememberingBehavior(Memoryless):
    """Leans against the running mean of the pressure, and tends to do again what it did last."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: loose contexts have no history."""
        raise InputError("this behavior remembers the whole episode: use actor(n)")

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _RememberingActor(n)


class _RememberingActor:
    def __init__(self, n: int) -> None:
        self._mean = self._next_mean = np.zeros(n)
        self._habit = np.zeros((n, 3))

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        self._next_mean = FORGETTING * self._mean + (1 - FORGETTING) * contexts[:, 0].astype(np.float64)
        scores = np.exp(LEANING * np.outer(self._next_mean, [1.0, 0.0, -1.0]) + self._habit)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def record(self, actions: IntArray) -> None:
        self._mean = self._next_mean
        self._habit = HABIT * np.eye(3)[actions]


def remembering_logs(episodes: int, seed: Seed) -> Trajectories:
    """Logs of this behavior, with its probabilities as propensities.

    >>> remembering_logs(episodes=5, seed=0).n_actions
    3
    """
    return run(Ward(), RememberingBehavior(), episodes, seed)
