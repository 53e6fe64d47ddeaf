"""Behavior that looks back: another model, fitted on history features, for logging policies that remember."""

from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from poela.behavior.model import Behavior, BehaviorModel, LoadPart
from poela.behavior.schema import SETTINGS, Schema
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps
from poela.core.storage import Stored
from poela.core.typed import Count
from poela.core.validation import expect_contents, expect_part, expect_sizes
from poela.data.history import HistoryFeatures, WithHistory, history_of
from poela.data.trajectories import Trajectories


@dataclass(frozen=True)
class HistoryBehavior(Behavior):
    """Another behavior model that sees the contexts and actions of the last steps, and how many there were so far.

    >>> import numpy as np
    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> logs = Trajectories(np.zeros((40, 1)), [0, 1] * 20, np.zeros(40), np.arange(0, 41, 4))
    >>> HistoryBehavior(MultinomialBehavior(penalty=0.01)).fit(logs).along(logs.take([0]))[1:].round(1)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    behavior: Behavior  # the model that sees earlier steps, too
    steps: Count = 1  # how far it looks back

    def fit_quietly(self, train: Trajectories, seed: int) -> "HistoryModel":
        """The inner model, fitted on the logs with history."""
        return self.around(self.behavior.fit_quietly(train.with_history(self.steps), seed), train)

    def around(self, inner: BehaviorModel, train: Trajectories) -> "HistoryModel":
        """A model that was fitted on these logs with history, as one of the logs themselves."""
        features = HistoryFeatures(self.steps, train.n_features, train.n_actions)
        return HistoryModel(self, Schema.of(train), inner, features)


@dataclass(frozen=True, eq=False)
class HistoryModel(BehaviorModel):
    """A fitted model of history features: it follows whole episodes, not loose contexts."""

    settings: HistoryBehavior
    schema: Schema
    model: BehaviorModel
    features: HistoryFeatures

    @property
    def holds_logged_contexts(self) -> bool:
        """As the inner model does."""
        return self.model.holds_logged_contexts

    @property
    def _policy(self) -> WithHistory:
        return WithHistory(self.model, self.features, self.schema.feature_names, self.schema.action_names)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: loose contexts have no history."""
        raise InputError(
            "this behavior model looks at earlier steps: use along(trajectories), annotate(trajectories) or actor(n), "
            "not loose contexts"
        )

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        self.schema.check_logs(trajectories)
        return self._policy.along(trajectories)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, with a record of their last steps."""
        return self._policy.actor(n)

    def stored(self) -> Stored:
        """As plain settings, with the inner model as a part."""
        settings: dict[str, Any] = {"history": asdict(self.features), **self.schema.to_settings()}
        return Stored("history_behavior", settings, parts={"model": self.model.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart) -> "HistoryModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("history", *SETTINGS), parts=("model",))
        schema = Schema.from_stored(stored)
        features = history_of(stored.settings["history"], len(schema.feature_names), schema.n_actions)
        model = expect_part(stored, "model", load_part, BehaviorModel, "a behavior model")
        expect_sizes("model", model, features.width, features.n_actions)
        return cls(HistoryBehavior(model.settings, features.steps), schema, model, features)
