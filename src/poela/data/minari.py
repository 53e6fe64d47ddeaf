"""Minari datasets: read into logs, and written from them, with propensities or log densities in the infos of steps."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.core.registry import how_to_install
from poela.core.typed import from_plain, to_plain
from poela.data.action_space import DENSITY, PROPENSITY
from poela.data.mdp_arrays import array_of, ended_of
from poela.data.minari_files import damaged, refuse_odd_files
from poela.data.trajectories import Trajectories
from poela.data.words import counted

EVERY = "propensities"  # of every action
NOTES = "poela"  # what Minari has no place for: names, clusters, whether propensities are estimates
# What Minari and the libraries under it raise on files that are damaged or made up.
ODD_VALUES = (AssertionError, AttributeError, LookupError, OverflowError, TypeError, ValueError)
UNREADABLE = (*ODD_VALUES, MemoryError, OSError, RuntimeError)
MOST_FEATURES = 10_000  # more is an image, from which features should be made first


def from_minari(dataset: Any) -> Any:
    """Logs from a Minari dataset, or from the id of one that is on this machine.

    Actions are one discrete choice, or a Box of numbers. Observations are flattened, discrete ones become one feature
    for each value. Each episode's last observation, after which nothing was decided,
    is left out. Where the infos have `propensity` (of the logged action), `propensities` (of every action) or
    `log_density`, these are read: one for each step, or one more, the first of which belongs to the reset. How many
    episodes were cut (truncated) before their end is said in a warning.
    """
    try:
        return _read(_opened(dataset) if isinstance(dataset, str) else _checked(dataset))
    except PoelaError:
        raise
    except UNREADABLE as error:
        raise damaged(error) from None


def _read(opened: Any) -> Any:
    spaces: Any = (getattr(opened, "observation_space", None), getattr(opened, "action_space", None))
    if any(space is None for space in spaces) or not hasattr(opened, "iterate_episodes"):
        raise InputError("from_minari takes a Minari dataset or the id of one")
    real = type(spaces[1]).__name__ == "Box"
    start, n_actions = (0, int(np.prod(spaces[1].shape))) if real else _actions_of(spaces[1])
    width = _width_of(spaces[0])
    episodes = list(opened.iterate_episodes())
    empty = sum(len(episode) == 0 for episode in episodes)
    if empty or not episodes:
        what = f"{counted(empty, 'episode')} of {len(episodes)} have no steps" if episodes else "the dataset is empty"
        raise InputError(f"{what}: keep others with dataset.filter_episodes(lambda episode: len(episode) > 0)")
    for number, episode in enumerate(episodes):
        _refuse_odd(episode, number)
    _tell_cut(episodes)
    lengths = np.array([len(episode) for episode in episodes])
    contexts = np.concatenate([_contexts(spaces[0], width, episode) for episode in episodes])
    rewards = np.concatenate([np.asarray(episode.rewards, np.float64) for episode in episodes])
    offsets = np.append(0, np.cumsum(lengths))
    known = _propensities(episodes, (DENSITY,) if real else (EVERY, PROPENSITY))
    names = _names(opened, episodes, None if real else range(start, start + n_actions))
    if real:
        acted = [np.asarray(episode.actions, np.float64).reshape(len(episode), n_actions) for episode in episodes]
        return Trajectories(contexts, np.concatenate(acted), rewards, offsets, log_densities=known, **names)
    taken = np.concatenate([_choices("actions", episode.actions, start, n_actions) for episode in episodes])
    return Trajectories(contexts, taken, rewards, offsets, propensities=known, **names)


def to_minari(
    logs: Trajectories, dataset_id: str, *, terminated: ArrayLike = True, data_format: str | None = None, **details: Any
) -> Any:
    """Write the logs as a new local Minari dataset, and return it.

    Propensities are kept in the infos of steps, as `propensity`, `propensities` or `log_density`; names, clusters and
    episode ids in the dataset's metadata, where `from_minari` finds them. Minari wants an observation after each
    episode's last step, which logs do not have: the last context stands there again. `terminated` says whether episodes
    ended by themselves, for all or for each; others count as truncated. `data_format` is "hdf5" (the default where h5py
    is installed) or "arrow" (slow to write beyond some hundred episodes); `details` are those of
    `minari.create_dataset_from_buffers`: author, description, ….
    """
    minari = _minari()
    from gymnasium.spaces import Box
    from minari.data_collector.episode_buffer import EpisodeBuffer

    _refuse_id(dataset_id)
    ended = ended_of(terminated, logs.n_episodes)
    buffers = []
    for number, (start, stop) in enumerate(zip(logs.offsets[:-1], logs.offsets[1:], strict=True)):
        last = np.arange(start, stop) == stop - 1
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=np.concatenate([logs.contexts[start:stop], logs.contexts[stop - 1 : stop]]),
                actions=logs.actions[start:stop],
                rewards=logs.rewards[start:stop].tolist(),
                terminations=(last & ended[number]).tolist(),
                truncations=(last & ~ended[number]).tolist(),
                infos=_infos(logs, start, stop),
            )
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # that nobody said who made the logs, and how
        written = minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            observation_space=Box(-np.inf, np.inf, (logs.n_features,), np.float32),
            action_space=logs.action_space.gymnasium(),
            data_format=data_format or ("arrow" if find_spec("h5py") is None else "hdf5"),
            **details,
        )
    written.storage.update_metadata({NOTES: to_plain(_notes(logs))})
    return written


def _minari() -> Any:
    try:
        import minari
    except ImportError:
        raise PoelaError(f"Minari is not installed: {how_to_install('minari')}") from None
    return minari


def _opened(dataset_id: str) -> Any:
    minari = _minari()
    from minari.storage.datasets_root_dir import get_dataset_path

    folder = get_dataset_path(dataset_id) / "data"
    try:
        there = folder.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        there = False
    if not there:
        raise InputError(
            f"there is no Minari dataset {dataset_id!r} on this machine: list those that are with minari list local, "
            "and fetch others with minari download"
        )
    refuse_odd_files(folder)
    try:
        return minari.load_dataset(dataset_id)
    except ImportError as error:
        raise PoelaError(f"the dataset {dataset_id!r} cannot be read: {error}") from None


def _checked(dataset: Any) -> Any:
    """One that was opened already; its episodes are still in its files."""
    folder = getattr(getattr(dataset, "storage", None), "data_path", None)
    if isinstance(folder, Path):
        refuse_odd_files(folder, opened=True)
    return dataset


def _refuse_id(dataset_id: str) -> None:
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        raise InputError(f"{dataset_id!r} is no id of a Minari dataset: write it as group/name-v0") from None
    if get_dataset_path(dataset_id).exists():
        raise InputError(f"there is a Minari dataset {dataset_id!r} already: choose another name or version")


def _actions_of(space: Any) -> tuple[int, int]:
    """The first of the discrete actions, and how many there are."""
    kind = type(space).__name__
    if kind != "Discrete":
        raise InputError(
            f"the actions are of the kind {kind}: only one discrete choice, or a Box of numbers, at each step can be "
            "read; number or flatten them first"
        )
    return int(space.start), int(space.n)


def _width_of(space: Any) -> int:
    kind = type(space).__name__
    if kind not in ("Box", "MultiBinary", "Discrete"):
        raise InputError(
            f"the observations are of the kind {kind}: only flat numbers (Box, MultiBinary or Discrete) can be read; "
            "flatten them first, as gymnasium.wrappers.FlattenObservation does"
        )
    width = int(space.n) if kind == "Discrete" else int(np.prod(space.shape))
    if width > MOST_FEATURES:
        raise InputError(
            f"an observation is {width:,} numbers: at most {MOST_FEATURES:,} features can be read; make features first"
        )
    return width


def _contexts(space: Any, width: int, episode: Any) -> NDArray[Any]:
    """[T, d], without the observation after the last step."""
    seen = np.asarray(episode.observations)[: len(episode)]
    if type(space).__name__ == "Discrete":
        return np.eye(width, dtype=np.float32)[_choices("observations", seen, int(space.start), width)]
    return seen.reshape(len(seen), width)


def _choices(name: str, values: Any, start: int, count: int) -> IntArray:
    """Discrete values, counted from 0; refuses what is none of them."""
    numbers = np.asarray(values).reshape(-1)
    odd = ~np.isin(numbers, np.arange(start, start + count))
    if odd.any():
        raise InputError(
            f"{counted(int(odd.sum()), 'value')} among the {name} of an episode lie outside the {count} that the space "
            "has: correct them, or drop those episodes"
        )
    return np.asarray(numbers.astype(np.int64) - start)


def _refuse_odd(episode: Any, number: int) -> None:
    """Refuse what is no number, or not one for each step."""
    steps = len(episode)
    for name in ("observations", "actions", "rewards", "terminations"):
        most = steps + 1 if name == "observations" else steps
        array = array_of(f"{name} of episode {number}", getattr(episode, name))
        if array.dtype.kind not in "biuf" or array.ndim == 0 or not steps <= len(array) <= most:
            raise InputError(
                f"{name} of episode {number} are not numbers, one for each of its {counted(steps, 'step')}: record "
                "them again, or drop that episode"
            )


def _tell_cut(episodes: list[Any]) -> None:
    cut = sum(not bool(np.asarray(episode.terminations)[-1]) for episode in episodes)
    if cut:
        warnings.warn(
            f"{cut} of {counted(len(episodes), 'episode')} were cut before their end (truncated): what would have come "
            "after is not in their returns",
            PoelaWarning,
            stacklevel=3,
        )


def _propensities(episodes: list[Any], keys: tuple[str, ...]) -> FloatArray | None:
    each = [_of_episode(episode, keys) for episode in episodes]
    having = [values for values in each if values is not None]
    if not having:
        return None
    if len(having) < len(each) or len({values.shape[1:] for values in having}) > 1:
        raise InputError(
            f"{len(having)} of {counted(len(each), 'episode')} have propensities in their infos, or these differ in "
            "shape: record them for every step in the same way"
        )
    return np.concatenate(having)


def _of_episode(episode: Any, keys: tuple[str, ...]) -> FloatArray | None:
    """The propensities of an episode's steps: [T, A] of every action, or [T] of the logged one."""
    infos = episode.infos if isinstance(episode.infos, Mapping) else {}
    key = next((name for name in keys if name in infos), None)
    if key is None:
        return None
    values = array_of(key, infos[key]).astype(np.float64)
    values = values.reshape(len(values), -1) if key == EVERY else values.reshape(-1)
    steps = len(episode)
    if len(values) == steps:
        return values
    if len(values) != steps + 1:
        raise InputError(
            f"infos have {len(values)} entries of {key!r} for an episode of {counted(steps, 'step')}: there must be "
            "one for each step, or one more for the reset"
        )
    padded_last = bool(np.isnan(values[-1]).all() and not np.isnan(values[0]).any())
    return values[:-1] if padded_last else values[1:]


