"""Running a policy in a simulator, many episodes at once: the one loop behind data collection and roll-outs."""

from typing import Any, Protocol

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.data.trajectories import ActionName


class Simulator(Protocol):
    """A vectorised environment core: pure functions of an opaque state of n episodes."""

    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]
    horizon: int

    def reset(self, n: int, rng: np.random.Generator) -> Any:
        """The state of n fresh episodes."""

    def contexts(self, state: Any) -> Float32Array:
        """What is observed, [n, d]."""

    def step(self, state: Any, actions: IntArray, rng: np.random.Generator) -> tuple[Any, FloatArray, BoolArray]:
        """The next state, the rewards [n] and which episodes have now ended [n]."""
