"""Flat arrays, bandit dictionaries and data frames: there and back, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import poela
from poela.core.errors import InputError

FIELDS = ("contexts", "actions", "rewards", "offsets", "propensities", "episode_ids", "clusters")


def logs(**more: Any) -> poela.Trajectories:
    rng = np.random.default_rng(1)
    return poela.Trajectories(rng.normal(size=(6, 2)), [0, 2, 1, 1, 0, 2], rng.normal(size=6), [0, 3, 4, 6], **more)


def bandit(**more: Any) -> dict[str, Any]:
    """In the shape of OBP's synthetic feedback."""
    every = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2]])
    return {
        "n_rounds": 3,
        "n_actions": 3,
        "context": np.array([[0.5, 1.0], [0.1, 2.0], [0.3, 3.0]]),
        "action_context": np.eye(3),
        "action": np.array([1, 2, 0]),
        "position": None,
        "reward": np.array([1, 0, 1]),
        "expected_reward": every,
        "pi_b": every[:, :, None],
        "pscore": np.array([0.5, 0.8, 0.6]),
        **more,
    }


def assert_same(ours: poela.Trajectories, theirs: poela.Trajectories) -> None:
    for field in FIELDS:
        expected, found = getattr(ours, field), getattr(theirs, field)
        assert np.array_equal(expected, found) if expected is not None else found is None, field
    assert (ours.action_names, ours.feature_names) == (theirs.action_names, theirs.feature_names)
    assert ours.estimated == theirs.estimated


def test_flat_arrays_have_flags_at_the_ends() -> None:
    arrays = logs(n_actions=4).to_mdp_arrays(terminated=[True, False, True])
    assert arrays["terminals"].tolist() == [0, 0, 1, 0, 0, 1]
    assert arrays["timeouts"].tolist() == [0, 0, 0, 1, 0, 0]
    assert arrays["action_size"] == 4
    assert arrays["rewards"].dtype == np.float32


