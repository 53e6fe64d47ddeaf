"""Q of every action at every step, one regression for each step, as plain arrays that can be saved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from poela.behavior.forest import Forest
from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly
from poela.core.storage import Stored
from poela.data.trajectories import ActionName, Trajectories

# Up to here all pairs of features are multiplied; wider contexts get squares only.
MOST_FEATURES_IN_PAIRS = 20
# Standardised features are held within this, so that a quadratic does not explode far from the data.
FARTHEST = 5.0


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

    def stored(self) -> Stored:
        """As plain arrays."""
        names = ("center", "scale", "coefficients")
        return Stored("ridge_step", arrays={name: getattr(self, name) for name in names})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "RidgeStep":
        """The inverse of `stored`."""
        return cls(**{name: readonly(array, np.float64) for name, array in stored.arrays.items()})


@dataclass(frozen=True, eq=False)
class BoostedStep:
    """Boosted trees of one step, on the context and one column for each action."""

    forest: Forest
    n_actions: int

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        every_action = np.tile(np.arange(self.n_actions), len(contexts))
        rows = with_actions(np.repeat(contexts, self.n_actions, axis=0), every_action, self.n_actions)
        return self.forest.scores(rows).reshape(len(contexts), self.n_actions)

    def stored(self) -> Stored:
        """As plain arrays."""
        return Stored("boosted_step", {"n_actions": self.n_actions}, self.forest.to_arrays())

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "BoostedStep":
        """The inverse of `stored`."""
        return cls(Forest.from_arrays(stored.arrays), stored.settings["n_actions"])


@dataclass(frozen=True, eq=False)
class StepQ:
    """Q of every action at every step, by one regression for each step; later steps use the last one."""

    models: tuple[StepModel, ...]
    n_actions: int
    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]

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
        return cls(
            models=tuple(load_part(stored.parts[f"step_{step}"]) for step in range(len(stored.parts))),
            n_actions=len(stored.settings["action_names"]),
            feature_names=tuple(stored.settings["feature_names"]),
            action_names=tuple(stored.settings["action_names"]),
        )


def quadratic_features(contexts: Float32Array, center: FloatArray, scale: FloatArray) -> FloatArray:
    """1, the standardised features, and their products in pairs (squares alone where there are many), [m, p].

    >>> quadratic_features(np.array([[1.0, 2.0]]), np.zeros(2), np.ones(2))
    array([[1., 1., 2., 1., 2., 4.]])
    """
    z = np.clip((np.asarray(contexts, np.float64) - center) / scale, -FARTHEST, FARTHEST)
    width = z.shape[1]
    i, j = np.triu_indices(width) if width <= MOST_FEATURES_IN_PAIRS else (np.arange(width), np.arange(width))
    return np.hstack([np.ones((len(z), 1)), z, z[:, i] * z[:, j]])


def with_actions(contexts: Float32Array, actions: IntArray, n_actions: int) -> Float32Array:
    """Contexts with one further column for each action, [m, d + A].

    >>> with_actions(np.array([[5.0]], np.float32), np.array([1]), n_actions=2)
    array([[5., 0., 1.]], dtype=float32)
    """
    return np.hstack([contexts, np.eye(n_actions, dtype=np.float32)[actions]])


def rows_by_step(steps: IntArray) -> list[tuple[int, IntArray]]:
    """Each step number that occurs, ascending, with its rows.

    >>> rows_by_step(np.array([0, 1, 0]))
    [(0, array([0, 2])), (1, array([1]))]
    """
    order = np.argsort(steps, kind="stable")
    numbers, starts = np.unique(steps[order], return_index=True)
    return [(int(number), rows) for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True)]
