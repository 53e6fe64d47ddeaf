"""Files that appear whole or not at all, private to their owner, in places that are ours or empty."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from poela.core.errors import InputError, PoelaError

# How every half-written file is called, so that what a killed process left behind is known by its name.
TEMPORARY = ".poela-tmp-"
PRIVATE_FOLDER = 0o700


def folder_at(path: str | PathLike[str], what: str) -> Path:
    """The path as a place for a folder; refuses an empty path and whatever is not a folder.

    >>> folder_at("", "a study")
    Traceback (most recent call last):
    poela.core.errors.InputError: the path for a study is empty: name a folder
    """
    text = os.fspath(path)
    # Path("") is Path("."), the folder one stands in: nobody means that by an empty path.
    if not text or "\0" in text:
        raise InputError(f"the path for {what} is {'empty' if not text else 'not one'}: name a folder")
    place = Path(path)
    try:
        # Those of its parents that are not there will be made.
        nearest = next((one for one in (place, *place.parents) if os.path.lexists(one)), place)
        if os.path.lexists(nearest) and not nearest.is_dir():
            raise InputError(f"{nearest} is no folder: choose another place for {what}")
    except OSError as error:
        raise InputError(f"{place} cannot be used for {what}: {error.strerror}") from None
    return place


def is_empty(folder: Path) -> bool:
    """Whether nothing is there: no folder, or one without entries (but for what we left half-written)."""
    try:
        return all(name.startswith(TEMPORARY) for name in os.listdir(folder))
    except FileNotFoundError:
        return True


def refuse_foreign(folder: Path, marks: Sequence[str], what: str) -> None:
    """Refuse a folder that is neither empty nor marked as ours by one of these files, before anything is touched."""
    if not is_empty(folder) and not any((folder / mark).is_file() for mark in marks):
        raise InputError(f"{folder} is not empty and holds no {what}: choose another folder")


def make_private(folder: Path) -> None:
    """Make a folder, and those above it, for the owner alone; what is there already stays as it is."""
    with explained(folder):
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        for place in reversed(missing):
            place.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends well, and vanishes otherwise."""
    path = Path(path)
    with explained(path):
        make_private(path.parent)
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)  # readable by the owner alone
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, document: Any) -> None:
    """Write one JSON document, atomically."""
    write_bytes(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder of ours; nothing with any other name."""
    for path in folder.glob(f"{TEMPORARY}*"):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def sha256(content: bytes) -> str:
    """The checksum of some bytes.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def _sync_folder(folder: Path) -> None:
    """A new name outlasts a power cut only once its folder is on the disk; not every system lets one ask."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some file systems cannot
        pass
    finally:
        os.close(handle)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system says when a path cannot be written, as one sentence."""
    try:
        yield
    except OSError as error:
        raise PoelaError(
            f"{path} cannot be written: {error.strerror or error}; free space or choose another place"
        ) from None
