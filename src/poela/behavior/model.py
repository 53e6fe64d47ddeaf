"""What behavior settings and fitted behavior models have in common."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.annotation import FLOOR, Annotation, annotate, annotated, annotation, warned
from poela.behavior.schema import Schema
from poela.core.arrays import Float32Array, FloatArray
from poela.core.errors import PoelaWarning
from poela.core.params import HasParams
from poela.core.policy import LoggedSteps, Memoryless
from poela.core.storage import Stored
from poela.core.typed import refuse_problems
from poela.data.action_space import ActionName
from poela.data.trajectories import Trajectories

LoadPart = Callable[[Stored], Any]  # how a stored part becomes an object again


class Behavior(HasParams, ABC):
    """Settings of a behavior model: an estimate of the policy that made the logs."""

    def __post_init__(self) -> None:
        refuse_problems(self)

    def fit(self, train: Trajectories, seed: int = 0) -> "BehaviorModel":
        """The model fitted on these logs; an action that never occurs in them is warned of and gets probability 0."""
        model = self.fit_quietly(train, seed)
        if model.unseen:
            names = ", ".join(map(str, model.unseen[:10]))
            warnings.warn(
                f"{len(model.unseen)} of {train.n_actions} actions never occur in training ({names}): "
                "they get probability 0",
                PoelaWarning,
                stacklevel=2,
            )
        return model

    @abstractmethod
    def fit_quietly(self, train: Trajectories, seed: int) -> "BehaviorModel":
        """Fit without a warning about unseen actions."""

    def annotate(self, trajectories: Trajectories, folds: int = 5, seed: int = 0, floor: float = FLOOR) -> Trajectories:
        """Cross-fitted propensities: each episode's come from a model that never saw that episode."""
        return annotate(self, trajectories, folds, seed, floor)


class BehaviorModel(Memoryless, ABC):
    """A fitted behavior model: a policy like any other. Subclasses define at least `seen_probabilities`."""

    settings: Any  # the Behavior that it was fitted with
    schema: Schema

    @property
    def holds_logged_contexts(self) -> bool:
        """Whether the model, and so its file, holds contexts of the training logs."""
        return False

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return len(self.schema.feature_names)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.schema.n_actions

    @property
    def unseen(self) -> tuple[ActionName, ...]:
        """The names of the actions that never occur in training."""
        return self.schema.unseen

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """The estimated probability of every action [N, A]; actions never seen in training have 0."""
        matrix = self.schema.checked_contexts(contexts)
        if not len(matrix):
            return np.zeros((0, self.schema.n_actions))
        seen = np.ones((len(matrix), 1)) if len(self.schema.seen) == 1 else self.seen_probabilities(matrix)
        return self.schema.kept(matrix, self.schema.spread(seen))

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """The estimated probabilities of the (two or more) actions seen in training, [N, seen]."""
        raise TypeError(f"{type(self).__name__} must define seen_probabilities(contexts)")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes, after a check of their features and actions."""
        self.schema.check_logs(trajectories)
        return self.probabilities(trajectories.contexts)

    def annotation(self, trajectories: Trajectories, floor: float = FLOOR) -> Annotation:
        """The logs with this model's propensities, with a report of floor, support and calibration."""
        return annotated(self.along(trajectories), trajectories, floor, self.unseen)

    def annotate(
        self, trajectories: Trajectories, folds: int | None = None, seed: int = 0, floor: float = FLOOR
    ) -> Trajectories:
        """The logs with this model's propensities; warns where the floor acted.

        On the very logs that the model was fitted on, propensities of flexible models are too high for the logged
        actions; there, `folds=5` takes each episode's from a model with the same settings that never saw it.
        """
        if folds is None:
            return warned(self.annotation(trajectories, floor))
        self.schema.check_logs(trajectories)
        return warned(annotation(self.settings, trajectories, folds, seed, floor))

    @abstractmethod
    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
