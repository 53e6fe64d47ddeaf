"""Safe files: JSON and safetensors, checksums, atomic writes. Nothing here can execute what it reads."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.core.files import (
    Lasting,
    explain_write_errors,
    is_empty,
    make_private,
    remove_file,
    sha256,
    sync_folder,
    write_bytes,
    write_json,
)
from poela.core.paths import folder_at, place
from poela.core.reading import LARGEST_ARRAYS, LARGEST_JSON, parsed_json, regular_bytes, unpacked_arrays
from poela.core.stored import Reading, canonical, flat
from poela.core.stored import Stored as Stored
from poela.core.temporary import is_temporary, locked_folder, sweep

# Files of arrays are called by their content; those of the first version of the format have no such name.
ARRAYS = r"arrays(-[0-9a-f]{16})?\.safetensors"
WRITTEN = b"<!-- written by poela -->\n"
MOST_READINGS = 100  # of an object that is replaced again and again while it is read


def read_bytes(path: Path) -> bytes:
    """Read a file whole: a regular one, no link."""
    with explained_reading(path):
        return regular_bytes(path, LARGEST_ARRAYS)


def read_json(path: Path) -> Any:
    """Read one JSON document; a damaged file gets one clear sentence."""
    path = Path(path)
    with explained_reading(path):
        return parsed_json(regular_bytes(path, LARGEST_JSON))


def save_stored(
    directory: Path,
    stored: Stored,
    *,
    file_format: str,
    version: int,
    notes: Mapping[str, Any],
    overwrite: bool = False,
    beside: Mapping[str, bytes] | None = None,
    lasting: Lasting = "named",
) -> None:
    """Write a stored object into a folder: arrays first, then the document that names them and makes it whole.

    The folder must be empty, or hold such an object to be overwritten; that stays whole until the new one is. Texts
    `beside` it, for people, begin with `WRITTEN`; what somebody else wrote by such a name stays.
    """
    from safetensors.numpy import save

    directory = folder_at(directory, f"a {file_format}")
    refuse_foreign_stored(directory, file_format, overwrite)
    own, arrays = flat(stored)
    body = {"format": file_format, "format_version": version, **notes, "object": own}
    packed = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    # Named by its content, so that a new one never takes the place of the one that the old document names.
    name = _name_of_arrays(packed)
    checksums = {name: sha256(packed), "document": sha256(canonical(body))}
    make_private(directory)
    with explain_write_errors(directory), locked_folder(directory):
        refuse_foreign_stored(directory, file_format, overwrite)  # again: another may have been quicker
        earlier = _arrays_of(directory, file_format)
        write_bytes(directory / name, packed, lasting=lasting)
        _remove_texts(directory)  # before the document: no text may speak of another object than the one beside it
        whole: Lasting = "no" if lasting == "no" else "whole"  # their names come to last together
        write_json(directory / f"{file_format}.json", {**body, "checksums": checksums}, lasting=whole)
        for text, content in (beside or {}).items():
            if not os.path.lexists(directory / text):
                write_bytes(directory / text, content, lasting=whole)
        if lasting == "named":
            sync_folder(directory)
        for old in earlier - {name}:
            remove_file(directory / old)
        sweep(directory)


def remove_stored(directory: Path, file_format: str) -> None:
    """Remove a stored object, and its folder if nothing else is there; anything else stays."""
    if not directory.is_dir() or is_empty(directory):
        return
    refuse_foreign_stored(directory, file_format)
    with explain_write_errors(directory), locked_folder(directory):
        earlier = _arrays_of(directory, file_format)
        _remove_texts(directory)
        for name in (f"{file_format}.json", *sorted(earlier)):
            remove_file(directory / name)
        sweep(directory)
        if not os.listdir(directory):
            directory.rmdir()


def refuse_foreign_stored(directory: Path, file_format: str, overwrite: bool = True) -> None:
    """Refuse a folder that is neither empty nor holds such an object, which may be replaced; touches nothing."""
    folder_at(directory, f"a {file_format}")
    if is_empty(directory):
        return
    files = [directory / name for name in os.listdir(directory)]  # before the document, which may come meanwhile
    if _document(directory, file_format) is not None:
        if not overwrite:
            raise InputError(
                f"{place(directory)} holds a {file_format} already: choose another folder, or say overwrite=True"
            )
        return
    # Nothing but arrays of ours: a save has not come to its document yet, or was killed.
    if not all(is_temporary(path) or _is_ours_by_content(path) or not os.path.lexists(path) for path in files):
        raise InputError(f"{place(directory)} is not empty and holds no {file_format}: choose another folder")


def _document(directory: Path, file_format: str) -> dict[str, Any] | None:
    """The document of the object in this folder; None where there is none of this format."""
    try:
        document = read_json(directory / f"{file_format}.json")
    except InputError:
        return None
    return document if isinstance(document, dict) and document.get("format") == file_format else None


def _arrays_of(directory: Path, file_format: str) -> set[str]:
    """The files of arrays in a folder of ours: those that its document names, and those of killed saves."""
    document = _document(directory, file_format) or {}
    named = set(_array_files(document.get("checksums")))
    return named | {name for name in os.listdir(directory) if _is_ours_by_content(directory / name)}


def _is_ours_by_content(path: Path) -> bool:
    """Whether a file is called by the hash of what it holds, as only our files of arrays are."""
    if not re.fullmatch(ARRAYS, path.name) or path.is_symlink() or not path.is_file():
        return False
    try:
        return path.name == _name_of_arrays(path.read_bytes())
    except OSError:  # unreadable, or gone meanwhile
        return False


def _remove_texts(directory: Path) -> None:
    """Remove the texts that `save_stored` wrote beside an object."""
    for path in directory.glob("*.md"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                ours = file.read(len(WRITTEN)) == WRITTEN
            if ours:
                remove_file(path)


def _name_of_arrays(packed: bytes) -> str:
    return f"arrays-{sha256(packed)[:16]}.safetensors"


def _array_files(checksums: Any) -> list[str]:
    """The files of arrays that a document names."""
    return [name for name in checksums if re.fullmatch(ARRAYS, name)] if isinstance(checksums, dict) else []


def load_stored(directory: Path, *, file_format: str, version: int) -> tuple[Stored, dict[str, Any]]:
    """Read what `save_stored` wrote, after checking files, format, version and checksums.

    What the settings and arrays mean is for the kinds of objects to check (`poela.core.validation`).
    """
    text = Path(directory) / f"{file_format}.json"
    for _ in range(MOST_READINGS):
        try:
            return _loaded(text, file_format, version)
        except _Replaced as replaced:
            problem = str(replaced)
    raise InputError(problem)


class _Replaced(Exception):
    """The arrays that a document named are gone, since another document has taken its place."""


def _loaded(text: Path, file_format: str, version: int) -> tuple[Stored, dict[str, Any]]:
    directory = text.parent
    document = read_json(text)
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise InputError(f"{place(directory)} holds no {file_format}: the format field is missing or different")
    stored_version = document.get("format_version")
    if stored_version != version or type(stored_version) is not int:
        raise InputError(
            f"{place(directory)} has format version {repr(stored_version)[:40]}; this poela reads version {version}"
        )
    checksums = document.pop("checksums", None)
    with explained_reading(text):
        body = canonical(document)
    named = _array_files(checksums)
    if len(named) != 1:
        raise InputError(f"{place(text)} names no file of arrays: it is damaged or was changed")
    arrays = directory / named[0]
    try:
        packed = read_bytes(arrays)
    except InputError as error:
        now = _document(directory, file_format) or {}
        if not os.path.lexists(arrays) and _array_files(now.get("checksums")) != named:
            raise _Replaced(str(error)) from None
        raise
    for path, name, content in ((arrays, arrays.name, packed), (text, "document", body)):
        if not isinstance(checksums, dict) or checksums.get(name) != sha256(content):
            raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match; save it again")
    with explained_reading(arrays):
        unpacked = unpacked_arrays(packed)
    try:
        stored = Reading(unpacked.pop).stored(document.get("object"))
        if unpacked:
            raise ValueError(f"the array {min(unpacked)[:40]!r} belongs to nothing")
    except ValueError as error:
        raise InputError(f"{place(directory)} is not a complete {file_format}: {error}") from None
    return stored, document


@contextmanager
def explained_reading(path: Path) -> Iterator[None]:
    """What the system or a file itself makes impossible to read, as one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{place(path)} cannot be read: it does not exist") from None
    except RecursionError:
        raise InputError(f"{place(path)} cannot be read: it is nested too deeply") from None
    except OSError as error:
        raise InputError(f"{place(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise InputError(f"{place(path)} cannot be read: {str(error) or 'it is too large'}") from None
