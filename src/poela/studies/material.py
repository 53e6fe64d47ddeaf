"""What every run of a study is given, as files that worker processes map into memory instead of copying."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError
from poela.core.files import atomic_file, explained, is_empty, make_private, remove_file, write_json
from poela.core.paths import is_there, place
from poela.core.policy import Policy
from poela.core.storage import load_stored, read_json, remove_stored, save_stored
from poela.core.temporary import sweep
from poela.core.typed import from_plain, to_plain
from poela.data.trajectories import Trajectories
from poela.studies.scoring import Scorer, Scoring

BEHAVIOR_FORMAT = "poela-behavior"
ROLES = ("train", "validation")
ARRAYS = ("contexts", "actions", "rewards", "offsets", "propensities")


@dataclass(frozen=True, eq=False)
class Material:
    """Training and validation logs (never the test logs), the logging policy where there is a model of it, scoring."""

    train: Trajectories
    validation: Trajectories
    behavior: Policy | None = None
    scoring: Scoring = field(default_factory=Scoring)

    @cached_property
    def scorer(self) -> Scorer:
        """Scores policies on the validation logs."""
        return Scorer(self.validation, self.scoring, self.train)


def data_hash(logs: Trajectories) -> str:
    """A hash of everything in the logs that learning or evaluation can see.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> data_hash(logs) == data_hash(logs.take([0, 1])) != data_hash(logs.take([1, 0]))
    True
    """
    digest = hashlib.sha256(json.dumps(_names(logs)).encode())
    for name, array in _arrays(logs).items():
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_material(directory: Path, material: Material) -> None:
    """Write the material as `.npy` files, a behavior model, and one JSON document, for the owner alone."""
    remove_material(directory)
    make_private(directory)
    for role in ROLES:
        for name, array in _arrays(getattr(material, role)).items():
            with atomic_file(directory / f"{role}_{name}.npy") as temporary, temporary.open("wb") as file:
                np.save(file, array)
    if material.behavior is not None:
        write_behavior(directory / "behavior", material.behavior)
    write_json(directory / "material.json", {"names": _names(material.train), "scoring": to_plain(material.scoring)})


def remove_material(directory: Path) -> None:
    """Remove what `write_material` wrote, known by its names; the folder goes if nothing else is in it."""
    if not is_there(directory):
        return
    for folder in (directory, directory / "behavior"):
        if folder.is_symlink():
            raise InputError(f"{place(folder)} is a symbolic link, where a folder of ours should be: move it away")
    for name in ("material.json", *(f"{role}_{name}.npy" for role in ROLES for name in ARRAYS)):
        remove_file(directory / name)
    remove_stored(directory / "behavior", BEHAVIOR_FORMAT)
    sweep(directory)
    if is_empty(directory):
        with explained(directory):
            directory.rmdir()


def read_material(directory: Path) -> Material:
    """The material, with arrays mapped from the files."""
    document = read_json(directory / "material.json")

    def logs(role: str) -> Trajectories:
        paths = {name: directory / f"{role}_{name}.npy" for name in ARRAYS}
        arrays = {name: np.load(path, mmap_mode="r") for name, path in paths.items() if path.exists()}
        return logs_of(arrays, document["names"])

    return Material(
        logs("train"),
        logs("validation"),
        read_behavior(directory / "behavior"),
        from_plain(Scoring, document["scoring"], "scoring"),
    )


def write_behavior(directory: Path, model: Any) -> None:
    """Write a model of the logging policy."""
    notes = {"contains_logged_contexts": bool(getattr(model, "holds_logged_contexts", False))}
    save_stored(directory, model.stored(), file_format=BEHAVIOR_FORMAT, version=1, notes=notes, overwrite=True)


def read_behavior(directory: Path) -> Any:
    """The model of the logging policy in this directory; None where there is none."""
    from poela.policies.storage import load_object

    if not is_there(directory):
        return None
    return load_object(load_stored(directory, file_format=BEHAVIOR_FORMAT, version=1)[0])


def logs_of(arrays: Mapping[str, NDArray[Any]], names: Mapping[str, Any]) -> Trajectories:
    """Logs from their arrays and names."""
    return Trajectories(
        **arrays,
        n_actions=len(names["actions"]),
        feature_names=names["features"],
        action_names=names["actions"],
    )


def _arrays(logs: Trajectories) -> dict[str, NDArray[Any]]:
    return {name: getattr(logs, name) for name in ARRAYS if getattr(logs, name) is not None}


def _names(logs: Trajectories) -> dict[str, Any]:
    return {"features": list(logs.feature_names), "actions": [_plain(name) for name in logs.action_names]}


def _plain(name: Any) -> str | int:
    return name if isinstance(name, str) else int(name)
