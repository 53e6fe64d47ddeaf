"""Behavior with one temperature, fitted on held-out episodes: the simplest cure for over-confidence."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from poela.behavior.calibration import MOST_TEMPERATURE, best_temperature, tempered
from poela.behavior.model import Behavior, BehaviorModel, HeldOut, LoadPart, Schema, held_out_split
from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps
from poela.core.storage import Stored
from poela.core.validation import expect_contents, expect_part, expect_setting
from poela.data.trajectories import Trajectories


@dataclass(frozen=True)
class TemperedBehavior(Behavior):
    """Another behavior model fitted on most episodes, and one temperature for its probabilities fitted on the rest.

    >>> import numpy as np
    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> rng = np.random.default_rng(0)
    >>> logs = Trajectories(rng.normal(size=(40, 2)), rng.integers(0, 3, 40), np.zeros(40), np.arange(0, 41, 4))
    >>> TemperedBehavior(MultinomialBehavior()).fit(logs).temperature > 1
    True
    """

    behavior: Behavior  # the model whose probabilities are tempered
    held_out: HeldOut = 0.2  # the share of episodes that the temperature is fitted on

    def fit_quietly(self, train: Trajectories, seed: int) -> "TemperedModel":
        """The fitted model; the seed chooses the held-out episodes and goes on to the inner model."""
        learn, judge = held_out_split(train, self.held_out, seed)
        if judge is None:
            raise InputError("a temperature needs held-out episodes: give a share above 0 and two episodes or more")
        return with_temperature(self.behavior.fit_quietly(learn, seed), judge, self.held_out)


def with_temperature(model: BehaviorModel, held_out: Trajectories, share: float = 0.2) -> "TemperedModel":
    """A fitted model with the temperature that suits these episodes, which it must not have seen, best."""
    temperature = best_temperature(model.along(held_out), held_out.actions)
    return TemperedModel(TemperedBehavior(model.settings, share), model.schema, model, temperature)


@dataclass(frozen=True, eq=False)
class TemperedModel(BehaviorModel):
    """A fitted model whose probabilities are taken to the power 1 / temperature."""

    settings: TemperedBehavior
    schema: Schema
    model: BehaviorModel
    temperature: float

    @property
    def holds_logged_contexts(self) -> bool:
        """As the inner model does."""
        return self.model.holds_logged_contexts

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return tempered(self.model.probabilities(contexts), self.temperature)

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return tempered(self.model.along(trajectories), self.temperature)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _TemperedActor(self.model.actor(n), self.temperature)

    def stored(self) -> Stored:
        """As plain settings, with the inner model as a part."""
        settings = {"temperature": self.temperature, "held_out": self.settings.held_out}
        return Stored("tempered_behavior", settings, parts={"model": self.model.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart) -> "TemperedModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("temperature", "held_out"), parts=("model",))
        most = MOST_TEMPERATURE * (1 + 1e-9)  # the search rounds at its ends
        temperature = expect_setting(stored, "temperature", float, low=1 / most, high=most)
        held_out = expect_setting(stored, "held_out", float, low=0, high=1)
        model = expect_part(stored, "model", load_part, BehaviorModel, "a behavior model")
        return cls(TemperedBehavior(model.settings, held_out), model.schema, model, temperature)


class _TemperedActor:
    def __init__(self, inner: Actor, temperature: float) -> None:
        self._inner, self._temperature = inner, temperature

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return tempered(self._inner.probabilities(contexts), self._temperature)

    def record(self, actions: IntArray) -> None:
        self._inner.record(actions)
