"""Minari datasets against the real package, in a folder of their own."""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector.episode_buffer import EpisodeBuffer

import poela
from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.data.action_space import Box
from poela.data.trajectories import Trajectories

FORMATS = ["arrow", pytest.param("hdf5", marks=pytest.mark.skipif(find_spec("h5py") is None, reason="needs h5py"))]
FIELDS = ("contexts", "actions", "rewards", "offsets", "propensities", "episode_ids", "clusters")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def logs(full: bool = True, **more: Any) -> poela.Trajectories:
    rng = np.random.default_rng(0)
    every = rng.dirichlet([2.0, 2.0, 2.0], 6)
    actions = np.array([0, 2, 1, 1, 0, 2])
    return poela.Trajectories(
        rng.normal(size=(6, 2)),
        actions,
        rng.normal(size=6),
        [0, 3, 4, 6],
        propensities=every if full else every[np.arange(6), actions],
        **more,
    )


NAMED: dict[str, Any] = {
    "feature_names": ["age", "sofa"],
    "action_names": ["none", "low", "high"],
    "episode_ids": ["c", "a", "b"],
    "clusters": ["x", "y", "x"],
    "estimated": True,
}


def made(
    name: str, observation: spaces.Space[Any], action: spaces.Space[Any], *episodes: dict[str, Any], **more: Any
) -> Any:
    """A dataset written by Minari itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nobody is named as its author
        return minari.create_dataset_from_buffers(
            name,
            [EpisodeBuffer(**episode) for episode in episodes],
            observation_space=observation,
            action_space=action,
            data_format="arrow",
            **more,
        )


def episode(steps: int, observations: Any, actions: Any, terminated: bool = True, **more: Any) -> dict[str, Any]:
    last = [False] * (steps - 1)
    return {
        "observations": observations,
        "actions": actions,
        "rewards": [float(step) for step in range(steps)],
        "terminations": [*last, terminated],
        "truncations": [*last, not terminated],
        **more,
    }


LINE, TWO = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)


def line(count: int) -> Any:
    return np.arange(count, dtype=np.float32)[:, None]


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("written", [logs(), logs(full=False), logs(**NAMED), logs().with_propensities(None)], ids=str)
def test_what_is_written_is_read_back(data_format: str, written: poela.Trajectories) -> None:
    poela.to_minari(written, "clinic/visits-v0", data_format=data_format)
    read = poela.from_minari("clinic/visits-v0")
    for field in FIELDS:
        ours, theirs = getattr(written, field), getattr(read, field)
        assert np.array_equal(ours, theirs) if ours is not None else theirs is None, field
    for field in ("feature_names", "action_names", "estimated"):
        assert getattr(read, field) == getattr(written, field)


def test_minari_finds_what_it_wants() -> None:
    ours = logs()
    dataset = poela.to_minari(ours, "visits-v3", terminated=[True, False, True], data_format="arrow", author="me")
    assert minari.load_dataset("visits-v3").storage.metadata["author"] == {"me"}
    assert (dataset.total_episodes, dataset.total_steps) == (3, 6)
    assert dataset.action_space == spaces.Discrete(3)
    assert dataset.observation_space.shape == (2,)
    first, second, _ = dataset.iterate_episodes()
    assert np.array_equal(first.observations, ours.contexts[[0, 1, 2, 2]])  # one more than steps
    assert first.terminations.tolist() == [False, False, True]
    assert (second.terminations.tolist(), second.truncations.tolist()) == ([False], [True])
    assert np.array_equal(first.infos["propensities"][1:], ours.propensities[:3])  # type: ignore[index]


def test_chosen_episodes_keep_their_names() -> None:
    dataset = poela.to_minari(logs(**NAMED), "visits-v0", data_format="arrow")
    chosen = poela.from_minari(dataset.filter_episodes(lambda episode: len(episode) != 1))
    assert np.array_equal(chosen.episode_ids, ["c", "b"])
    assert chosen.n_units == 1


def test_datasets_of_others_are_read() -> None:
    square = spaces.Box(0, 1, (2, 2), np.float32)
    pictures = np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 12
    dataset = made("squares-v0", square, spaces.Discrete(3, start=5), episode(2, pictures, np.array([7, 5])))
    read = poela.from_minari(dataset)
    assert np.array_equal(read.contexts, pictures[:2].reshape(2, 4))
    assert (read.actions.tolist(), read.action_names) == ([2, 0], (5, 6, 7))
    assert (read.rewards.tolist(), read.propensities) == ([0.0, 1.0], None)


def test_discrete_observations_become_a_feature_each() -> None:
    dataset = made("states-v0", spaces.Discrete(3, start=1), TWO, episode(2, np.array([3, 1, 2]), np.array([0, 1])))
    assert poela.from_minari(dataset).contexts.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "recorded",
    [[1.0, 0.25, 0.5], [float("nan"), 0.25, 0.5], [0.25, 0.5, float("nan")]],
    ids=["of the reset first", "nothing for the reset", "nothing at the end"],
)
def test_propensities_of_others_belong_to_their_steps(recorded: list[float]) -> None:
    dataset = made("p-v0", LINE, TWO, episode(2, line(3), np.array([0, 1]), infos={"propensity": recorded}))
    assert poela.from_minari(dataset).propensities.tolist() == [0.25, 0.5]


def test_cut_episodes_are_told() -> None:
    dataset = made(
        "cut-v0",
        LINE,
        TWO,
        episode(1, line(2), np.array([0])),
        episode(1, line(2), np.array([1]), terminated=False),
    )
    with pytest.warns(PoelaWarning, match="1 of 2 episodes were cut before their end"):
        poela.from_minari(dataset)


@pytest.mark.parametrize(
    ("observation", "action", "words"),
    [
        (LINE, spaces.MultiDiscrete([2, 2]), "of the kind MultiDiscrete"),
        (spaces.Dict({"a": LINE}), TWO, "of the kind Dict"),
        (spaces.Box(0, 1, (200, 200), np.float32), TWO, "40,000 numbers"),
    ],
)
def test_spaces_that_cannot_be_read(observation: Any, action: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        poela.from_minari(made("odd-v0", observation, action))


@pytest.mark.parametrize("data_format", ["arrow", "hdf5"])
def test_real_valued_actions_there_and_back(data_format: str) -> None:
    pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    ours = Trajectories(
        rng.normal(size=(5, 2)),
        rng.normal(size=(5, 3)),
        rng.normal(size=5),
        [0, 3, 5],
        log_densities=rng.normal(size=5),
        feature_names=["age", "sofa"],
        action_names=["dose", "rate", "flow"],
        clusters=[0, 0],
    )
    dataset = poela.to_minari(ours, "doses-v0", data_format=data_format)
    assert dataset.action_space.shape == (3,)
    read = poela.from_minari("doses-v0")
    assert read.action_space == Box(ours.action_names)
    for name in ("contexts", "actions", "rewards", "offsets", "log_densities"):
        np.testing.assert_array_equal(getattr(read, name), getattr(ours, name))
    assert (read.feature_names, read.action_names, read.n_units) == (ours.feature_names, ours.action_names, 1)


def test_real_valued_actions_of_others() -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    steps = np.array([[0.5, 1.0], [-0.5, 0.0]], np.float32)
    read = poela.from_minari(made("box-v0", LINE, box, episode(2, line(3), steps)))
    assert (read.actions.tolist(), read.log_densities) == (steps.tolist(), None)
    assert read.action_names == ("action_0", "action_1")


def test_datasets_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match="minari download"):
        poela.from_minari("mujoco/hopper/expert-v0")
    with pytest.raises(InputError, match="no Minari dataset 'nonsense'"):
        poela.from_minari("nonsense")
    with pytest.raises(InputError, match="takes a Minari dataset or the id"):
        poela.from_minari(3)
    with pytest.raises(InputError, match="the dataset is empty"):
        poela.from_minari(made("empty-v0", LINE, TWO))
    partly = made(
        "partly-v0",
        LINE,
        TWO,
        episode(1, line(2), np.array([0]), infos={"propensity": [0.5, 0.5]}),
        episode(1, line(2), np.array([1])),
    )
    with pytest.raises(InputError, match="1 logged propensities lie outside"):
        poela.from_minari(partly)


def test_propensities_of_some_episodes_only() -> None:
    class Dataset:
        observation_space, action_space = LINE, TWO

        def iterate_episodes(self) -> list[Any]:
            infos: list[dict[str, Any]] = [{"propensity": [0.5]}, {}]
            given = [{**episode(1, line(2), np.array([0])), "infos": own, "id": 0} for own in infos]
            return [minari.EpisodeData(**arguments) for arguments in given]

    with pytest.raises(InputError, match="1 of 2 episodes have propensities"):
        poela.from_minari(Dataset())


def test_notes_that_somebody_changed() -> None:
    dataset = poela.to_minari(logs(**NAMED), "visits-v0", data_format="arrow")
    dataset.storage.update_metadata({"poela": {"features": 3}})
    with pytest.raises(InputError, match="'poela' in the metadata"):
        poela.from_minari(dataset)
    dataset.storage.update_metadata({"poela": None})
    assert poela.from_minari(dataset).feature_names == ("x0", "x1")


def test_ids_that_cannot_be_written() -> None:
    poela.to_minari(logs(), "visits-v0", data_format="arrow")
    with pytest.raises(InputError, match="already: choose another"):
        poela.to_minari(logs(), "visits-v0")
    for name in ("visits", "../visits-v0", "hf://somebody/visits-v0"):
        with pytest.raises(InputError, match="write it as group/name-v0"):
            poela.to_minari(logs(), name)
    with pytest.raises(InputError, match="terminated must be"):
        poela.to_minari(logs(), "other-v0", terminated=[True])


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(PoelaError, match="Minari is not installed: pip install"):
        poela.from_minari("visits-v0")
