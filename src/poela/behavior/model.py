"""What behavior settings and fitted behavior models have in common."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.annotation import FLOOR, Annotation, annotate, annotated, annotation, warned
from poela.core.arrays import Float32Array, FloatArray, IntArray, first_bad
from poela.core.errors import InputError, PoelaWarning
from poela.core.options import HasParams
from poela.core.policy import LoggedSteps, Memoryless
from poela.core.storage import Stored
from poela.core.typed import Range, refuse_problems
from poela.core.validation import expect_names, expect_setting, refuse
from poela.data.action_space import ActionName
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.folds import random_parts
from poela.data.limits import LimitsInContexts, within
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories

# What a behavior model was fitted to, and the checks of what it is asked about.

SETTINGS = ("feature_names", "action_names", "seen")


@dataclass(frozen=True)
class Schema:
    """The features and actions of the training logs, and which actions occur there.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 2], [0, 0], [0, 2], n_actions=4)
    >>> schema = Schema.of(logs)
    >>> schema.unseen
    (1, 3)
    >>> schema.spread(np.array([[0.25, 0.75]]))
    array([[0.25, 0.  , 0.75, 0.  ]])
    """

    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]
    seen: tuple[int, ...]  # ascending: the actions that occur in training; every other one has probability 0

    @classmethod
    def of(cls, train: Trajectories) -> "Schema":
        """The schema of these logs."""
        return cls(train.feature_names, train.action_names, tuple(np.unique(train.actions).tolist()))

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.action_names)

    @property
    def unseen(self) -> tuple[ActionName, ...]:
        """The names of the actions that never occur in training."""
        return tuple(name for action, name in enumerate(self.action_names) if action not in self.seen)

    @cached_property
    def limits(self) -> LimitsInContexts | None:
        """What is forbidden at a context, so that nobody ever did it there; None where nothing is."""
        return LimitsInContexts.of(self.feature_names, self.action_names)

    def kept(self, contexts: Float32Array, probabilities: FloatArray) -> FloatArray:
        """Probabilities of all actions [N, A] without what is forbidden there."""
        return probabilities if self.limits is None else within(probabilities, self.limits.done_at_all(contexts))

    def codes(self, actions: IntArray) -> IntArray:
        """Each (seen) action's place among the seen actions."""
        return np.searchsorted(np.asarray(self.seen), actions)

    def spread(self, probabilities: FloatArray) -> FloatArray:
        """Probabilities of the seen actions [N, seen] as probabilities of all actions [N, A]."""
        full = np.zeros((len(probabilities), self.n_actions))
        full[:, list(self.seen)] = probabilities
        return full

    def checked_contexts(self, contexts: ArrayLike) -> Float32Array:
        """The contexts as a finite matrix of the right width; the columns of a table are found by name."""
        if has_columns(contexts):
            return loose_contexts(contexts, TableSchema.plain(self.feature_names))
        matrix = np.ascontiguousarray(contexts, np.float32)
        width = len(self.feature_names)
        if matrix.ndim != 2 or matrix.shape[1] != width:
            raise InputError(
                f"contexts have shape {matrix.shape}, but this behavior model was fitted on {width} features: "
                f"give a matrix [steps, {width}]"
            )
        bad = ~np.isfinite(matrix)
        if bad.any():
            count, first = first_bad(bad)
            raise InputError(f"{count} contexts hold NaN or infinity, first in row {first}: fill them in")
        return matrix

    def check_logs(self, logs: LoggedSteps) -> None:
        """Refuse logs with other features, another order of features, or another number of actions."""
        problems = _feature_problems(self.feature_names, tuple(getattr(logs, "feature_names", self.feature_names)))
        n_actions = getattr(logs, "n_actions", self.n_actions)
        if n_actions != self.n_actions:
            problems.append(
                f"these logs have {n_actions} actions, but this behavior model was fitted on {self.n_actions}: "
                "declare the same actions for both"
            )
        if problems:
            raise InputError(problems)

    def to_settings(self) -> dict[str, Any]:
        """Plain settings, for files."""
        return {name: list(getattr(self, name)) for name in SETTINGS}

    @classmethod
    def from_stored(cls, stored: Stored) -> "Schema":
        """The inverse of `to_settings`."""
        feature_names, action_names = expect_names(stored)
        seen = expect_setting(stored, "seen", tuple[int, ...])
        if not seen or list(seen) != sorted(set(seen)) or not 0 <= seen[0] <= seen[-1] < len(action_names):
            refuse("seen", seen, f"some of the {len(action_names)} actions by number, ascending")
        return cls(feature_names, action_names, seen)


def _feature_problems(fitted: Sequence[str], named: Sequence[str]) -> list[str]:
    if len(named) != len(fitted):
        return [f"these logs have {len(named)} features, but this behavior model was fitted on {len(fitted)}"]
    if named == fitted or _unnamed(named) or _unnamed(fitted):
        return []
    if set(named) == set(fitted):
        first = next(column for column in range(len(named)) if named[column] != fitted[column])
        return [
            f"the features stand in another order than in training (first at column {first}: {named[first]!r} where "
            f"{fitted[first]!r} was): reorder the columns"
        ]
    missing = sorted(set(fitted) - set(named))
    return [
        f"{len(missing)} features of the training logs are missing here (first {missing[0]!r}): "
        "read the logs with the same columns"
    ]


def _unnamed(names: Sequence[str]) -> bool:
    return all(name == f"x{column}" for column, name in enumerate(names))


# Held-out episodes: what tells a flexible behavior model when to stop.

HeldOut = Annotated[float, Range(least=0, below=1)]  # a share of episodes


def held_out_split(train: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories | None]:
    """Episodes to learn from and episodes to judge by (None where the share is 0 or there is only one unit).

    An episode with an action that no learning episode has goes, with its cluster, to the learning ones: a model must
    have seen every action of its logs.

    >>> logs = Trajectories(np.zeros((10, 1)), [0, 1] * 5, np.zeros(10), np.arange(0, 11, 2))
    >>> learn, judge = held_out_split(logs, share=0.2, seed=0)
    >>> learn.n_episodes, judge.n_episodes
    (4, 1)
    """
    if share == 0 or train.n_units < 2:
        return train, None
    count = min(max(1, round(share * train.n_episodes)), train.n_episodes - 1)
    held = np.zeros(train.n_episodes, np.bool_)
    held[random_parts(train.units, [0, count, train.n_episodes], seed)[0]] = True
    held_steps, kinds = held[train.episode_of_step], train.action_space.kinds(train.actions)
    only_held = held_steps & ~np.isin(kinds, kinds[~held_steps])
    held &= ~np.isin(train.units, train.units[train.episode_of_step[only_held]])
    return (train.take(~held), train.take(held)) if held.any() else (train, None)


def mean_log_likelihood(probabilities: FloatArray, actions: IntArray) -> float:
    """The mean log probability of the actions taken.

    >>> mean_log_likelihood(np.array([[0.5, 0.5]]), np.array([1])).__round__(3)
    -0.693
    """
    with np.errstate(divide="ignore"):  # a model may be so sure of another action that nothing is left: −inf
        return float(np.log(probabilities[np.arange(len(actions)), actions]).mean())


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
