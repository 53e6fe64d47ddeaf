"""Any regressor with `fit` and `predict`, such as scikit-learn's, as the regression of one step."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.live import unfitted
from poela.core.typed import Check
from poela.regression.ridge import Features
from poela.regression.step_boosted import BoostedColumns
from poela.regression.step_regression import Chosen
from poela.regression.step_values import ForeignStep, with_actions


@runtime_checkable
class Predictor(Protocol):
    """What scikit-learn's regressors, and those that follow them, have."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn numbers `y` [N] from features `X` [N, d]."""

    def predict(self, X: Any) -> Any:
        """The number to be expected, [N]."""


def _problem(value: Any) -> str | None:
    if isinstance(value, type):
        return f"it is a class: give an object, {value.__name__}()"
    return None if isinstance(value, Predictor) else "give an object with fit and predict"


AnyRegressor = Annotated[Predictor, Check(_problem)]


@dataclass(frozen=True, eq=False)
class StepForeign:
    """Somebody's regressor on contexts and one column for each action; nothing of it can be prepared."""

    actions: IntArray
    n_actions: int
    regressor: Predictor
    seed: int = 0

    def features(self, contexts: Float32Array) -> Features:
        """The contexts themselves."""
        return Features.known(contexts)

    def fit(self, features: Features, targets: FloatArray, chosen: Chosen | None = None) -> BoostedColumns:
        """For targets [rows, P]; there are no penalties to choose."""
        rows = with_actions(np.asarray(features.all(), np.float32), self.actions, self.n_actions)
        return BoostedColumns(tuple(self._fitted(rows, column) for column in targets.T))

    def _fitted(self, rows: Float32Array, targets: FloatArray) -> ForeignStep:
        model = unfitted(self.regressor, self.seed)
        model.fit(rows, np.ascontiguousarray(targets))
        predicted = np.asarray(model.predict(rows), np.float64)
        if predicted.shape != targets.shape or not np.isfinite(predicted).all():
            raise InputError(f"{type(model).__name__}.predict must give one finite number for each of {len(rows)} rows")
        return ForeignStep(model, rows.shape[1] - self.n_actions, self.n_actions, sha256(predicted.tobytes()).digest())

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.actions.size
