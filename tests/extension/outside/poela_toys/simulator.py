"""A simulator: a coin lies heads or tails up, and whoever names its side wins."""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.policy import Memoryless
from poela.core.typed import Range
from poela.simulators.episodes import Noise
from poela.simulators.registry import Source


class Coin:
    feature_names: ClassVar[tuple[str, ...]] = ("side",)
    action_names: ClassVar[tuple[str, ...]] = ("tails", "heads")
    horizon: ClassVar[int] = 1

    def __init__(self, prize: float) -> None:
        self.prize = prize

    def reset(self, n: int, noise: Noise) -> IntArray:
        return (noise.uniform(1)[:, 0] < 0.5).astype(np.int64)

    def contexts(self, state: IntArray) -> Float32Array:
        return state[:, None].astype(np.float32)

    def step(self, state: IntArray, actions: IntArray, noise: Noise) -> tuple[IntArray, FloatArray, BoolArray]:
        return state, self.prize * (actions == state), np.ones(len(state), dtype=np.bool_)


class Guessing(Memoryless):
    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.full((len(np.asarray(contexts)), 2), 0.5)


def coin(prize: Annotated[float, Range(above=0)] = 1.0, logged: bool = True) -> Source:
    guessing = Guessing()
    return Source(Coin(prize), guessing, guessing if logged else None)
