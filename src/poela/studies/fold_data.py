"""The folds of a study as its runs work with them: files that worker processes map into memory instead of copying."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.behavior.normal import NormalModel
from poela.core.errors import InputError
from poela.core.files import Lasting, atomic_file, explain_write_errors, is_empty, make_private, remove_file, write_json
from poela.core.paths import is_there, place
from poela.core.policy import Policy
from poela.core.storage import load_stored, read_json, remove_stored, save_stored
from poela.core.temporary import sweep
from poela.core.typed import from_plain, to_plain
from poela.data.action_space import finite_actions
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import DoseRanges
from poela.eligibility.rules import USUAL_SUPPORT
from poela.eligibility.support import tell_support
from poela.eligibility.support_model import SupportModel
from poela.evaluation.outside import LoggedSupport
from poela.evaluation.scoring import Evaluator, Scoring
from poela.studies.records import Task

BEHAVIOR_FORMAT = "poela-behavior"
MATERIAL = "material.json"  # what belongs to a fold beside its arrays
PARTS = ("train", "held_out")
ALL = "all"  # the fold that holds out nothing
RULE = "support"
SUPPORT = ("outside", "doubtful")
RANGES = "ranges"  # of amounts, of real-valued actions
ARRAYS = (
    *("contexts", "actions", "rewards", "offsets", "propensities", "log_densities", "clusters", "lost", "staying"),
    "outcomes",
)
UNHASHED = ("staying", "outcomes")  # estimated from the others; further outcomes, by which alone no policy is judged


@dataclass(frozen=True)
class ScoringPlan:
    """How the policies of a run are judged: which of them, by which estimators, and among how many episodes in all."""

    scoring: Scoring = field(default_factory=Scoring)
    estimators: tuple[str, ...] = ("wdr", "guarded")
    path: str = "ambition"
    n_episodes: int = 0  # held out in all folds together; 0: as many as here
    times: float = 1.0  # how many times the episodes of a fold teach here
    keeps_policies: bool = True  # with what they show; nobody acts by those of a pair of folds


@dataclass(frozen=True, eq=False)
class FoldData:
    """One fold: episodes to learn from, episodes to judge by (never the test logs), a model of the logging policy."""

    train: Trajectories
    held_out: Trajectories
    behavior: Policy | NormalModel | None = None
    judging: ScoringPlan = field(default_factory=ScoringPlan)
    support: LoggedSupport | None = None  # of the held-out episodes; None: nothing lies outside, or it is not looked at
    rule: SupportModel | None = None  # the support that the training episodes give, where it is known already

    def __post_init__(self) -> None:
        if self.rule is not None:
            tell_support(finite_actions(self.train, "a model of support"), USUAL_SUPPORT, self.rule)

    @cached_property
    def evaluator(self) -> Evaluator:
        """Evaluates policies on the held-out episodes; the others help to fit the model of values."""
        return Evaluator(self.held_out, self.judging.scoring, beside=self.train, support=self.support)


def data_hash(logs: Trajectories) -> str:
    """A hash of everything in the logs that learning or evaluation can see.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> data_hash(logs) == data_hash(logs.take([0, 1])) != data_hash(logs.take([1, 0]))
    True
    """
    digest = hashlib.sha256(json.dumps(_seen_names(logs)).encode())
    arrays = _arrays(logs)
    for name, array in ((name, array) for name, array in arrays.items() if name not in UNHASHED):
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_fold(directory: Path, fold: FoldData) -> None:
    """Write the fold as `.npy` files, a behavior model, and one JSON document, for the owner alone, for a while."""
    remove_fold(directory)
    make_private(directory)
    for part in PARTS:
        for name, array in _arrays(getattr(fold, part)).items():
            with atomic_file(directory / f"{part}_{name}.npy", lasting="no") as temporary, temporary.open("wb") as file:
                np.save(file, array)
    if fold.support is not None:
        kept = {name: getattr(fold.support, name) for name in SUPPORT}
        if fold.support.ranges is not None:
            kept[RANGES] = np.stack(astuple(fold.support.ranges))
        for name, array in kept.items():
            with atomic_file(directory / f"{name}.npy", lasting="no") as temporary, temporary.open("wb") as file:
                np.save(file, array)
    if fold.behavior is not None:
        write_behavior(directory / "behavior", fold.behavior, lasting="no")
    names = {part: _names(getattr(fold, part)) for part in PARTS}
    if fold.rule is not None:
        write_behavior(directory / RULE, fold.rule, lasting="no")
    exact = None if fold.support is None else fold.support.exact
    document = {"names": names, "judging": to_plain(fold.judging), "support": exact}
    write_json(directory / MATERIAL, document, lasting="no")


def remove_fold(directory: Path) -> None:
    """Remove what `write_fold` wrote, known by its names; the folder goes if nothing else is in it."""
    if not is_there(directory):
        return
    for folder in (directory, directory / "behavior", directory / RULE):
        if folder.is_symlink():
            raise InputError(f"{place(folder)} is a symbolic link, where a folder of ours should be: move it away")
    for name in (
        MATERIAL,
        *(f"{name}.npy" for name in (*SUPPORT, RANGES)),
        *(f"{part}_{name}.npy" for part in PARTS for name in ARRAYS),
    ):
        remove_file(directory / name)
    for name in ("behavior", RULE):
        remove_stored(directory / name, BEHAVIOR_FORMAT)
    sweep(directory)
    if is_empty(directory):
        with explain_write_errors(directory):
            directory.rmdir()


def read_fold(directory: Path, at_hand: Mapping[str, NDArray[Any]] | None = None) -> FoldData:
    """The fold, with arrays mapped from the files; those that are `at_hand`, by the names of their files, need none."""
    document = read_json(directory / MATERIAL)

    def array(name: str) -> NDArray[Any] | None:
        if at_hand is not None:
            return at_hand.get(f"{name}.npy")
        path = directory / f"{name}.npy"
        return np.load(path, mmap_mode="r") if path.exists() else None

    def logs(part: str) -> Trajectories:
        arrays = {name: found for name in ARRAYS if (found := array(f"{part}_{name}")) is not None}
        return logs_of(arrays, document["names"][part])

    support = None
    if document["support"] is not None:
        outside, doubtful, ranges = (array(name) for name in (*SUPPORT, RANGES))
        assert outside is not None, "a fold that is looked at for support has its arrays"
        assert doubtful is not None, "a fold that is looked at for support has its arrays"
        measured = None if ranges is None else DoseRanges(*ranges)
        support = LoggedSupport(outside, doubtful, bool(document["support"]), measured)
    return FoldData(
        logs("train"),
        logs("held_out"),
        read_behavior(directory / "behavior"),
        from_plain(ScoringPlan, document["judging"], "judging"),
        support,
        read_behavior(directory / RULE),
    )


class MadeWhenAsked(Mapping[str, FoldData]):
    """Folds of which each is made when it is asked for, and again when asked once more: together they may be large.

    >>> list(MadeWhenAsked({"5": lambda: 1 / 0}))
    ['5']
    """

    def __init__(self, makers: Mapping[str, Callable[[], FoldData]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> FoldData:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Folds:
    """Every fold in a directory, each read when it is asked for first."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._read = directory, dict[str, FoldData]()

    def of(self, task: Task) -> FoldData:
        """What a run needs."""
        name = fold_name(task)
        if name not in self._read:
            self._read[name] = read_fold(self._directory / name)
        return self._read[name]

    def forget_all_but(self, tasks: Iterable[Task]) -> None:
        """Let go of folds that none of these runs needs, with what was worked out for them."""
        needed = {fold_name(task) for task in tasks}
        self._read = {name: fold for name, fold in self._read.items() if name in needed}


