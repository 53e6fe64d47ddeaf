"""Backward induction over a finite horizon: one regression of Q for each step, from the last to the first.

With `target="policy"` this is fitted-Q evaluation of a policy, with `target="max"` fitted-Q iteration. No Markov
assumption hides in a shared time index: each step has its own regression.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.policy import as_policy
from poela.core.storage import Stored
from poela.data.trajectories import ActionName, Trajectories

Regressor = Literal["ridge", "boosted"]
# A step that fewer episodes reach borrows the rows of the steps after it: two rows are no regression.
FEWEST_ROWS = 50
# Up to here all pairs of features are multiplied; wider contexts get squares only.
MOST_FEATURES_IN_PAIRS = 20
# Standardised features are held within this, so that a quadratic does not explode far from the data.
FARTHEST = 5.0
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


class StepModel(Protocol):
    """The regression of one step."""

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""


@dataclass(frozen=True, eq=False)
class RidgeStep:
    """Quadratic ridge regressions of one step: one for each action, shrunk towards one of all actions together."""

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    coefficients: FloatArray  # [A, p]

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        return quadratic_features(contexts, self.center, self.scale) @ self.coefficients.T


@dataclass(frozen=True, eq=False)
class BoostedStep:
    """Histogram gradient boosting of one step, with the action as a category."""

    model: Any
    n_actions: int

    def predict(self, contexts: Float32Array) -> FloatArray:
        """Q of every action, [m, A]."""
        steps = len(contexts)
        every = np.column_stack(
            [np.repeat(contexts, self.n_actions, axis=0), np.tile(np.arange(self.n_actions), steps)]
        )
        return np.asarray(self.model.predict(every), np.float64).reshape(steps, self.n_actions)


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
        steps = np.minimum(steps, len(self.models) - 1)
        result = np.empty((len(contexts), self.n_actions))
        for step, rows in _rows_by_step(steps):
            result[rows] = self.models[step].predict(contexts[rows])
        return result

    def stored(self) -> Stored:
        """The ridge regressions as arrays; boosted trees have no safe file format."""
        ridges = [model for model in self.models if isinstance(model, RidgeStep)]
        if len(ridges) != len(self.models):
            raise InputError("only ridge regressions can be saved: fit with regressor='ridge'")
        names = ("center", "scale", "coefficients")
        return Stored(
            kind="step_q",
            settings={"feature_names": list(self.feature_names), "action_names": list(self.action_names)},
            arrays={name: np.stack([getattr(ridge, name) for ridge in ridges]) for name in names},
        )

    @classmethod
    def from_stored(cls, stored: Stored) -> "StepQ":
        """What `stored` gave."""
        arrays = (stored.arrays[name] for name in ("center", "scale", "coefficients"))
        return cls(
            models=tuple(RidgeStep(*step) for step in zip(*arrays, strict=True)),
            n_actions=len(stored.settings["action_names"]),
            feature_names=tuple(stored.settings["feature_names"]),
            action_names=tuple(stored.settings["action_names"]),
        )


def fit_backward(
    train: Trajectories,
    *,
    target: Literal["policy", "max"] = "policy",
    policy: Any = None,
    mask: BoolArray | None = None,
    regressor: Regressor = "ridge",
    discount: float = 1.0,
    seed: int = 0,
) -> StepQ:
    """Q of a policy (`target="policy"`), or of acting best from each next step on (`target="max"`).

    `mask` [N, A] says which actions the maximum may consider at each training step.

    >>> contexts, actions = np.zeros((400, 1)), np.arange(400) // 2 % 2
    >>> logs = Trajectories(contexts, actions, np.where(actions == 1, 3.0, 1.0), np.arange(0, 401, 2))
    >>> fit_backward(logs, target="max").q_at(np.zeros((1, 1), np.float32), np.array([1])).round(1)
    array([[1., 3.]])
    """
    following = _following(train, target, policy, mask)
    if regressor not in ("ridge", "boosted"):
        raise InputError(f"regressor {regressor!r} is unknown: choose 'ridge' or 'boosted'")
    needed = min(FEWEST_ROWS, train.n_episodes)
    targets, values = np.array(train.rewards), np.zeros(train.n_steps)
    last = np.zeros(train.n_steps, np.bool_)
    last[train.offsets[1:] - 1] = True
    models: list[StepModel] = []
    pool = np.zeros(0, np.int64)
    for _, rows in reversed(list(_rows_by_step(train.step_numbers))):
        going_on = rows[~last[rows]]
        targets[going_on] += discount * values[going_on + 1]
        pool = np.concatenate([rows, pool])[: max(len(rows), needed)]
        model: StepModel
        if regressor == "ridge":
            model = fit_ridge(train.contexts[pool], train.actions[pool], targets[pool], train.n_actions)
        else:
            model = fit_boosted(train.contexts[pool], train.actions[pool], targets[pool], train.n_actions, seed)
        models.append(model)
        values[rows] = following(rows, model.predict(train.contexts[rows]))
    return StepQ(tuple(reversed(models)), train.n_actions, train.feature_names, train.action_names)


class _Following(Protocol):
    def __call__(self, rows: IntArray, q: FloatArray) -> FloatArray: ...


def _following(train: Trajectories, target: str, policy: Any, mask: BoolArray | None) -> _Following:
    """How the value [m] of being at training rows follows from their Q [m, A]."""
    if target == "max":
        return lambda rows, q: (q if mask is None else np.where(mask[rows], q, -np.inf)).max(axis=1)
    if target != "policy" or policy is None:
        raise InputError("target must be 'max', or 'policy' with the policy to evaluate")
    probabilities = np.asarray(as_policy(policy).along(train), np.float64)
    return lambda rows, q: np.asarray((probabilities[rows] * q).sum(axis=1))


def fit_ridge(contexts: Float32Array, actions: IntArray, targets: FloatArray, n_actions: int) -> RidgeStep:
    """One ridge for all actions together, then one for each action on what it leaves over.

    So an action seen often gets its own regression, one seen rarely stays near the average, one never seen is average.
    """
    columns = np.asarray(contexts, np.float64)
    center, spread = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(spread > 1e-6 * (1 + np.abs(center)), spread, np.inf)
    features = quadratic_features(contexts, center, scale)
    base = targets.mean()
    shared = ridge(features, targets - base)
    shared[0] += base
    left = targets - features @ shared
    coefficients = np.tile(shared, (n_actions, 1))
    for action in np.unique(actions):
        taken = actions == action
        coefficients[action] += ridge(features[taken], left[taken])
    return RidgeStep(readonly(center, np.float64), readonly(scale, np.float64), readonly(coefficients, np.float64))


def ridge(features: FloatArray, targets: FloatArray) -> FloatArray:
    """Ridge coefficients [p], with the penalty of `PENALTIES` that predicts best when each row is left out in turn.

    >>> x = np.linspace(-1, 1, 50)
    >>> ridge(np.column_stack([np.ones(50), x]), 2 + 3 * x).round(2)
    array([2., 3.])
    """
    rows, width = features.shape
    # The smaller of the two Gram matrices has all the singular values.
    if rows >= width:
        squares, right = np.linalg.eigh(features.T @ features)
        scores = features @ right
    else:
        squares, left = np.linalg.eigh(features @ features.T)
        scores = left * np.sqrt(np.maximum(squares, 0.0))
    squares = np.maximum(squares, 0.0)
    projected = scores.T @ targets
    inverse = 1 / (squares + np.array(PENALTIES)[:, None])  # [penalties, components]
    left_over = targets - (inverse * projected) @ scores.T
    leverage = inverse @ np.square(scores).T
    best = np.square(left_over / np.maximum(1 - leverage, 1e-6)).sum(axis=1).argmin()
    if rows >= width:
        return np.asarray(right @ (inverse[best] * projected))
    dual = left @ ((left.T @ targets) * inverse[best])
    return np.asarray(features.T @ dual)


def quadratic_features(contexts: Float32Array, center: FloatArray, scale: FloatArray) -> FloatArray:
    """1, the standardised features, and their products in pairs (squares alone where there are many), [m, p].

    >>> quadratic_features(np.array([[1.0, 2.0]]), np.zeros(2), np.ones(2))
    array([[1., 1., 2., 1., 2., 4.]])
    """
    z = np.clip((np.asarray(contexts, np.float64) - center) / scale, -FARTHEST, FARTHEST)
    width = z.shape[1]
    i, j = np.triu_indices(width) if width <= MOST_FEATURES_IN_PAIRS else (np.arange(width), np.arange(width))
    return np.hstack([np.ones((len(z), 1)), z, z[:, i] * z[:, j]])


def fit_boosted(
    contexts: Float32Array, actions: IntArray, targets: FloatArray, n_actions: int, seed: int
) -> BoostedStep:
    """Histogram gradient boosting on contexts and action (a category up to scikit-learn's limit of 255)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    category = [contexts.shape[1]] if n_actions <= 255 else None
    model = HistGradientBoostingRegressor(categorical_features=category, early_stopping=False, random_state=seed)
    return BoostedStep(model.fit(np.column_stack([contexts, actions]), targets), n_actions)


def _rows_by_step(steps: IntArray) -> list[tuple[int, IntArray]]:
    """Each step number that occurs, ascending, with its rows."""
    order = np.argsort(steps, kind="stable")
    numbers, starts = np.unique(steps[order], return_index=True)
    return [(int(number), rows) for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True)]
