"""A model of support: how probable each action was in cases like this one, and from where on that is support."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.history import HistoryModel
from poela.behavior.model import BehaviorModel
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps, MemorylessActor
from poela.core.storage import Stored
from poela.core.validation import expect_array, expect_contents, expect_part, expect_setting, expect_sizes

LEAST_CHANCE = 1e-6  # so that a missing action has a finite shortfall


@dataclass(frozen=True, eq=False)
class SupportModel:
    """How probable each action was in cases like this [N, A], and what it takes to be supported [A]."""

    models: tuple[BehaviorModel, ...]
    least: FloatArray  # [A], a probability above this is support
    doubtful: FloatArray  # [A], up to this it is doubtful
    rates: FloatArray  # [A], how often each action was taken
    barred: float  # the share of held-out logged decisions that have no support
    absent: FloatArray | None = None  # [A], the share of logged contexts where each action has none, if that is known

    kind = "support_model"

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return self.models[0].n_features

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.least)

    @property
    def needs(self) -> str:
        """What it looks at: the "context", or the "history" that the logging policy used."""
        return "history" if isinstance(self.models[0], HistoryModel) else "context"

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return np.asarray(np.mean([model.probabilities(contexts) for model in self.models], axis=0))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return np.asarray(np.mean([model.along(trajectories) for model in self.models], axis=0))

    def actor(self, n: int) -> Actor:
        """Follows n episodes at once."""
        if self.needs == "context":
            return MemorylessActor(self)
        return _SupportActor([model.actor(n) for model in self.models])

    def supported(self, probabilities: FloatArray) -> BoolArray:
        """Which actions [N, A] have support."""
        return np.asarray(probabilities > self.least)

    def shortfall(self, probabilities: FloatArray) -> FloatArray:
        """How many nats each action [N, A] falls short of support; 0 where it has it.

        >>> model = SupportModel((), np.array([0.1, 0.1]), np.zeros(2), np.zeros(2), 0.0)
        >>> model.shortfall(np.array([[0.5, 0.1 / np.e]])).round(3)
        array([[0., 1.]])
        """
        with np.errstate(divide="ignore"):
            needed = np.log(np.maximum(self.least, LEAST_CHANCE)) - np.log(np.maximum(probabilities, LEAST_CHANCE))
        return np.asarray(np.where(self.supported(probabilities), 0.0, np.maximum(needed, 0.0)))

    def stored(self) -> Stored:
        """For a file."""
        arrays = {"least": self.least, "doubtful": self.doubtful, "rates": self.rates}
        arrays |= {} if self.absent is None else {"absent": self.absent}
        parts = {f"model_{number}": model.stored() for number, model in enumerate(self.models)}
        return Stored(self.kind, {"barred": self.barred}, arrays, parts)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "SupportModel":
        """From a file."""
        names = [f"model_{number}" for number in range(max(len(stored.parts), 1))]
        told = ("absent",) if "absent" in stored.arrays else ()
        expect_contents(stored, settings=("barred",), arrays=("least", "doubtful", "rates", *told), parts=names)
        models = tuple(expect_part(stored, name, load_part, BehaviorModel, "a behavior model") for name in names)
        size = models[0].n_actions
        for name, model in zip(names, models, strict=True):
            expect_sizes(name, model, models[0].n_features, size)
        if len({isinstance(model, HistoryModel) for model in models}) > 1:
            raise InputError("some models of support look at earlier steps and others do not: the file was changed")
        least, doubtful, rates = (
            expect_array(stored, name, np.float64, (size,), low=0, high=1) for name in ("least", "doubtful", "rates")
        )
        absent = expect_array(stored, "absent", np.float64, (size,), low=0, high=1) if told else None
        barred = expect_setting(stored, "barred", float, low=0, high=1)
        return cls(models, least, doubtful, rates, barred, absent)


class _SupportActor:
    def __init__(self, actors: list[Actor]) -> None:
        self._actors = actors

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.asarray(np.mean([actor.probabilities(contexts) for actor in self._actors], axis=0))

    def record(self, actions: IntArray) -> None:
        for actor in self._actors:
            actor.record(actions)
