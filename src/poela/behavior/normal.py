"""Normal models of real-valued actions: what all share, and one by anybody's regressor."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.live import stored_live, unfitted
from poela.core.options import HasParams
from poela.core.policy import gaussian_log_density, standard_normal
from poela.core.references import description
from poela.core.storage import Stored
from poela.data.action_space import real_actions
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.regression.step_foreign import AnyRegressor, Predictor

FOLDS = 5


class NormalBehavior(HasParams, ABC):
    """Settings of a model of the logging policy of real-valued actions."""

    def fit(self, train: Trajectories, seed: int = 0) -> "NormalModel":
        """The fitted model."""
        return self.fit_quietly(train, seed)

    @abstractmethod
    def fit_quietly(self, train: Trajectories, seed: int = 0) -> "NormalModel":
        """The fitted model."""

    def annotate(self, logs: Trajectories, folds: int = FOLDS, seed: int = 0) -> Trajectories:
        """Cross-fitted log densities: each episode's come from a model that saw neither it nor its cluster."""
        found, fold_of = np.empty(logs.n_steps), fold_numbers(logs.units, folds, seed)
        for fold in range(folds):
            model, asked = self.fit_quietly(logs.take(fold_of != fold), seed), logs.take(fold_of == fold)
            found[(fold_of == fold)[logs.episode_of_step]] = model.log_density(asked.contexts, asked.actions)
        return logs.with_log_densities(found, estimated=True)


class NormalModel(ABC):
    """A normal distribution of each column of actions at each context: a policy of real-valued actions."""

    spread: FloatArray  # [m], of the logged actions
    feature_names: tuple[str, ...]
    action_names: tuple[str | int, ...]

    @property
    def holds_logged_contexts(self) -> bool:
        """Whether a file of the model holds contexts of the training logs."""
        return False

    @abstractmethod
    def moments(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation [N, m]."""

    @abstractmethod
    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N], of actions [N, m]."""
        return gaussian_log_density(self.checked_actions(actions), *self.moments(contexts))

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context."""
        mean, std = self.moments(contexts)
        return mean + std * standard_normal(mean.shape, rng)

    def checked(self, contexts: ArrayLike) -> Float32Array:
        """The contexts as a float32 matrix of the right width, or one clear sentence."""
        return checked_contexts(contexts, self.feature_names)

    def checked_actions(self, actions: ArrayLike) -> FloatArray:
        """The actions as a matrix of the right width, or one clear sentence."""
        rows = np.asarray(actions, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.action_names):
            columns = ", ".join(map(str, self.action_names))
            raise InputError(f"actions have shape {rows.shape}; this policy takes [rows, columns] with {columns}")
        return rows

    def annotate(self, logs: Trajectories) -> Trajectories:
        """The logs with this model's log densities."""
        return logs.with_log_densities(self.log_density(logs.contexts, logs.actions), estimated=True)


def checked_contexts(contexts: ArrayLike, feature_names: tuple[str, ...]) -> Float32Array:
    """Contexts as a float32 matrix with these features, or one clear sentence."""
    rows = np.asarray(contexts, np.float32)
    if rows.ndim != 2 or rows.shape[1] != len(feature_names):
        raise InputError(
            f"contexts have shape {rows.shape}; this policy takes [rows, {len(feature_names)}] "
            f"with the features {', '.join(feature_names)}"
        )
    return rows


def spread_of(actions: FloatArray) -> FloatArray:
    """The standard deviation of each column of actions [m]; 1 of one that never changes."""
    spread = actions.std(axis=0)
    return np.where(spread > 1e-12, spread, 1.0)


@dataclass(frozen=True, eq=False)
class RegressorBehavior(NormalBehavior):
    """Somebody's regressor as a model of logged amounts: it gives the mean, and what it misses gives the spread.

    The spread is that of residuals on episodes that the regressor has not seen, the same at every context.

    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> logs = Trajectories(x, 2 * x + rng.normal(size=(2000, 1)), np.zeros(2000), np.arange(2001))
    >>> [part.round(1).tolist() for part in RegressorBehavior(LinearRegression()).fit(logs).moments([[1.0]])]
    [[[2.0]], [[1.0]]]
    """

    regressor: AnyRegressor

    def fit_quietly(self, train: Trajectories, seed: int = 0) -> "RegressorModel":
        """The fitted model; a regressor that takes a `random_state` and has none gets the seed."""
        logs = real_actions(train, "a regressor of logged amounts")
        folds = min(FOLDS, logs.n_units)
        missed, fold_of = np.zeros(logs.actions.shape), fold_numbers(logs.units, folds, seed)
        for fold in range(folds if folds > 1 else 0):
            asked = (fold_of == fold)[logs.episode_of_step]
            others = self._fitted(logs.contexts[~asked], logs.actions[~asked], seed)
            missed[asked] = logs.actions[asked] - predicted(others, logs.contexts[asked])
        models = self._fitted(logs.contexts, logs.actions, seed)
        spread = spread_of(logs.actions)
        left = np.sqrt(np.square(missed).mean(axis=0))
        left = np.where(left > 1e-3 * spread, left, spread if folds < 2 else 1e-3 * spread)
        return RegressorModel(self.regressor, models, left, spread, logs.feature_names, logs.action_names)

    def _fitted(self, contexts: Float32Array, actions: FloatArray, seed: int) -> tuple[Predictor, ...]:
        models = [unfitted(self.regressor, seed) for _ in actions.T]
        for model, column in zip(models, actions.T, strict=True):
            model.fit(np.asarray(contexts, np.float64), np.ascontiguousarray(column))
        return tuple(models)


def predicted(models: tuple[Predictor, ...], contexts: Float32Array) -> FloatArray:
    """What regressors, one for each column, say [N, m]; checked."""
    rows = np.asarray(contexts, np.float64)
    found = [np.asarray(model.predict(rows), np.float64) for model in models] if len(rows) else [np.zeros(0)]
    if any(one.shape != (len(rows),) or not np.isfinite(one).all() for one in found):
        raise InputError(f"{type(models[0]).__name__}.predict must give one finite number for each of {len(rows)} rows")
    return np.stack(found, axis=1) if len(rows) else np.zeros((0, len(models)))


@dataclass(frozen=True, eq=False)
class RegressorModel(NormalModel):
    """Fitted regressors of somebody's, one for each column of actions, which live in this process."""

    settings: Predictor
    models: tuple[Predictor, ...]
    left: FloatArray  # [m], the standard deviation of residuals
    spread: FloatArray  # [m], of the logged actions
    feature_names: tuple[str, ...]
    action_names: tuple[str | int, ...]

    def moments(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation [N, m]."""
        mean = predicted(self.models, self.checked(contexts))
        return mean, np.broadcast_to(self.left, mean.shape)

    @cached_property
    def _evidence(self) -> bytes:
        """What tells it from others: what it says of a few points, and its spread."""
        some = np.random.default_rng(0).normal(size=(64, len(self.feature_names))).astype(np.float32)
        return sha256(predicted(self.models, some).tobytes() + self.left.tobytes()).digest()

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self._evidence)

    def __repr__(self) -> str:
        return description(self.settings)
