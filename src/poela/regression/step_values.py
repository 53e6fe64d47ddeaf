"""Q of every action at every step, one regression for each step, as plain arrays that can be saved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.live import stored_live
from poela.core.storage import Stored
from poela.core.validation import (
    LARGEST,
    expect_array,
    expect_contents,
    expect_names,
    expect_part,
    expect_setting,
)
from poela.data.action_space import ActionName
from poela.data.trajectories import Trajectories
from poela.regression.forest import ARRAYS, Forest
from poela.regression.step_features import Coding, n_quadratic, quadratic_features

# Of boosted steps in a file: they look at one column for each action, for each action.
MOST_BOOSTED_ACTIONS = 2000
MOST_CODED_FEATURES = 100_000  # of contexts whose codes a file may name


class StepModel(Protocol):
    """The regression of one step."""

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""

    def stored(self) -> Stored:
        """As plain arrays."""


@dataclass(frozen=True, eq=False)
class RidgeStep:
    """Quadratic ridge regressions of one step: one for each action, shrunk towards one of all actions together."""

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    coefficients: FloatArray  # [A, p]

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        return quadratic_features(contexts, self.center, self.scale) @ self.coefficients.T

    def fits(self, n_features: int, n_actions: int) -> bool:
        """Whether it is made for this many features and actions."""
        return (len(self.center), len(self.coefficients)) == (n_features, n_actions)

    def stored(self) -> Stored:
        """As plain arrays."""
        names = ("center", "scale", "coefficients")
        return Stored("ridge_step", arrays={name: getattr(self, name) for name in names})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "RidgeStep":
        """The inverse of `stored`."""
        expect_contents(stored, arrays=("center", "scale", "coefficients"))
        center = expect_array(stored, "center", np.float64, (None,))
        scale = expect_array(stored, "scale", np.float64, center.shape, low=1 / LARGEST, high=np.inf)
        return cls(center, scale, expect_array(stored, "coefficients", np.float64, (None, n_quadratic(len(center)))))


@dataclass(frozen=True, eq=False)
class CodedStep:
    """The same on indicators of categories and their products."""

    coding: Coding
    center: FloatArray  # [w], after coding
    scale: FloatArray  # [w]
    coefficients: FloatArray  # [A, p]

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        return self.coding.features(contexts, self.center, self.scale) @ self.coefficients.T

    def fits(self, n_features: int, n_actions: int) -> bool:
        """Whether it is made for this many features and actions."""
        return (self.coding.n_features, len(self.coefficients)) == (n_features, n_actions)

    def stored(self) -> Stored:
        """As plain arrays."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ("center", "scale", "coefficients")}
        codes = {"columns": self.coding.columns, "levels": self.coding.levels}
        return Stored("coded_step", {"n_features": self.coding.n_features}, arrays | codes)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "CodedStep":
        """The inverse of `stored`."""
        names = ("columns", "levels", "center", "scale", "coefficients")
        expect_contents(stored, settings=("n_features",), arrays=names)
        n_features = expect_setting(stored, "n_features", int, low=1, high=MOST_CODED_FEATURES)
        columns = expect_array(stored, "columns", np.int64, (None,), low=0, high=n_features - 1)
        if (np.diff(columns) < 0).any():
            raise InputError("columns must be in rising order")
        coding = Coding(columns, expect_array(stored, "levels", np.float32, columns.shape), n_features)
        center = expect_array(stored, "center", np.float64, (coding.width,))
        scale = expect_array(stored, "scale", np.float64, center.shape, low=1 / LARGEST, high=np.inf)
        return cls(coding, center, scale, expect_array(stored, "coefficients", np.float64, (None, coding.n_products)))


@dataclass(frozen=True, eq=False)
class BoostedStep:
    """Boosted trees of one step, on the context and one column for each action."""

    forest: Forest
    n_actions: int

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        rows = with_every_action(contexts, self.n_actions)
        return self.forest.scores(rows).reshape(len(contexts), self.n_actions)

    def fits(self, n_features: int, n_actions: int) -> bool:
        """Whether it is made for so many actions, and looks at no feature beyond these."""
        return self.n_actions == n_actions and self.forest.features.max(initial=0) < n_features + n_actions

    def stored(self) -> Stored:
        """As plain arrays."""
        return Stored("boosted_step", {"n_actions": self.n_actions}, self.forest.to_arrays())

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "BoostedStep":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("n_actions",), arrays=ARRAYS)
        n_actions = expect_setting(stored, "n_actions", int, low=1, high=MOST_BOOSTED_ACTIONS)
        return cls(Forest.from_stored(stored, n_scores=1), n_actions)


