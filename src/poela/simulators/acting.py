"""How a policy acts in running episodes: by probabilities of a finite set, or by a density of real numbers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.density import DensityPolicy
from poela.core.errors import InputError
from poela.core.policy import Actor, MemorylessActor, sample_actions
from poela.data.checks import ROW_SUM_TOLERANCE


class Acting(ABC):
    """Chooses actions in n episodes at once, and says what is to be logged of their chances."""

    known: ClassVar[str]  # what those logs call the chances
    draws: int  # uniform numbers that an episode takes at a step

    @abstractmethod
    def room(self, n: int, horizon: int) -> tuple[NDArray[Any], FloatArray]:
        """Empty arrays for actions and chances."""

    @abstractmethod
    def act(
        self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator
    ) -> tuple[NDArray[Any], FloatArray]:
        """The actions and their chances; what is said of ended episodes is ignored."""


class FiniteActing(Acting):
    """By probabilities."""

    known = "propensities"

    def __init__(self, actor: Actor, n_actions: int) -> None:
        self._actor, self._n_actions, self.draws = actor, n_actions, 1

    def room(self, n: int, horizon: int) -> tuple[IntArray, FloatArray]:
        """[n, horizon] and [n, horizon, A]."""
        return np.empty((n, horizon), np.int64), np.empty((n, horizon, self._n_actions))

    def act(self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """[n] and [n, A]."""
        chances = self._probabilities(contexts, running)
        chosen = np.where(running, sample_actions(chances, rng), 0)
        self._actor.record(chosen)
        return chosen, chances

    def _probabilities(self, contexts: Float32Array, running: BoolArray) -> FloatArray:
        """[n, A]; uniform rows for episodes that have ended."""
        result = np.full((len(running), self._n_actions), 1.0 / self._n_actions)
        # A policy without memory need not be asked about ended episodes; an actor with memory wants all its rows.
        asked = contexts[running] if isinstance(self._actor, MemorylessActor) else contexts
        rows = np.asarray(self._actor.probabilities(asked), np.float64)
        due = (len(asked), self._n_actions)
        if rows.shape != due:
            raise InputError(f"the policy gives probabilities of shape {rows.shape} where {due} is due")
        result[running] = rows if len(rows) == running.sum() else rows[running]
        bad = ~(np.abs(result.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE) | ~(result >= 0).all(axis=1)
        if bad.any():
            raise InputError(f"{bad.sum()} of {len(asked)} rows of the policy's probabilities are no distribution")
        return result


class RealActing(Acting):
    """By a density; all rows are asked, so that the same episode has the same luck whatever others do."""

    known = "log_densities"

    def __init__(self, policy: Any, n_components: int) -> None:
        if not isinstance(policy, DensityPolicy):
            raise InputError(
                f"{type(policy).__name__} cannot act here: actions are real numbers, and it has no methods "
                "log_density(contexts, actions) and sample(contexts, rng)"
            )
        self._policy, self.draws = policy, n_components

    def room(self, n: int, horizon: int) -> tuple[FloatArray, FloatArray]:
        """[n, horizon, m] and [n, horizon]."""
        return np.empty((n, horizon, self.draws)), np.empty((n, horizon))

    def act(
        self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """[n, m] and [n]."""
        chosen = np.asarray(self._policy.sample(contexts, rng), np.float64)
        if chosen.shape != (len(contexts), self.draws):
            raise InputError(
                f"the policy gives actions of shape {chosen.shape} where {(len(contexts), self.draws)} is due"
            )
        return chosen, np.asarray(self._policy.log_density(contexts, chosen), np.float64)
