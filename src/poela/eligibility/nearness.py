"""How near logged cases are, as far as a rule asks: every distance, or only whether anything is within reach."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Nearness:
    """Distances [N, A] on the metric's scale or, where only the reach is asked for, what is within that."""

    distances: FloatArray | None
    reached: BoolArray | None  # [N]; None: as the distances say
    measure: Callable[[IntArray], FloatArray]  # distances at some rows [m, A]

    @classmethod
    def of(cls, distances: FloatArray) -> "Nearness":
        """From all distances."""
        return cls(distances, None, lambda here: distances[here])

    def at(self, here: IntArray) -> FloatArray:
        """Distances at some rows [m, A]."""
        return self.measure(here)

    def within(self, radius: float) -> BoolArray:
        """Which actions have a logged case within the radius [N, A].

        >>> Nearness.of(np.array([[0.5, np.inf]])).within(1.0)
        array([[ True, False]])
        """
        assert self.distances is not None
        return np.asarray((self.distances <= radius) & np.isfinite(self.distances))

    def reached_by(self, reach: float) -> BoolArray:
        """Whether any action has a logged case within the reach [N]."""
        if self.reached is not None:
            return self.reached
        assert self.distances is not None
        return np.asarray((self.distances <= reach).any(axis=1))