@dataclass(frozen=True, eq=False)
class ForeignStep:
    """Somebody's regression of one step, on the context and one column for each action; it lives in this process."""

    regressor: Any  # with `predict`
    n_features: int
    n_actions: int
    evidence: bytes  # what tells it from others

    def __repr__(self) -> str:
        return type(self.regressor).__name__

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        if not len(contexts):
            return np.zeros((0, self.n_actions))
        rows = with_every_action(contexts, self.n_actions)
        return np.asarray(self.regressor.predict(rows), np.float64).reshape(len(contexts), self.n_actions)

    def fits(self, n_features: int, n_actions: int) -> bool:
        """Whether it is made for this many features and actions."""
        return (self.n_features, self.n_actions) == (n_features, n_actions)

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self.evidence)


@dataclass(frozen=True, eq=False)
class StepQ:
    """Q of every action at every step, by one regression for each step; later steps use the last one."""

    models: tuple[StepModel, ...]
    n_actions: int
    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]

    @property
    def n_steps(self) -> int:
        """How many steps have values of their own."""
        return len(self.models)

    @property
    def n_features(self) -> int:
        """How many features there are, with those of the history."""
        return len(self.feature_names)

    def q(self, trajectories: Trajectories) -> FloatArray:
        """[N, A] along logged episodes."""
        return self.q_at(trajectories.contexts, trajectories.step_numbers)

    def q_at(self, contexts: Float32Array, steps: IntArray) -> FloatArray:
        """[N, A] at contexts whose step numbers are known."""
        result = np.empty((len(contexts), self.n_actions))
        for step, rows in rows_by_step(np.minimum(steps, len(self.models) - 1)):
            result[rows] = self.models[step].predict(contexts[rows])
        return result

    def stored(self) -> Stored:
        """As plain settings, with the regression of each step as a part."""
        return Stored(
            "step_q",
            {"feature_names": list(self.feature_names), "action_names": list(self.action_names)},
            parts={f"step_{step}": model.stored() for step, model in enumerate(self.models)},
        )

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "StepQ":
        """The inverse of `stored`."""
        steps = [f"step_{step}" for step in range(max(len(stored.parts), 1))]
        expect_contents(stored, settings=("feature_names", "action_names"), parts=steps)
        feature_names, action_names = expect_names(stored)
        kinds = RidgeStep | CodedStep | BoostedStep | ForeignStep
        models = tuple(expect_part(stored, step, load_part, kinds, "the regression of a step") for step in steps)
        for step, model in zip(steps, models, strict=True):
            if not model.fits(len(feature_names), len(action_names)):
                sizes = f"{len(feature_names)} features and {len(action_names)} actions"
                raise InputError(f"{step} is not made for the {sizes} that there are")
        return cls(models, len(action_names), feature_names, action_names)


def with_actions(contexts: Float32Array, actions: IntArray, n_actions: int) -> Float32Array:
    """Contexts with one further column for each action, [m, d + A].

    >>> with_actions(np.array([[5.0]], np.float32), np.array([1]), n_actions=2)
    array([[5., 0., 1.]], dtype=float32)
    """
    columns = np.zeros((len(actions), n_actions), np.float32)
    columns[np.arange(len(actions)), actions] = 1
    return np.hstack([contexts, columns])


def with_every_action(contexts: Float32Array, n_actions: int) -> Float32Array:
    """Each context once for every action, [m · A, d + A]."""
    every_action = np.tile(np.arange(n_actions), len(contexts))
    return with_actions(np.repeat(contexts, n_actions, axis=0), every_action, n_actions)


def rows_by_step(steps: IntArray) -> list[tuple[int, IntArray]]:
    """Each step number that occurs, ascending, with its rows.

    >>> rows_by_step(np.array([0, 1, 0]))
    [(0, array([0, 2])), (1, array([1]))]
    """
    order = np.argsort(steps, kind="stable")
    numbers, starts = np.unique(steps[order], return_index=True)
    return [(int(number), rows) for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True)]
