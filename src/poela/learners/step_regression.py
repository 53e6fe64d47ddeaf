"""Regressions of one step, solved but for what they predict: one decomposition serves any number of targets.

Targets stand in the columns of [rows, P] and Q in [A, rows, P], so that taking rows copies whole lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from poela.behavior.forest import Forest
from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import PoelaError
from poela.policies.step_values import BoostedStep, RidgeStep, StepModel, quadratic_features, with_actions

Regressor = Literal["ridge", "boosted"]
TIE = 1e-6
ROWS_PER_FEATURE = 1.5
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
ALL_ACTIONS = -1
Inputs = FloatArray | Float32Array  # what a regression looks at: [m, ...]
# Which of the penalties the regression of each action takes, and that of all actions together: [P], or [1] for all.
Chosen = Mapping[int, IntArray]


class Columns(Protocol):
    """One step's Q for each of P targets."""

    @property
    def chosen(self) -> Chosen:
        """The penalties that were taken."""

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""

    def model(self, column: int) -> StepModel:
        """That of one target, to be kept."""


class StepRegression(Protocol):
    """A regression of Q at one step, on rows that are known, for targets that are not yet."""

    @property
    def inputs(self) -> Inputs:
        """What it looks at, of the rows that it is fitted on."""

    def inputs_of(self, contexts: Float32Array) -> Inputs:
        """The same for other rows."""

    def fit(self, targets: FloatArray, chosen: Chosen | None = None) -> Columns:
        """For targets [rows, P]."""

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regressions on the same features: for every penalty and any targets, after one eigendecomposition.

    >>> x = np.linspace(-1, 1, 50)
    >>> regression = Ridge.of(np.column_stack([np.ones(50), x]))
    >>> targets = np.column_stack([2 + 3 * x, 1 - x])
    >>> regression.coefficients(targets, regression.best(targets)).round(2)
    array([[ 2.,  1.],
           [ 3., -1.]])
    """

    directions: FloatArray  # [rows, k]
    gains: FloatArray  # [k]: how much of a direction the features hold
    lift: FloatArray  # [p, k]: from directions to coefficients
    inverse: FloatArray  # [penalties, k]

    @classmethod
    def of(cls, features: FloatArray, penalties: Sequence[float] = PENALTIES) -> "Ridge":
        """Features are [rows, p]; penalties stand in rising order."""
        rows, width = features.shape
        # The smaller of the two Gram matrices has all the singular values.
        if rows >= width:
            squares, right = np.linalg.eigh(features.T @ features)
            directions, gains, lift = features @ right, np.ones(width), right
        else:
            squares, directions = np.linalg.eigh(features @ features.T)
            gains, lift = np.maximum(squares, 0.0), features.T @ directions
        return cls(directions, gains, lift, 1 / (np.maximum(squares, 0.0) + np.array(penalties)[:, None]))

    def best(self, targets: FloatArray) -> IntArray:
        """For each of the targets [rows, P] the penalty that predicts best when each row is left out in turn, [P]."""
        shrunk = self.gains * self.inverse
        unleveraged = np.maximum(1 - shrunk @ np.square(self.directions).T, 1e-6)  # one minus the leverage of each row
        projected = self.directions.T @ targets
        errors = np.empty((len(shrunk), targets.shape[1]))
        for place, (factors, rest) in enumerate(zip(shrunk, unleveraged, strict=True)):
            left_out = targets - self.directions @ (factors[:, None] * projected)
            left_out /= rest[:, None]
            errors[place] = np.einsum("ij,ij->j", left_out, left_out)
        # Of penalties that do equally well, the largest: so rounding, and with it the order of rows, decides nothing.
        equal = errors <= errors.min(axis=0) * (1 + TIE)
        return np.asarray(len(errors) - 1 - equal[::-1].argmax(axis=0))

    def coefficients(self, targets: FloatArray, chosen: IntArray) -> FloatArray:
        """[p, P], with the chosen penalties."""
        return self.lift @ (self.inverse[chosen].T * (self.directions.T @ targets))

    def weights(self, wanted: FloatArray, chosen: IntArray) -> FloatArray:
        """What each row's target weighs [rows, P] in the sums asked · coefficients, for asked [p, P]."""
        return self.directions @ (self.inverse[chosen].T * (self.lift.T @ wanted))

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.directions.size + self.lift.size


@dataclass(frozen=True, eq=False)
class RidgeColumns:
    """Quadratic ridge regressions of one step for P targets."""

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    coefficients: FloatArray  # [A, p, P]
    chosen: Chosen

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""
        return np.asarray(inputs @ self.coefficients)

    def model(self, column: int) -> RidgeStep:
        """That of one target, to be kept."""
        parts = (self.center, self.scale, self.coefficients[:, :, column])
        return RidgeStep(*(readonly(part, np.float64) for part in parts))


