"""A study on disk: plain files, each written whole or not at all, by one process at a time, for its owner alone.

    .poela-study         marks the folder as a study's; locked by whoever works on it
    study.json           what the study is: settings, seed, hash of the data, features and actions
    runs/ID.json         one finished run: settings, seed, versions, wall time, metrics of every checkpoint; ID ends in
                         the fold that was held out, or beyond the last fold in the number of a pair of folds
    runs/ID.safetensors  the policies of its checkpoints, and their weights on the episodes held out from them
    shared/HASH.safetensors  arrays that many policies share, such as the logged contexts of a radius rule
    episodes/            hashes of the episodes that learn and choose
    behavior/, propensities/   the estimated logging policy, where the logs carry no propensities or it is kept
    folds/               the same for each fold
    choice.json, table.parquet, policy/, promising/, looks.json   what came of it

A run is finished when its JSON file stands; that file is written last. Every document has a checksum, and what came of
the study names the checksums of the runs that it rests on.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError, PoelaError
from poela.core.files import make_private, refuse_foreign, remove_file, sha256, unwritable, write_bytes
from poela.core.locks import take
from poela.core.paths import is_there, kind_of, place
from poela.core.records import read_record, write_record
from poela.core.storage import Stored, read_bytes
from poela.core.temporary import sweep
from poela.studies.held_out import HELD_OUT, HeldOut
from poela.studies.records import ChoiceRecord, EvaluationsRecord, RunRecord, StudyRecord

MARK = ".poela-study"
SCRATCH = ".scratch"  # what workers are given, while they work
FOLDERS = ("runs", "shared", "episodes", "behavior", "propensities", "policy", "promising", "folds", SCRATCH)
FORMATS: dict[type, tuple[str, str]] = {
    StudyRecord: ("poela-study", "study.json"),
    ChoiceRecord: ("poela-choice", "choice.json"),
    EvaluationsRecord: ("poela-looks", "looks.json"),
}
RUN_FORMAT = "poela-run"
FORMAT_VERSION = 3
DEEPEST = 20  # parts within parts of a policy

T = TypeVar("T")
_Version = tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class PackedPolicies:
    """The policies of one run as bytes: their own arrays, and the shared ones by content."""

    own: bytes  # safetensors; its metadata describe the policies
    shared: Mapping[str, bytes]  # safetensors by the hash of their bytes


def packed(policies: Sequence[Stored], beside: Mapping[str, NDArray[Any]] | None = None) -> PackedPolicies:
    """Policies as bytes, with further arrays beside them.

    Arrays of parts (such as a rule's logged contexts) are set apart, to be stored once.
    """
    from safetensors.numpy import save

    own: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(array) for name, array in (beside or {}).items()}
    shared: dict[str, bytes] = {}
    documents = [_pack(policy, own, shared) for policy in policies]
    # safetensors needs one array at least.
    return PackedPolicies(save(own or {"none": np.zeros(1)}, {"policies": json.dumps(documents)}), shared)


def _pack(stored: Stored, own: dict[str, NDArray[Any]], shared: dict[str, bytes]) -> dict[str, Any]:
    arrays = {}
    for name, array in stored.arrays.items():
        contiguous = np.ascontiguousarray(array)
        key = sha256(contiguous.tobytes() + repr((contiguous.dtype.str, contiguous.shape)).encode())
        own[key] = contiguous
        arrays[name] = key
    parts = {name: _pack_part(part, shared) for name, part in stored.parts.items()}
    return {"kind": stored.kind, "settings": dict(stored.settings), "arrays": arrays, "parts": parts}


def _pack_part(part: Stored, shared: dict[str, bytes]) -> dict[str, Any]:
    from safetensors.numpy import save

    where = None
    if part.arrays:
        content = save({name: np.ascontiguousarray(array) for name, array in sorted(part.arrays.items())})
        where = sha256(content)
        shared[where] = content
    parts = {name: _pack_part(inner, shared) for name, inner in part.parts.items()}
    return {"kind": part.kind, "settings": dict(part.settings), "shared": where, "parts": parts}


class Store:
    """The files of one study."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._known: dict[Path, tuple[_Version, Any]] = {}  # documents as they were written or read last

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"

    @property
    def exists(self) -> bool:
        """Whether a study is here."""
        return is_there(self.directory / "study.json")

    def refuse_foreign(self) -> None:
        """Refuse a folder that is neither empty nor a study's, or holds things in our places; touches nothing."""
        refuse_foreign(self.directory, (MARK, "study.json"), "study")
        for kind in FORMATS:
            self.read(kind)  # which refuses documents that are not ours
        for path in self._folders():
            if not stat.S_ISDIR(mode := path.lstat().st_mode):
                what = kind_of(mode) or "a file"
                raise InputError(f"{place(path)} is {what}, where a folder of this study should be: move it away")

    def _folders(self) -> list[Path]:
        return [path for name in FOLDERS if is_there(path := self.directory / name)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works on a study at a time; the lock vanishes with the process that holds it."""
        self.refuse_foreign()
        make_private(self.directory)
        for folder in (self.directory, *self._folders()):
            _refuse_unwritable(folder)
        try:
            handle = os.open(self.directory / MARK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise unwritable(self.directory, error) from None
        try:
            if not take(handle):
                raise PoelaError(
                    f"{place(self.directory)} is in use by another process: wait for it, or choose another directory"
                )
            for folder in (self.directory, self.directory / "runs", self.directory / "shared"):
                sweep(folder)
            yield
        finally:
            os.close(handle)

    def write(self, record: StudyRecord | ChoiceRecord | EvaluationsRecord) -> None:
        """Write one of the study's documents."""
        file_format, name = FORMATS[type(record)]
        self._write(self.directory / name, record, file_format)

    def read(self, kind: type[T]) -> T | None:
        """Read one of the study's documents; None where it has not been written."""
        file_format, name = FORMATS[kind]
        path = self.directory / name
        if not is_there(path):
            return None
        return self._read(kind, path, file_format)

    def _write(self, path: Path, record: Any, file_format: str) -> None:
        known = write_record(path, record, file_format=file_format, version=FORMAT_VERSION)
        self._known[path] = (_version(path), known)

    def _read(self, kind: type[T], path: Path, file_format: str) -> T:
        """A document: parsed and checked, unless it is the very file that this store wrote or read before."""
        version = _version(path)
        if version is None or path not in self._known or self._known[path][0] != version:
            record = read_record(kind, path, file_format=file_format, version=FORMAT_VERSION)
            self._known[path] = (version, record)
        known: T = self._known[path][1]
        return known

    def withdraw_choice(self) -> None:
        """Take back what came of the study, which from now on is unfinished."""
        remove_file(self.directory / FORMATS[ChoiceRecord][1])

    def record(self) -> StudyRecord:
        """What the study is."""
        record = self.read(StudyRecord)
        if record is None:
            raise InputError(f"{place(self.directory)} holds no study (no study.json): make one with poela learn")
        return record

    def write_run(self, record: RunRecord, policies: PackedPolicies | None) -> None:
        """Write a finished run; its JSON file comes last, and makes it finished."""
        run_id = record.task.run_id
        if policies is not None:
            for key, content in policies.shared.items():
                path = self._shared_path(key)
                if not path.exists():
                    write_bytes(path, content)
            write_bytes(self.directory / "runs" / f"{run_id}.safetensors", policies.own)
            record = replace(record, policies_sha256=sha256(policies.own))
        self._write(self._run_path(run_id), record, RUN_FORMAT)

    def finished_runs(self) -> dict[str, RunRecord]:
        """The records of all finished runs, by their ids."""
        runs = self.directory / "runs"
        try:
            names = sorted(os.listdir(runs))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"{place(runs)} cannot be read: {error.strerror}") from None
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json") and name[0] != "."]
        return {run_id: self._run(run_id) for run_id in ids}

    def _run(self, run_id: str) -> RunRecord:
        path = self._run_path(run_id)
        record = self._read(RunRecord, path, RUN_FORMAT)
        if record.task.run_id != run_id:
            raise InputError(f"{place(path)} is the record of another run: it was renamed or changed")
        return record

    def _run_path(self, run_id: str) -> Path:
        return self.directory / "runs" / f"{run_id}.json"

    def policy(self, run_id: str, number: int) -> Stored:
        """The stored policy of a run's checkpoint, after checking its bytes."""

        def read(file: Any) -> Stored:
            document = json.loads(file.metadata()["policies"])[number]
            arrays = {name: file.get_tensor(key) for name, key in document["arrays"].items()}
            parts = {name: self._part(part, 0) for name, part in document["parts"].items()}
            return Stored(document["kind"], document["settings"], arrays, parts)

        return self._checked_file(run_id, read)

    def held_out(self, run_id: str) -> HeldOut:
        """What the policies of a run show on held-out episodes, after checking its bytes."""

        def read(file: Any) -> HeldOut:
            there = set(file.keys())  # studies of earlier versions have no controls
            return HeldOut.of_arrays({name: file.get_tensor(name) for name in HELD_OUT if name in there})

        return self._checked_file(run_id, read)

    def _checked_file(self, run_id: str, read: Callable[[Any], T]) -> T:
        from safetensors import SafetensorError, safe_open

        path = self.directory / "runs" / f"{run_id}.safetensors"
        if self._run(run_id).policies_sha256 != sha256(read_bytes(path)):
            raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match")
        try:
            with safe_open(path, framework="numpy") as file:
                return read(file)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError, SafetensorError):
            raise InputError(f"{place(path)} does not hold the policies of a run: it was changed") from None

    def _part(self, document: Mapping[str, Any], depth: int) -> Stored:
        from safetensors.numpy import load

        if depth > DEEPEST:
            raise ValueError("parts within parts without end")
        arrays: dict[str, NDArray[Any]] = {}
        if document["shared"] is not None:
            path = self._shared_path(document["shared"])
            content = read_bytes(path)
            if sha256(content) != document["shared"]:
                raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match")
            arrays = load(content)
        parts = {name: self._part(inner, depth + 1) for name, inner in document["parts"].items()}
        return Stored(document["kind"], document["settings"], arrays, parts)

    def _shared_path(self, key: str) -> Path:
        if not re.fullmatch("[0-9a-f]{64}", key):
            raise ValueError("no checksum")
        return self.directory / "shared" / f"{key}.safetensors"


def _version(path: Path) -> _Version:
    """What changes whenever somebody writes the file; None where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refuse_unwritable(folder: Path) -> None:
    """Better now than after the first fit."""
    effective = os.access in os.supports_effective_ids
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=effective):
        raise unwritable(folder, OSError(errno.EACCES, os.strerror(errno.EACCES)))
