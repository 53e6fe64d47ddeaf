"""Behavior models on disk: what comes back gives the same probabilities, bit by bit."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.behavior.model import Behavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.neighbours import KNNBehavior
from poela.behavior.registry import BEHAVIORS, STORED_KINDS, behavior_class
from poela.behavior.tempered import TemperedBehavior
from poela.core.storage import Stored, load_stored, save_stored
from poela.data.trajectories import Trajectories

SMALL = [
    KNNBehavior(k=5),
    MultinomialBehavior(),
    BoostedBehavior(max_rounds=10),
    CloneBehavior(hidden=(8, 8), max_steps=50),
    RecurrentCloneBehavior(hidden=(8, 8), steps=20),
    TemperedBehavior(MultinomialBehavior()),
    TemperedBehavior(RecurrentCloneBehavior(hidden=(8,), steps=20), held_out=0.3),
]


def logs_of(n_actions: int = 3) -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(
        rng.normal(size=(90, 2)),
        rng.integers(0, n_actions, 90),
        np.zeros(90),
        np.arange(0, 91, 3),
        feature_names=["age", "pulse"],
        action_names=["none", "low", "high"][:n_actions],
    )


def load_part(stored: Stored) -> Any:
    module, name = STORED_KINDS[stored.kind].split(":")
    return getattr(import_module(module), name).from_stored(stored, load_part)


@pytest.mark.parametrize("behavior", SMALL, ids=lambda behavior: type(behavior).__name__)
@pytest.mark.parametrize("n_actions", [1, 2, 3])
def test_a_stored_model_comes_back_the_same(behavior: Behavior, n_actions: int, tmp_path: Path) -> None:
    logs = logs_of(n_actions)
    model = behavior.fit(logs)
    save_stored(tmp_path / "model", model.stored(), file_format="behavior", version=1, notes={})
    again = load_part(load_stored(tmp_path / "model", file_format="behavior", version=1)[0])
    np.testing.assert_array_equal(again.along(logs), model.along(logs))
    assert again.settings == model.settings
    assert again.schema == model.schema
    assert again.holds_logged_contexts == model.holds_logged_contexts == isinstance(behavior, KNNBehavior)


def test_every_registered_behavior_is_tried_here() -> None:
    assert {behavior_class(name) for name in BEHAVIORS} <= {type(behavior) for behavior in SMALL}
