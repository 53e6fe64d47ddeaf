"""A behavior model: how often each action is taken, whatever the context."""

from dataclasses import dataclass

import numpy as np

from poela.behavior.model import SETTINGS, Behavior, BehaviorModel, LoadPart, Schema
from poela.core.arrays import Float32Array, FloatArray
from poela.core.storage import Stored
from poela.core.validation import expect_array, expect_contents
from poela.data.trajectories import Trajectories


@dataclass(frozen=True)
class FrequenciesBehavior(Behavior):
    def fit_quietly(self, train: Trajectories, seed: int) -> "FrequenciesModel":
        schema = Schema.of(train)
        counts = np.bincount(schema.codes(train.actions), minlength=len(schema.seen))
        return FrequenciesModel(self, schema, counts / counts.sum())


@dataclass(frozen=True, eq=False)
class FrequenciesModel(BehaviorModel):
    settings: FrequenciesBehavior
    schema: Schema
    shares: FloatArray

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.tile(self.shares, (len(contexts), 1))

    def stored(self) -> Stored:
        return Stored("frequencies_behavior", self.schema.to_settings(), {"shares": self.shares})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "FrequenciesModel":
        expect_contents(stored, settings=SETTINGS, arrays=("shares",))
        schema = Schema.from_stored(stored)
        return cls(FrequenciesBehavior(), schema, expect_array(stored, "shares", np.float64, (len(schema.seen),)))
