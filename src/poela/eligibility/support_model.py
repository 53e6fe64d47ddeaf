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
from poela.core.live import stored_or_live
from poela.core.policy import Actor, LoggedSteps, MemorylessActor, Policy, along_once, as_policy
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
        shares = {
            name: expect_array(stored, name, np.float64, (size,), low=0, high=1)
            for name in ("least", "doubtful", "rates", *told)
        }
        return cls(
            models,
            least=shares["least"],
            doubtful=shares["doubtful"],
            rates=shares["rates"],
            barred=expect_setting(stored, "barred", float, low=0, high=1),
            absent=shares.get("absent"),
        )


class _SupportActor:
    def __init__(self, actors: list[Actor]) -> None:
        self._actors = actors

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.asarray(np.mean([actor.probabilities(contexts) for actor in self._actors], axis=0))

    def record(self, actions: IntArray) -> None:
        for actor in self._actors:
            actor.record(actions)


# The logging policy within its support: what mixtures and blends are made with.


class SupportedBehavior:
    """A model of the logging policy that takes only what has support: a mixture with it goes nowhere new.

    >>> from poela import Trajectories
    >>> from poela.eligibility.support import fit_support
    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> contexts = np.repeat([[0.0], [1.0]], 200, axis=0)
    >>> actions = np.where(contexts[:, 0] == 0, np.arange(400) % 2, 0)  # the second action is never taken at 1
    >>> logs = Trajectories(contexts, actions, np.zeros(400), np.arange(401))
    >>> smooth = MultinomialBehavior(penalty=50.0).fit(logs)
    >>> SupportedBehavior(smooth, fit_support(logs, 0.02)).probabilities([[1.0]])
    array([[1., 0.]])
    """

    kind = "supported_behavior"

    def __init__(self, behavior: Any, support: SupportModel) -> None:
        self.behavior, self.support = behavior, support

    @property
    def holds_logged_contexts(self) -> bool:
        """As the inner model does."""
        return bool(getattr(self.behavior, "holds_logged_contexts", False))

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return self.support.n_features

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.support.n_actions

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return self.within(as_policy(self.behavior).probabilities(contexts), self.support.probabilities(contexts))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return self.within(along_once(self.behavior, trajectories), along_once(self.support, trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        actors = as_policy(self.behavior).actor(n), self.support.actor(n)
        if all(isinstance(actor, MemorylessActor) for actor in actors):
            return MemorylessActor(self)
        return _SupportedActor(self, *actors)

    def within(self, behavior: FloatArray, support: FloatArray) -> FloatArray:
        """Probabilities [N, A] of what has support; all of them where nothing has."""
        shares = np.where(self.support.supported(support), behavior, 0.0)
        shares = np.where((shares > 0).any(axis=1, keepdims=True), shares, behavior)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def stored(self) -> Stored:
        """For a file."""
        return Stored(self.kind, parts={"behavior": stored_or_live(self.behavior), "support": self.support.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "SupportedBehavior":
        """From a file."""
        expect_contents(stored, parts=("behavior", "support"))
        support = expect_part(stored, "support", load_part, SupportModel, "a model of support")
        behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
        expect_sizes("behavior", behavior, support.n_features, support.n_actions)
        return cls(behavior, support)


class _SupportedActor:
    def __init__(self, policy: SupportedBehavior, behavior: Actor, support: Actor) -> None:
        self._policy, self._actors = policy, (behavior, support)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return self._policy.within(*(actor.probabilities(contexts) for actor in self._actors))

    def record(self, actions: IntArray) -> None:
        for actor in self._actors:
            actor.record(actions)
