"""Boosted trees as the regression of one step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import PoelaError
from poela.regression.forest import Forest
from poela.regression.ridge import Features, Inputs
from poela.regression.step_regression import Chosen
from poela.regression.step_values import BoostedStep, StepModel, with_actions

SHALLOW: Mapping[str, Any] = MappingProxyType({"max_depth": 3, "max_iter": 60})


@dataclass(frozen=True, eq=False)
class BoostedColumns:
    """Boosted trees of one step, or somebody's regressions, for each of P targets."""

    models: tuple[StepModel, ...]
    chosen: Chosen = field(default_factory=dict)  # there are none

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""
        contexts = np.asarray(inputs, np.float32)
        return np.stack([model.predict(contexts).T for model in self.models], axis=-1)

    def model(self, column: int) -> StepModel:
        """That of one target, to be kept."""
        return self.models[column]


@dataclass(frozen=True, eq=False)
class StepBoosted:
    """Boosted trees on contexts and one column for each action; nothing of them can be prepared."""

    actions: IntArray
    n_actions: int
    seed: int = 0
    shallow: bool = False

    def features(self, contexts: Float32Array) -> Features:
        """The contexts themselves."""
        return Features.known(contexts)

    def fit(self, features: Features, targets: FloatArray, chosen: Chosen | None = None) -> BoostedColumns:
        """For targets [rows, P]; there are no penalties to choose."""
        contexts = np.asarray(features.all(), np.float32)
        how = self.n_actions, self.seed, SHALLOW if self.shallow else {}
        return BoostedColumns(tuple(fit_boosted(contexts, self.actions, column, *how) for column in targets.T))

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.actions.size


def fit_boosted(
    contexts: Float32Array,
    actions: IntArray,
    targets: FloatArray,
    n_actions: int,
    seed: int,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> BoostedStep:
    """Histogram gradient boosting on contexts and one column for each action."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = with_actions(contexts, actions, n_actions)
    model = HistGradientBoostingRegressor(early_stopping=False, random_state=seed, **settings).fit(rows, targets)
    forest = Forest.of([tree.nodes for (tree,) in model._predictors], np.ravel(model._baseline_prediction))
    # scikit-learn has no public way to its boosted histograms (`tree_` and `export_text` are of single trees alone), so
    # private fields are read: make sure that they still mean what is read from them.
    if not np.allclose(forest.scores(rows[:100])[:, 0], model.predict(rows[:100])):
        raise PoelaError("this scikit-learn keeps boosted trees in an unknown form: use regressor='ridge'")
    return BoostedStep(forest, n_actions)
