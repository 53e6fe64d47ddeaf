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
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


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
    """Read what `save_stored` wrote, after checking format, version and checksums."""
    from safetensors.numpy import load

    directory = Path(directory)
    document = read_json(directory / f"{file_format}.json")
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise InputError(f"{directory} holds no {file_format}: the format field is missing or different")
    if document.get("format_version") != version:
        raise InputError(
            f"{directory} has format version {document.get('format_version')!r}; this poela reads version {version}"
        )
    checksums = document.pop("checksums", {})
    try:
        packed = (directory / "arrays.safetensors").read_bytes()
    except OSError as error:
        raise InputError(f"{directory}/arrays.safetensors cannot be read: {error.strerror}") from None
    for name, content in (("arrays.safetensors", packed), ("document", _canonical(document))):
        if checksums.get(name) != _sha256(content):
            where = f"{file_format}.json" if name == "document" else name
            raise InputError(
                f"{directory}/{where} is damaged or was changed: its checksum does not match; save it again"
            )
    try:
        return _unflatten(document["object"], "", load(packed)), document
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{directory} is not a complete {file_format}: {error}") from None


def _flatten(stored: Stored, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    arrays.update({f"{prefix}{name}": array for name, array in stored.arrays.items()})
    return {
        "kind": stored.kind,
        "settings": dict(stored.settings),
        "arrays": sorted(stored.arrays),
        "parts": {name: _flatten(part, f"{prefix}{name}.", arrays) for name, part in stored.parts.items()},
    }


def _unflatten(document: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Stored:
    return Stored(
        kind=document["kind"],
        settings=document["settings"],
        arrays={name: arrays[f"{prefix}{name}"] for name in document["arrays"]},
        parts={name: _unflatten(part, f"{prefix}{name}.", arrays) for name, part in document["parts"].items()},
    )


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
