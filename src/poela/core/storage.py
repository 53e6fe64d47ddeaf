"""Safe files: JSON and safetensors, checksums, atomic writes. Nothing here can execute what it reads."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError, PoelaError
from poela.core.reading import LARGEST_ARRAYS, LARGEST_JSON, parsed_json, regular_bytes, unpacked_arrays

DEEPEST_PART = 20


@dataclass(frozen=True)
class Stored:
    """A saved object: its kind, plain settings, arrays, and the parts that it is made of."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    parts: Mapping[str, "Stored"] = field(default_factory=dict)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends well, and vanishes otherwise."""
    path = Path(path)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """A temporary directory that takes the place of `path` when the block ends well."""
    path = Path(path)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if path.exists():
                retired = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
                path.replace(retired / "old")
                temporary.replace(path)
                shutil.rmtree(retired)
            else:
                temporary.replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path, document: Any) -> None:
    """Write one JSON document, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read one JSON document; a damaged file gets one clear sentence."""
    path = Path(path)
    with _explained_reading(path):
        return parsed_json(regular_bytes(path, LARGEST_JSON, links=True))


def save_stored(directory: Path, stored: Stored, *, file_format: str, version: int, notes: Mapping[str, Any]) -> None:
    """Write a stored object as a directory of `NAME.json` and `arrays.safetensors`, with checksums."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    body = {
        "format": file_format,
        "format_version": version,
        **notes,
        "object": _flatten(stored, "", arrays),
    }
    packed = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with atomic_directory(directory) as temporary:
        (temporary / "arrays.safetensors").write_bytes(packed)
        checksums = {"arrays.safetensors": _sha256(packed), "document": _sha256(_canonical(body))}
        document = json.dumps({**body, "checksums": checksums}, indent=2, allow_nan=False)
        (temporary / f"{file_format}.json").write_text(document + "\n", encoding="utf-8")


def load_stored(directory: Path, *, file_format: str, version: int) -> tuple[Stored, dict[str, Any]]:
    """Read what `save_stored` wrote, after checking files, format, version and checksums.

    What the settings and arrays mean is for the kinds of objects to check (`poela.core.validation`).
    """
    directory = Path(directory)
    text, arrays = directory / f"{file_format}.json", directory / "arrays.safetensors"
    with _explained_reading(text):
        document = parsed_json(regular_bytes(text, LARGEST_JSON))
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise InputError(f"{directory} holds no {file_format}: the format field is missing or different")
    found = document.get("format_version")
    if found != version or type(found) is not int:
        raise InputError(f"{directory} has format version {repr(found)[:40]}; this poela reads version {version}")
    checksums = document.pop("checksums", None)
    with _explained_reading(text):
        canonical = _canonical(document)
    with _explained_reading(arrays):
        packed = regular_bytes(arrays, LARGEST_ARRAYS)
    for path, name, content in ((arrays, arrays.name, packed), (text, "document", canonical)):
        if not isinstance(checksums, dict) or checksums.get(name) != _sha256(content):
            raise InputError(f"{path} is damaged or was changed: its checksum does not match; save it again")
    with _explained_reading(arrays):
        unpacked = unpacked_arrays(packed)
    try:
        stored = _unflatten(document.get("object"), unpacked)
        if unpacked:
            raise ValueError(f"the array {min(unpacked)[:40]!r} belongs to nothing")
    except ValueError as error:
        raise InputError(f"{directory} is not a complete {file_format}: {error}") from None
    return stored, document


def _flatten(stored: Stored, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    arrays.update({f"{prefix}{name}": array for name, array in stored.arrays.items()})
    return {
        "kind": stored.kind,
        "settings": dict(stored.settings),
        "arrays": sorted(stored.arrays),
        "parts": {name: _flatten(part, f"{prefix}{name}.", arrays) for name, part in stored.parts.items()},
    }


def _unflatten(document: Any, arrays: dict[str, NDArray[Any]], prefix: str = "", depth: int = 0) -> Stored:
    """The inverse of `_flatten`; takes its arrays out of `arrays`."""
    types = {"kind": str, "settings": dict, "arrays": list, "parts": dict}
    if not isinstance(document, dict) or document.keys() != types.keys():
        raise ValueError("an object must have exactly the fields kind, settings, arrays and parts")
    wrong = [name for name, expected in types.items() if not isinstance(document[name], expected)]
    if wrong:
        raise ValueError(f"the field {wrong[0]} is of another type than expected")
    if depth > DEEPEST_PART:
        raise ValueError(f"parts are nested more than {DEEPEST_PART} deep")
    own = {_plain_name(name): arrays.pop(f"{prefix}{name}", None) for name in document["arrays"]}
    missing = [name for name, array in own.items() if array is None]
    if missing or len(own) < len(document["arrays"]):
        raise ValueError(f"the array {missing[0][:40]!r} is missing" if missing else "an array is named twice")
    parts = document["parts"].items()
    return Stored(
        kind=document["kind"],
        settings=document["settings"],
        arrays={name: array for name, array in own.items() if array is not None},
        parts={_plain_name(name): _unflatten(part, arrays, f"{prefix}{name}.", depth + 1) for name, part in parts},
    )


def _plain_name(name: Any) -> str:
    if not isinstance(name, str) or not name or set(name) & set("/\\\0"):
        raise ValueError(f"{repr(name)[:40]} is no name of an array or part")
    return name


def _canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PoelaError(
            f"{path} cannot be written: {error.strerror or error}; free space or choose another place"
        ) from None


@contextmanager
def _explained_reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path} cannot be read: it does not exist") from None
    except RecursionError:
        raise InputError(f"{path} cannot be read: it is nested too deeply") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise InputError(f"{path} cannot be read: {str(error) or 'it is too large'}") from None
