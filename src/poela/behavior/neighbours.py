"""Behavior as the actions taken in the nearest logged contexts."""

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from poela.behavior.model import Behavior, BehaviorModel, LoadPart
from poela.behavior.schema import SETTINGS, Schema
from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.typed import Count, from_plain
from poela.core.validation import expect_array, expect_contents, refuse
from poela.data.trajectories import Trajectories
from poela.neighbours.search import Neighbours

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