@dataclass(frozen=True, eq=False)
class StepRidge:
    """One ridge for all actions together, then one for each action on what it leaves over.

    So an action seen often gets its own regression, one seen rarely stays near the average, one never seen is average.
    An action with few rows for each quadratic feature gets a linear one: else the best of several actions is too often
    the one whose regression errs highest, and backward induction adds up such errors step by step.
    """

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    inputs: FloatArray  # [rows, p]
    shared: Ridge
    of_action: Mapping[int, tuple[IntArray, int, Ridge]]  # its rows, and how many of the features it looks at
    n_actions: int

    @classmethod
    def of(
        cls, contexts: Float32Array, actions: IntArray, n_actions: int, penalties: Sequence[float] = PENALTIES
    ) -> "StepRidge":
        """On contexts [rows, d] and the actions [rows] taken there."""
        columns = np.asarray(contexts, np.float64)
        center, spread = columns.mean(axis=0), columns.std(axis=0)
        scale = np.where(spread > 1e-6 * (1 + np.abs(center)), spread, np.inf)
        features = quadratic_features(contexts, center, scale)
        informative = int((features.std(axis=0) > 0).sum())
        of_action = {}
        for action in np.unique(actions):
            rows = np.flatnonzero(actions == action)
            width = features.shape[1] if len(rows) >= ROWS_PER_FEATURE * informative else 1 + columns.shape[1]
            of_action[int(action)] = (rows, width, Ridge.of(features[rows, :width], penalties))
        return cls(center, scale, features, Ridge.of(features, penalties), of_action, n_actions)

    def inputs_of(self, contexts: Float32Array) -> FloatArray:
        """Quadratic features, [m, p]."""
        return quadratic_features(contexts, self.center, self.scale)

    def fit(self, targets: FloatArray, chosen: Chosen | None = None) -> RidgeColumns:
        """For targets [rows, P], each with the penalties that suit it best, or all with those chosen before."""
        taken: dict[int, IntArray] = {}
        mean = targets.mean(axis=0)
        centred = targets - mean
        taken[ALL_ACTIONS] = self.shared.best(centred) if chosen is None else chosen[ALL_ACTIONS]
        shared = self.shared.coefficients(centred, taken[ALL_ACTIONS])
        left = centred - self.inputs @ shared
        shared[0] += mean
        coefficients = np.repeat(shared[None], self.n_actions, axis=0)
        for action, (rows, width, regression) in self.of_action.items():
            taken[action] = regression.best(left[rows]) if chosen is None else chosen[action]
            coefficients[action, :width] += regression.coefficients(left[rows], taken[action])
        return RidgeColumns(self.center, self.scale, coefficients, taken)

    def weights(self, wanted: FloatArray, chosen: Chosen) -> FloatArray:
        """What each row's target weighs [rows, P] in the sums Σ_a asked_a · coefficients_a, for asked [A, p, P]."""
        own = np.zeros((len(self.inputs), wanted.shape[2]))
        for action, (rows, width, regression) in self.of_action.items():
            own[rows] = regression.weights(wanted[action, :width], chosen[action])
        total = wanted.sum(axis=0)
        weights = own + self.shared.weights(total - self.inputs.T @ own, chosen[ALL_ACTIONS])
        # The mean of the targets is taken off before the ridges and given back to the intercept.
        return np.asarray(weights + (total[0] - weights.sum(axis=0)) / len(weights))

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.inputs.size + self.shared.numbers + sum(ridge.numbers for _, _, ridge in self.of_action.values())


@dataclass(frozen=True, eq=False)
class BoostedColumns:
    """Boosted trees of one step, for each of P targets."""

    models: tuple[BoostedStep, ...]
    chosen: Chosen = field(default_factory=dict)  # there are none

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""
        contexts = np.asarray(inputs, np.float32)
        return np.stack([model.predict(contexts).T for model in self.models], axis=-1)

    def model(self, column: int) -> BoostedStep:
        """That of one target, to be kept."""
        return self.models[column]


@dataclass(frozen=True, eq=False)
class StepBoosted:
    """Boosted trees on contexts and one column for each action; nothing of them can be prepared."""

    inputs: Float32Array  # contexts [rows, d]
    actions: IntArray
    n_actions: int
    seed: int = 0

    def inputs_of(self, contexts: Float32Array) -> Float32Array:
        """The contexts themselves."""
        return contexts

    def fit(self, targets: FloatArray, chosen: Chosen | None = None) -> BoostedColumns:
        """For targets [rows, P]; there are no penalties to choose."""
        columns = [fit_boosted(self.inputs, self.actions, column, self.n_actions, self.seed) for column in targets.T]
        return BoostedColumns(tuple(columns))

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.inputs.size


def fit_boosted(
    contexts: Float32Array, actions: IntArray, targets: FloatArray, n_actions: int, seed: int
) -> BoostedStep:
    """Histogram gradient boosting on contexts and one column for each action."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = with_actions(contexts, actions, n_actions)
    model = HistGradientBoostingRegressor(early_stopping=False, random_state=seed).fit(rows, targets)
    forest = Forest.of([tree.nodes for (tree,) in model._predictors], np.ravel(model._baseline_prediction))
    # scikit-learn keeps its trees in private fields: make sure that they still mean what is read from them.
    if not np.allclose(forest.scores(rows[:100])[:, 0], model.predict(rows[:100])):
        raise PoelaError("this scikit-learn keeps boosted trees in an unknown form: use regressor='ridge'")
    return BoostedStep(forest, n_actions)