def _infos(logs: Trajectories, start: int, stop: int) -> dict[str, Any] | None:
    """Propensities after a NaN that belongs to the reset."""
    if logs.logging_probabilities is None:
        return None
    rows = logs.logging_probabilities[start:stop]
    values = np.concatenate([np.full((1, *rows.shape[1:]), np.nan), rows])
    # Minari cannot read flat arrays in the infos of its Arrow files, but lists of numbers.
    return {logs.action_space.logged_column: values.tolist()} if values.ndim == 1 else {EVERY: values}


@dataclass(frozen=True)
class _Notes:
    """What Minari has no place for."""

    features: tuple[str, ...]
    actions: tuple[str, ...] | tuple[int, ...] | tuple[bool, ...]
    episodes: tuple[str, ...] | tuple[int, ...]
    clusters: tuple[int, ...] | None
    estimated: bool


def _notes(logs: Trajectories) -> _Notes:
    ids = np.asarray(logs.episode_ids)
    return _Notes(
        features=logs.feature_names,
        actions=logs.action_names,  # type: ignore[arg-type]
        episodes=tuple(ids.tolist() if ids.dtype.kind in "iu" else map(str, ids)),
        clusters=None if logs.clusters is None else tuple(logs.clusters.tolist()),
        estimated=logs.estimated,
    )


def _names(dataset: Any, episodes: list[Any], actions: range | None) -> dict[str, Any]:
    """What `to_minari` noted or, where there is nothing or episodes were added since, names of our own."""
    numbers = [int(episode.id) for episode in episodes]
    document = dataset.storage.metadata.get(NOTES)
    notes = None if document is None else from_plain(_Notes, document, f"{NOTES!r} in the metadata of the dataset")
    total = dataset.storage.total_episodes
    if notes is None or {len(notes.episodes), len(notes.clusters or notes.episodes)} != {total}:
        return {"action_names": actions, "episode_ids": numbers}
    return {
        "feature_names": notes.features,
        "action_names": notes.actions,
        "episode_ids": [notes.episodes[number] for number in numbers],
        "clusters": None if notes.clusters is None else [notes.clusters[number] for number in numbers],
        "estimated": notes.estimated,
    }
