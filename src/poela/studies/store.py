"""A study on disk: plain files, each written whole or not at all, by one process at a time.

    study.json           what the study is: settings, seed, hash of the data, features and actions
    runs/ID.json         one finished run: settings, seed, versions, wall time, metrics of every checkpoint
    runs/ID.safetensors  the policies of its checkpoints
    shared/HASH.safetensors  arrays that many policies share, such as the logged contexts of a radius rule
    behavior/, propensities/   the estimated logging policy, where the logs carry no propensities or it is kept
    choice.json, table.parquet, policy/, looks.json   what came of it

A run is finished when its JSON file stands; that file is written last.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError, PoelaError
from poela.core.storage import Stored, atomic_file, read_json, write_json

FILE_FORMAT = "poela-study"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class PackedPolicies:
    """The policies of one run as bytes: their own arrays, and the shared ones by content."""

    own: bytes  # safetensors; its metadata describe the policies
    shared: Mapping[str, bytes]  # safetensors by the hash of their bytes


def packed(policies: Sequence[Stored]) -> PackedPolicies:
    """Policies as bytes. Arrays of parts (such as a rule's logged contexts) are set apart, to be stored once."""
    from safetensors.numpy import save

    own: dict[str, NDArray[Any]] = {}
    shared: dict[str, bytes] = {}
    documents = [_pack(policy, own, shared) for policy in policies]
    # safetensors needs one array at least.
    return PackedPolicies(save(own or {"none": np.zeros(1)}, {"policies": json.dumps(documents)}), shared)


def _pack(stored: Stored, own: dict[str, NDArray[Any]], shared: dict[str, bytes]) -> dict[str, Any]:
    arrays = {}
    for name, array in stored.arrays.items():
        contiguous = np.ascontiguousarray(array)
        key = _sha256(contiguous.tobytes() + repr((contiguous.dtype.str, contiguous.shape)).encode())
        own[key] = contiguous
        arrays[name] = key
    parts = {name: _pack_part(part, shared) for name, part in stored.parts.items()}
    return {"kind": stored.kind, "settings": dict(stored.settings), "arrays": arrays, "parts": parts}


def _pack_part(part: Stored, shared: dict[str, bytes]) -> dict[str, Any]:
    from safetensors.numpy import save

    where = None
    if part.arrays:
        content = save({name: np.ascontiguousarray(array) for name, array in sorted(part.arrays.items())})
        where = _sha256(content)
        shared[where] = content
    parts = {name: _pack_part(inner, shared) for name, inner in part.parts.items()}
    return {"kind": part.kind, "settings": dict(part.settings), "shared": where, "parts": parts}


class Store:
    """The files of one study."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"

    @property
    def exists(self) -> bool:
        """Whether a study is here."""
        return (self.directory / "study.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works on a study at a time; the lock vanishes with the process that holds it."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise PoelaError(f"{self.directory} cannot be written: {error.strerror}; choose another place") from None
        try:
            if not _take(handle):
                raise PoelaError(
                    f"{self.directory} is in use by another process: wait for it, or choose another directory"
                )
            self._sweep()
            yield
        finally:
            os.close(handle)

    def _sweep(self) -> None:
        """Remove what a killed process left half-written; such names start with a dot."""
        for folder in (self.directory, self.directory / "runs", self.directory / "shared"):
            for path in folder.glob(".*"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name != ".lock":
                    path.unlink(missing_ok=True)

    def write_document(self, document: Mapping[str, Any]) -> None:
        """Write `study.json`."""
        write_json(self.directory / "study.json", {"format": FILE_FORMAT, "format_version": FORMAT_VERSION, **document})

    def document(self) -> dict[str, Any]:
        """Read `study.json`."""
        if not self.exists:
            raise InputError(f"{self.directory} holds no study (no study.json): make one with poela learn")
        document = read_json(self.directory / "study.json")
        if not isinstance(document, dict) or document.get("format") != FILE_FORMAT:
            raise InputError(f"{self.directory}/study.json does not describe a study: its format field is different")
        if document.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{self.directory} has format version {document.get('format_version')!r}; "
                f"this poela reads version {FORMAT_VERSION}"
            )
        return document

    def write_run(self, run_id: str, record: Mapping[str, Any], policies: PackedPolicies | None) -> None:
        """Write a finished run; its JSON file comes last, and makes it finished."""
        checksum = None
        if policies is not None:
            for key, content in policies.shared.items():
                path = self._shared_path(key)
                if not path.exists():
                    _write_bytes(path, content)
            _write_bytes(self.directory / "runs" / f"{run_id}.safetensors", policies.own)
            checksum = _sha256(policies.own)
        write_json(self.directory / "runs" / f"{run_id}.json", {**record, "policies_sha256": checksum})

    def finished_runs(self) -> dict[str, dict[str, Any]]:
        """The records of all finished runs, by their ids."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.directory / "runs"))
        except FileNotFoundError:
            return {}
        runs = [name for name in names if name.endswith(".json") and not name.startswith(".")]
        return {name.removesuffix(".json"): read_json(self.directory / "runs" / name) for name in runs}

    def policy(self, run_id: str, number: int) -> Stored:
        """The stored policy of a run's checkpoint, after checking its bytes."""
        from safetensors import safe_open

        path = self.directory / "runs" / f"{run_id}.safetensors"
        record = read_json(path.with_suffix(".json"))
        if record.get("policies_sha256") != _sha256(_read_bytes(path)):
            raise InputError(f"{path} is damaged or was changed: its checksum does not match")
        with safe_open(path, framework="numpy") as file:
            document = json.loads(file.metadata()["policies"])[number]
            arrays = {name: file.get_tensor(key) for name, key in document["arrays"].items()}
        parts = {name: self._part(part) for name, part in document["parts"].items()}
        return Stored(document["kind"], document["settings"], arrays, parts)

    def _part(self, document: Mapping[str, Any]) -> Stored:
        from safetensors.numpy import load

        arrays: dict[str, NDArray[Any]] = {}
        if document["shared"] is not None:
            path = self._shared_path(document["shared"])
            content = _read_bytes(path)
            if _sha256(content) != document["shared"]:
                raise InputError(f"{path} is damaged or was changed: its checksum does not match")
            arrays = load(content)
        parts = {name: self._part(inner) for name, inner in document["parts"].items()}
        return Stored(document["kind"], document["settings"], arrays, parts)

    def _shared_path(self, key: str) -> Path:
        return self.directory / "shared" / f"{key}.safetensors"


def _take(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write_bytes(path: Path, content: bytes) -> None:
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
