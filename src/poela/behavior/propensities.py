"""Propensities of the nearest logged contexts, or those that a case brings, as behavior models."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.behavior.model import SETTINGS, Behavior, BehaviorModel, LoadPart, Schema
from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.log_cache import cached
from poela.core.policy import LoggedSteps, Memoryless
from poela.core.storage import Stored
from poela.core.typed import Count, from_plain
from poela.core.validation import expect_array, expect_contents, expect_setting, refuse
from poela.data.checks import ROW_SUM_TOLERANCE
from poela.data.trajectories import Trajectories
from poela.neighbours.scales import FeatureScale
from poela.neighbours.search import Neighbours

# Behavior as the actions taken in the nearest logged contexts.

ROWS_AT_A_TIME = 16384  # bounds the memory for neighbours' rows and distances


@dataclass(frozen=True)
class KNNBehavior(Behavior):
    """The share of each action among the k nearest training contexts, pooled over steps; exact.

    Distances are Euclidean on the features as they stand: standardise features of different units beforehand.
    A context of the training logs is among its own k neighbours, as in the published experiments (there, the kNN of
    the validation and test weights was fitted on those very sets), so its logged action has at least 1 / k.
    `annotate(logs, folds=5)` takes the neighbours from other episodes. Copies of one context count in log order.

    >>> logs = Trajectories([[0.0], [0.1], [0.2], [5.0]], [0, 1, 1, 0], [0, 0, 0, 0], [0, 4])
    >>> KNNBehavior(k=3).fit(logs).probabilities([[0.0]]).round(3)
    array([[0.333, 0.667]])
    """

    k: Count = 100  # neighbours whose actions are counted

    def fit_quietly(self, train: Trajectories, seed: int) -> "KNNModel":
        """Keep the training contexts and actions; nothing is random, whatever the seed."""
        if self.k > train.n_steps:
            raise InputError(
                f"k is {self.k}, but there are {train.n_steps} training steps: choose k from 1 to {train.n_steps}"
            )
        schema = Schema.of(train)
        return KNNModel(self, schema, train.contexts, readonly(schema.codes(train.actions), np.int64))


@dataclass(frozen=True, eq=False)
class KNNModel(BehaviorModel):
    """A fitted kNN: the training contexts, and the actions taken there (as places among those seen)."""

    settings: KNNBehavior
    schema: Schema
    contexts: Float32Array
    codes: IntArray

    @property
    def holds_logged_contexts(self) -> bool:
        """It is made of them."""
        return True

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.contexts)

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """Shares among the k nearest."""
        blocks = [
            self._shares(contexts[start : start + ROWS_AT_A_TIME]) for start in range(0, len(contexts), ROWS_AT_A_TIME)
        ]
        return np.concatenate(blocks)

    def _shares(self, contexts: Float32Array) -> FloatArray:
        rows, _ = self._neighbours.k_nearest(contexts, self.settings.k)
        width = len(self.schema.seen)
        cells = self.codes[rows] + width * np.arange(len(contexts))[:, None]
        counts = np.bincount(cells.ravel(), minlength=width * len(contexts))
        return counts.reshape(len(contexts), width) / self.settings.k

    def stored(self) -> Stored:
        """As plain settings and arrays, for files; the arrays hold the training contexts."""
        settings = {"settings": asdict(self.settings), **self.schema.to_settings()}
        return Stored("knn_behavior", settings, {"contexts": self.contexts, "codes": self.codes})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "KNNModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("settings", *SETTINGS), arrays=("contexts", "codes"))
        settings = from_plain(KNNBehavior, stored.settings["settings"], "settings")
        schema = Schema.from_stored(stored)
        contexts = expect_array(stored, "contexts", np.float32, (None, len(schema.feature_names)))
        if not 1 <= settings.k <= len(contexts):
            refuse("k", settings.k, f"from 1 to the {len(contexts)} contexts")
        codes = expect_array(stored, "codes", np.int64, (len(contexts),), low=0, high=len(schema.seen) - 1)
        return cls(settings, schema, contexts, codes)


class NearestPropensities(Memoryless):
    """The logged propensities of the nearest logged context; of equal contexts, those of the first in the log.

    >>> model = NearestPropensities([[0.0], [1.0]], [[0.9, 0.1], [0.5, 0.5]])
    >>> model.probabilities([[0.2], [0.8]])
    array([[0.9, 0.1],
           [0.5, 0.5]])
    """

    kind = "nearest_propensities"
    holds_logged_contexts = True

    def __init__(self, contexts: ArrayLike, propensities: ArrayLike, scale: FeatureScale | None = None) -> None:
        self.contexts: Float32Array = readonly(contexts, np.float32)
        self.propensities: FloatArray = readonly(propensities, np.float64)
        self.scale = scale or FeatureScale(np.ones(self.n_features))

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return int(self.contexts.shape[1])

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return int(self.propensities.shape[1])

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.scale(self.contexts))

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        rows, _ = self._neighbours.nearest(self.scale(contexts))
        return np.asarray(self.propensities[rows])

    def stored(self) -> Stored:
        """For a file: the logged contexts and their propensities."""
        arrays: dict[str, NDArray[Any]] = {"contexts": self.contexts, "propensities": self.propensities}
        return Stored(self.kind, arrays={**arrays, **self.scale.arrays})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "NearestPropensities":
        """From a file."""
        robust = ("knots", "scores") if "knots" in stored.arrays else ()
        expect_contents(stored, arrays=("contexts", "propensities", "factors", *robust))
        contexts = expect_array(stored, "contexts", np.float32, (None, None))
        propensities = expect_array(stored, "propensities", np.float64, (len(contexts), None), low=0, high=1 + 1e-12)
        if not len(contexts) or (np.abs(propensities.sum(axis=1) - 1) > ROW_SUM_TOLERANCE).any():
            raise InputError("propensities must hold at least one row, and its rows must sum to 1")
        return cls(contexts, propensities, FeatureScale.from_stored(stored, contexts.shape[1]))


def nearest_propensities(train: Trajectories, scale: FeatureScale | None = None) -> NearestPropensities:
    """Those of a log that has them for every action.

    For one log it is one and the same model, so that what it says along another is worked out once for all candidates.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[0.9, 0.1], [0.5, 0.5]])
    >>> nearest_propensities(logs) is nearest_propensities(logs)
    True
    """
    own = scale or FeatureScale(np.ones(train.n_features))

    def build() -> NearestPropensities:
        assert train.propensities is not None
        return NearestPropensities(train.contexts, train.propensities, own)

    return cached(train, ("nearest propensities", own.key), None, build)


class LoggedPropensities(Memoryless):
    """The logging policy itself, where it tells its propensities for new cases too: those that each case brings.

    A policy that builds on it changes what is done now by what it has learned, however hard that is to predict from
    the contexts. It cannot act where propensities of every action are not given.

    >>> from poela import Trajectories
    >>> logs = Trajectories([[0.0]], [0], [0.0], [0, 1], propensities=[[0.9, 0.1]])
    >>> LoggedPropensities(n_features=1, n_actions=2).along(logs)
    array([[0.9, 0.1]])
    """

    kind = "logged_propensities"
    holds_logged_contexts = False

    def __init__(self, n_features: int, n_actions: int) -> None:
        self.n_features, self.n_actions = n_features, n_actions

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: contexts do not bring them."""
        raise _needs_propensities()

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A], as logged."""
        propensities = getattr(trajectories, "propensities", None)
        if propensities is None or propensities.ndim == 1:
            raise _needs_propensities()
        return np.asarray(propensities, np.float64)

    def stored(self) -> Stored:
        """For a file: nothing of the logs."""
        return Stored(self.kind, {"n_features": self.n_features, "n_actions": self.n_actions})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Any = None) -> "LoggedPropensities":
        """From a file."""
        expect_contents(stored, settings=("n_features", "n_actions"))
        sizes = (expect_setting(stored, name, int, low=1) for name in ("n_features", "n_actions"))
        return cls(*sizes)


def _needs_propensities() -> InputError:
    return InputError(
        "this policy changes what the logging policy would do, so each case must bring the logging policy's "
        "propensities of every action (columns propensity_<action>): use decide(table), or along(logs)"
    )