def test_flat_arrays_come_back() -> None:
    ours = logs()
    exact = poela.Trajectories(ours.contexts, ours.actions, ours.rewards.astype(np.float32), ours.offsets)
    arrays = ours.to_mdp_arrays(terminated=False)
    assert_same(exact, poela.Trajectories.from_mdp_arrays(**arrays))
    columns: dict[str, Any] = {name: arrays[name][:, None] for name in ("actions", "rewards", "terminals", "timeouts")}
    assert_same(exact, poela.Trajectories.from_mdp_arrays(arrays["observations"], **columns))
    known = poela.Trajectories.from_mdp_arrays(**arrays, propensities=np.full(6, 0.5), feature_names=["age", "sofa"])
    assert (known.feature_names, known.logged_propensities[0]) == (("age", "sofa"), 0.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"terminals": [0, 1, 0, 0, 1, 0]}, "the last step ends no episode"),
        ({"terminals": [0, 1, 0]}, "terminals must be 6 flags"),
        ({"terminals": [0, 0, 0, 0, 0, 0.5]}, "terminals must be 6 flags"),
        ({"timeouts": [[0, 1]] * 6}, "timeouts must be 6 flags"),
        ({"actions": np.zeros((6, 3))}, "vectors of 3 numbers"),
        ({"actions": np.full(6, 0.5)}, "whole numbers"),
        ({"action_size": 2}, "outside 0 … 1"),
        ({"action_size": "x"}, "action_size must be a whole number"),
        ({"action_size": float("nan")}, "action_size must be a whole number"),
        ({"observations": None}, "observations must be a matrix"),
        ({"observations": np.zeros((0, 2)), "terminals": []}, "observations must be a matrix"),
        ({"observations": [[1.0], [1.0, 2.0]]}, "rows of one length"),
        ({"terminals": ["0", "0", "1", "0", "0", "1"]}, "terminals must be 6 flags"),
    ],
)
def test_flat_arrays_that_cannot_be_read(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        poela.Trajectories.from_mdp_arrays(**{**logs().to_mdp_arrays(), "timeouts": None, **changes})


def test_bandit_rounds_are_episodes_of_one_step() -> None:
    read = poela.from_bandit(bandit())
    assert read.lengths.tolist() == [1, 1, 1]
    assert np.array_equal(read.propensities, bandit()["pi_b"][:, :, 0])  # type: ignore[arg-type]
    assert np.allclose(read.logged_propensities, bandit()["pscore"])
    alone = poela.from_bandit(bandit(pi_b=None))
    assert alone.propensities.tolist() == [0.5, 0.8, 0.6]  # type: ignore[union-attr]


@pytest.mark.parametrize("changes", [{}, {"pi_b": None}, {"pi_b": None, "pscore": None}])
def test_bandits_come_back(changes: dict[str, Any]) -> None:
    ours = poela.from_bandit(bandit(**changes))
    feedback = poela.to_bandit(ours)
    assert_same(ours, poela.from_bandit(feedback))
    for key in ("n_rounds", "n_actions", "action", "reward", "pscore", "pi_b", "position"):
        assert np.array_equal(feedback[key], bandit(**changes)[key]), key


def test_one_of_several_positions_is_chosen() -> None:
    slots = bandit(position=np.array([0, 1, 0]), pi_b=np.repeat(bandit()["pi_b"], 2, axis=2))
    with pytest.raises(InputError, match="2 positions, 0 to 1, which are different decisions"):
        poela.from_bandit(slots)
    read = poela.from_bandit(slots, position=0)
    assert read.actions.tolist() == [1, 0]
    assert np.array_equal(read.episode_ids, [0, 2])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no round has position 7"):
        poela.from_bandit(slots, position=7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": None}, "no 'reward'"),
        ({"context": [[1.0], [1.0, 2.0], [3.0]]}, "rows of one length"),
        ({"context": np.zeros(3)}, "must be a matrix"),
        ({"n_rounds": 7}, "n_rounds and the rows"),
        ({"pscore": [0.5], "pi_b": None}, "pscore has 1 entries for 3 rounds"),
        ({"pi_b": np.zeros((3, 3, 2))}, "third axis of slots"),
        ({"pscore": [0.5, 0.0, 0.6], "pi_b": None}, r"outside \(0, 1\]"),
        ({"pscore": [0.5, 0.7, 0.6]}, "pscore and pi_b give .* different probabilities in 1 round, first round 1"),
        ({"pscore": [0.5, 0.7]}, "pscore has 2 entries for 3 rounds"),
        ({"n_actions": float("nan")}, "n_actions must be a whole number"),
        ({"n_actions": -3}, "n_actions must be a whole number"),
        ({"n_rounds": "three"}, "n_rounds must be a whole number"),
        ({"reward": 1.0}, "reward has 1 entries for 3 rounds"),
        ({"position": ["a", "b", "a"]}, "position must be a whole number for each round"),
        ({"context": np.zeros((0, 2)), "action": [], "n_rounds": 0}, "no rounds"),
    ],
)
def test_bandits_that_cannot_be_read(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        poela.from_bandit(bandit(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"n_actions": "x"},
        {"n_actions": np.inf},
        {"offsets": 6},
        {"feature_names": 2},
        {"action_names": 3},
        {"episode_ids": [[1], [2, 3], 4]},
    ],
)
def test_wrong_arguments_are_told_in_a_sentence(changes: dict[str, Any]) -> None:
    given = {"contexts": np.zeros((6, 2)), "actions": [0] * 6, "rewards": [0] * 6, "offsets": [0, 3, 4, 6]}
    with pytest.raises(InputError, match="must"):
        poela.Trajectories(**{**given, **changes})
    with pytest.raises(InputError, match=r"position= must be a whole number"):
        poela.from_bandit(bandit(position=[0, 0, 1]), position="text")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs logs"):
        poela.to_bandit(None)  # type: ignore[arg-type]


def test_longer_episodes_are_no_bandit() -> None:
    with pytest.raises(InputError, match="2 episodes of 3 have more than one step"):
        poela.to_bandit(logs())


NAMED: dict[str, Any] = {
    "propensities": np.full((6, 3), 1 / 3),
    "action_names": ["none", "low", "high"],
    "feature_names": ["age", "sofa"],
    "episode_ids": ["a", "b", "c"],
    "clusters": [0, 1, 0],
    "estimated": True,
}


@pytest.mark.parametrize("more", [{}, NAMED, {**NAMED, "propensities": np.full(6, 0.5)}], ids=["plain", "full", "one"])
def test_pandas_keeps_everything(more: dict[str, Any], tmp_path: Path) -> None:
    ours = logs(**more)
    frame = ours.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert_same(ours, poela.read_logs(frame))
    assert_same(ours, poela.read_logs(frame.sample(frac=1, random_state=0)))
    frame.to_parquet(tmp_path / "logs.parquet")
    assert_same(ours, poela.read_logs(tmp_path / "logs.parquet"))


def test_polars_keeps_all_but_notes() -> None:
    ours = logs(**{**NAMED, "estimated": False})
    frame = ours.to_polars()
    assert isinstance(frame, pl.DataFrame)
    read = poela.read_logs(frame, cluster="cluster", actions=ours.action_names)
    assert_same(ours, read)
    assert_same(logs(), poela.read_logs(logs().to_polars()))
