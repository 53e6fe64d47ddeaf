"""What every registered behavior model owes its users; a new one is tested the day it is registered."""

import warnings
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.behavior.history import HistoryBehavior
from poela.behavior.model import Behavior, BehaviorModel
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.propensities import KNNBehavior
from poela.behavior.registry import BEHAVIORS, STORED_KINDS
from poela.behavior.tempered import TemperedBehavior
from poela.core.errors import InputError, PoelaWarning
from poela.core.policy import Policy
from poela.core.storage import Stored, load_stored, save_stored
from poela.data.trajectories import Trajectories

QUICK = {"k": 5, "hidden": (6,), "max_steps": 50, "max_rounds": 10}


def quick(name: str) -> Behavior:
    """The registered settings, made quick where they have such a setting."""
    settings: Any = BEHAVIORS[name]()
    chosen = {field.name: QUICK[field.name] for field in fields(settings) if field.name in QUICK}
    made: Behavior = replace(settings, **chosen)
    return made


EVERY = {
    **{name: quick(name) for name in BEHAVIORS},
    "tempered": TemperedBehavior(MultinomialBehavior()),
    "history": HistoryBehavior(MultinomialBehavior(), steps=2),
    "tempered history": TemperedBehavior(HistoryBehavior(quick("boosted"))),
    "tempered recurrent": TemperedBehavior(quick("recurrent"), held_out=0.3),
}
every_behavior = pytest.mark.parametrize("behavior", EVERY.values(), ids=EVERY.keys())


def logs_of(n_actions: int = 3, declared: int | None = None, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 30)
    n = int(lengths.sum())
    return Trajectories(
        rng.normal(size=(n, 2)),
        np.arange(n) % n_actions,
        rng.normal(size=n),
        np.concatenate([[0], np.cumsum(lengths)]),
        n_actions=declared or n_actions,
        feature_names=["age", "pulse"],
    )


def fitted(behavior: Behavior, logs: Trajectories, seed: int = 0) -> BehaviorModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)
        return behavior.fit(logs, seed)


def load_part(stored: Stored) -> Any:
    module, name = STORED_KINDS[stored.kind].split(":")
    return getattr(import_module(module), name).from_stored(stored, load_part)


@every_behavior
@pytest.mark.parametrize(("n_actions", "declared"), [(1, 1), (1, 4), (2, 2), (3, 5)])
def test_probabilities_are_valid_also_for_one_action(behavior: Behavior, n_actions: int, declared: int) -> None:
    logs = logs_of(n_actions, declared)
    model = fitted(behavior, logs)
    rows = model.along(logs)
    assert isinstance(model, Policy)
    assert rows.shape == (logs.n_steps, declared)
    assert rows.dtype == np.float64
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)
    assert (rows[:, n_actions:] == 0).all()


@every_behavior
def test_annotated_logs_have_full_positive_propensities(behavior: Behavior) -> None:
    logs = logs_of()
    report = fitted(behavior, logs).annotation(logs_of(seed=1))
    assert report.trajectories.propensities is not None
    assert report.trajectories.propensities.shape == (report.trajectories.n_steps, 3)
    assert (report.trajectories.logged_propensities >= report.floor).all()
    assert np.isfinite(report.calibration.log_likelihood)


@every_behavior
def test_the_same_seed_gives_the_same_bits(behavior: Behavior) -> None:
    logs = logs_of()
    once, again = (fitted(behavior, logs, seed=3).along(logs) for _ in range(2))
    np.testing.assert_array_equal(once, again)


@every_behavior
def test_the_order_of_episodes_asked_about_does_not_matter(behavior: Behavior) -> None:
    logs = logs_of()
    model = fitted(behavior, logs)
    order = np.random.default_rng(0).permutation(logs.n_episodes)
    rows = [slice(logs.offsets[episode], logs.offsets[episode + 1]) for episode in order]
    expected = np.concatenate([model.along(logs)[row] for row in rows])
    np.testing.assert_allclose(model.along(logs.take(order)), expected, atol=1e-6)


@every_behavior
def test_a_log_of_one_episode(behavior: Behavior) -> None:
    logs = logs_of()
    long = logs.take([int(logs.lengths.argmax())])
    if isinstance(behavior, TemperedBehavior):
        with pytest.raises(InputError, match="two episodes or more"):
            fitted(behavior, long)
    else:
        np.testing.assert_allclose(fitted(behavior, long).along(long).sum(axis=1), 1, atol=1e-9)


@every_behavior
@pytest.mark.parametrize("n_actions", [1, 2, 3])
def test_a_stored_model_comes_back_the_same(behavior: Behavior, n_actions: int, tmp_path: Path) -> None:
    logs = logs_of(n_actions)
    model = fitted(behavior, logs)
    save_stored(tmp_path / "model", model.stored(), file_format="behavior", version=1, notes={})
    again = load_part(load_stored(tmp_path / "model", file_format="behavior", version=1)[0])
    np.testing.assert_array_equal(again.along(logs), model.along(logs))
    assert again.settings == model.settings
    assert again.schema == model.schema
    assert again.holds_logged_contexts == model.holds_logged_contexts == isinstance(behavior, KNNBehavior)


@every_behavior
def test_acting_step_by_step_agrees_with_following(behavior: Behavior) -> None:
    logs = logs_of()
    model = fitted(behavior, logs)
    long = logs.take(np.flatnonzero(logs.lengths >= 3))
    along = model.along(long)
    actor = model.actor(long.n_episodes)
    for step in range(3):
        rows = long.offsets[:-1] + step
        np.testing.assert_allclose(actor.probabilities(long.contexts[rows]), along[rows], atol=1e-6)
        actor.record(long.actions[rows])