def fold_name(task: Task) -> str:
    """The folder of the fold that a run needs."""
    return ALL if task.fold is None else str(task.fold)


def write_folds(directory: Path, folds: Mapping[str, FoldData]) -> None:
    """Write every fold, by its number or `ALL`, for `Folds` to read."""
    remove_folds(directory)
    make_private(directory)
    for name, fold in folds.items():
        write_fold(directory / name, fold)


def remove_folds(directory: Path) -> None:
    """Remove what `write_folds` wrote; the folder goes if nothing else is in it."""
    if not is_there(directory):
        return
    if directory.is_symlink():
        raise InputError(f"{place(directory)} is a symbolic link, where a folder of ours should be: move it away")
    with explain_write_errors(directory):
        names = os.listdir(directory)
    for name in names:
        if name.isdigit() or name == ALL:
            remove_fold(directory / name)
    sweep(directory)
    if is_empty(directory):
        with explain_write_errors(directory):
            directory.rmdir()


def write_behavior(directory: Path, model: Any, *, lasting: Lasting = "named") -> None:
    """Write a model of the logging policy."""
    notes = {"contains_logged_contexts": bool(getattr(model, "holds_logged_contexts", False))}
    form: Any = {"file_format": BEHAVIOR_FORMAT, "version": 1}
    save_stored(directory, model.stored(), **form, notes=notes, overwrite=True, lasting=lasting)


def read_behavior(directory: Path) -> Any:
    """The model of the logging policy in this directory; None where there is none."""
    from poela.policies.storage import load_object

    if not is_there(directory):
        return None
    return load_object(load_stored(directory, file_format=BEHAVIOR_FORMAT, version=1)[0])


def logs_of(arrays: Mapping[str, NDArray[Any]], names: Mapping[str, Any]) -> Trajectories:
    """Logs from their arrays and names."""
    given: Mapping[str, Any] = arrays
    named: dict[str, Any] = {
        "feature_names": names["features"],
        "action_names": names["actions"],
        "estimated": names.get("estimated", False),
        "schema": None if names.get("schema") is None else TableSchema.from_json(names["schema"]),
        "outcome_names": names.get("outcomes", ()),
    }
    return Trajectories(**given, **named)


def _arrays(logs: Trajectories) -> dict[str, NDArray[Any]]:
    return {name: getattr(logs, name) for name in ARRAYS if getattr(logs, name, None) is not None}


def _names(logs: Trajectories) -> dict[str, Any]:
    names = {"features": list(logs.feature_names), "actions": [_plain(name) for name in logs.action_names]}
    schema: dict[str, Any] = {} if logs.schema is None else {"schema": logs.schema.to_json()}
    schema |= {} if logs.outcomes is None else {"outcomes": list(logs.outcome_names)}
    # Said only where it is so: the hash of logs with known propensities stays what it was.
    return {**names, **({"estimated": True} if logs.estimated else {}), **schema}


def _seen_names(logs: Trajectories) -> dict[str, Any]:
    """What a hash is about; what columns were called before they became these features is no part of it."""
    return {name: value for name, value in _names(logs).items() if name not in ("schema", "outcomes")}


def _plain(name: Any) -> str | int:
    return name if isinstance(name, str) else int(name)
