"""Behavior as a multinomial logistic regression."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.behavior.model import SETTINGS, Behavior, BehaviorModel, LoadPart, Schema
from poela.core.arrays import Float32Array, FloatArray, readonly
from poela.core.errors import PoelaWarning
from poela.core.storage import Stored
from poela.core.typed import Count, Positive, from_plain
from poela.core.validation import LARGEST, expect_array, expect_contents
from poela.data.trajectories import Trajectories

# Mean and spread of training features, for models that need them on one scale.


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features minus their training mean, over their training spread; constant features are left at spread 1.

    >>> scaling = Scaling.of(np.array([[1.0, 7.0], [3.0, 7.0]], np.float32))
    >>> scaling.apply(np.array([[3.0, 8.0]], np.float32))
    array([[1., 1.]])
    """

    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, contexts: Float32Array) -> "Scaling":
        """The scaling that these training contexts give."""
        mean, spread = contexts.mean(axis=0, dtype=np.float64), contexts.std(axis=0, dtype=np.float64)
        # Rounding leaves a constant feature a spread near 1e-8 of its size, which must not be divided by.
        constant = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(readonly(mean, np.float64), readonly(np.where(constant, 1.0, spread), np.float64))

    def apply(self, contexts: Float32Array) -> FloatArray:
        """The contexts on the common scale, in float64."""
        return np.asarray((contexts - self.mean) / self.spread)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays, for files."""
        return {"mean": self.mean, "spread": self.spread}

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int) -> "Scaling":
        """The inverse of `to_arrays`."""
        mean = expect_array(stored, "mean", np.float64, (n_features,))
        return cls(mean, expect_array(stored, "spread", np.float64, (n_features,), low=1 / LARGEST))


@dataclass(frozen=True)
class MultinomialBehavior(Behavior):
    """Logistic regression on standardised features, by scikit-learn.

    >>> contexts = np.random.default_rng(0).normal(size=(400, 2))
    >>> logs = Trajectories(contexts, contexts[:, 0] > 0, np.zeros(400), np.arange(0, 401, 4))
    >>> MultinomialBehavior().fit(logs).probabilities([[-1.0, 0.0], [1.0, 0.0]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    penalty: Positive = 1.0  # the weight of ½·‖coefficients‖² against the summed log likelihood
    max_iterations: Count = 1000  # of the solver

    def fit_quietly(self, train: Trajectories, seed: int) -> "MultinomialModel":
        """The fitted model; the fit is deterministic, whatever the seed."""
        schema, scaling = Schema.of(train), Scaling.of(train.contexts)
        if len(schema.seen) == 1:
            coefficients = np.zeros((1, train.n_features + 1))
        else:
            coefficients = self._coefficients(scaling.apply(train.contexts), schema.codes(train.actions))
        return MultinomialModel(self, schema, scaling, readonly(coefficients, np.float64))

    def _coefficients(self, features: FloatArray, codes: "np.typing.NDArray[np.int64]") -> FloatArray:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        regression = LogisticRegression(C=1 / self.penalty, max_iter=self.max_iterations)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            regression.fit(features, codes)
        if caught:
            warnings.warn(
                f"the logistic regression has not converged in {self.max_iterations} iterations: raise max_iterations",
                PoelaWarning,
                stacklevel=4,
            )
        fitted = np.column_stack([regression.coef_, regression.intercept_])
        # Of two actions, scikit-learn gives only the second one's logit; the first one's is 0.
        return np.vstack([np.zeros_like(fitted), fitted]) if len(fitted) == 1 else fitted


@dataclass(frozen=True, eq=False)
class MultinomialModel(BehaviorModel):
    """A fitted logistic regression: one row of coefficients, with the intercept last, for each action seen."""

    settings: MultinomialBehavior
    schema: Schema
    scaling: Scaling
    coefficients: FloatArray  # [seen, d + 1]

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """Softmax of the linear scores."""
        from scipy.special import softmax

        scores = self.scaling.apply(contexts) @ self.coefficients[:, :-1].T + self.coefficients[:, -1]
        return np.asarray(softmax(scores, axis=1))

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        settings = {"settings": asdict(self.settings), **self.schema.to_settings()}
        arrays = {"coefficients": self.coefficients, **self.scaling.to_arrays()}
        return Stored("multinomial_behavior", settings, arrays)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "MultinomialModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("settings", *SETTINGS), arrays=("coefficients", "mean", "spread"))
        schema = Schema.from_stored(stored)
        n_features = len(schema.feature_names)
        return cls(
            from_plain(MultinomialBehavior, stored.settings["settings"], "settings"),
            schema,
            Scaling.from_stored(stored, n_features),
            expect_array(stored, "coefficients", np.float64, (len(schema.seen), n_features + 1)),
        )
