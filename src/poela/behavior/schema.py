"""What a behavior model was fitted to, and the checks of what it is asked about."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray, first_bad
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps
from poela.core.storage import Stored
from poela.core.validation import expect_names, expect_setting, refuse
from poela.data.action_space import ActionName
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.limits import LimitsInContexts, within
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories

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
