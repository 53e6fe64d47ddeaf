"""Files that appear whole or not at all, private to their owner, in places that are ours or empty."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from poela.core.errors import InputError, PoelaError
from poela.core.paths import kind_of, place
from poela.core.temporary import held_temporary, is_temporary

PRIVATE_FOLDER = 0o700
FULL = (errno.ENOSPC, errno.EDQUOT)
Lasting = Literal["named", "whole", "no"]


def is_empty(folder: Path) -> bool:
    """Whether nothing is there: no folder, or one without entries (but for what we left half-written)."""
    try:
        return all(is_temporary(folder / name) for name in os.listdir(folder))
    except FileNotFoundError:
        return True
    except OSError as error:
        raise InputError(f"{place(folder)} cannot be read: {error.strerror}") from None


def refuse_foreign(folder: Path, marks: Sequence[str], what: str) -> None:
    """Refuse a folder that is neither empty nor marked as ours by one of these files, before anything is touched."""
    if not is_empty(folder) and not any(os.path.isfile(folder / mark) for mark in marks):
        raise InputError(f"{place(folder)} is not empty and holds no {what}: choose another folder")


def make_private(folder: Path) -> None:
    """Make a folder, and those above it, for the owner alone; what is there already stays as it is."""
    with explain_write_errors(folder):
        missing = [above for above in (folder, *folder.parents) if not above.exists()]
        for above in reversed(missing):
            above.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


@contextmanager
def atomic_file(path: Path, *, replacing: bool = True, lasting: Lasting = "named") -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes otherwise.

    Without `replacing`, a file that has come to be there meanwhile stays, and is an error. `lasting` is what outlasts a
    power cut from then on: "named", the file by its name; "whole", the file if its name does (`sync_folder` sees to the
    names of many at once); "no", nothing, as of scratch files.
    """
    path = Path(path)
    with explain_write_errors(path):
        refuse_irregular(path)
        make_private(path.parent)
        temporary, handle = held_temporary(path.parent)
        try:
            yield temporary
            if lasting != "no":
                with temporary.open("rb+") as written:
                    os.fsync(written.fileno())
            if replacing:
                refuse_irregular(path)  # again: something may have come to be there meanwhile
                temporary.replace(path)
            else:
                _move_beside_none(temporary, path)
            if lasting == "named":
                sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(handle)


def _move_beside_none(temporary: Path, path: Path) -> None:
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: there the name is taken first
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            temporary.replace(path)
    except FileExistsError:
        raise InputError(f"{place(path)} exists already: another has made it meanwhile") from None


def write_bytes(path: Path, content: bytes, *, lasting: Lasting = "named") -> None:
    """Write a file, atomically."""
    with atomic_file(path, lasting=lasting) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, document: Any, *, lasting: Lasting = "named") -> None:
    """Write one JSON document, atomically."""
    write_bytes(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode(), lasting=lasting)


def remove_file(path: Path) -> None:
    """Remove a file of ours, if it is there; whatever else has its name stays, and is an error."""
    refuse_irregular(path)
    with explain_write_errors(path):
        path.unlink(missing_ok=True)


def refuse_irregular(path: Path) -> None:
    """Refuse a link, a device, a pipe, a socket or a folder where a file of ours should be; nothing there is fine."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(path, error) from None
    if (kind := kind_of(mode)) is not None:
        raise InputError(f"{place(path)} is {kind}, where a file of ours should be: move it away")


def sha256(content: bytes) -> str:
    """The checksum of some bytes.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def sync_folder(folder: Path) -> None:
    """A new name outlasts a power cut only once its folder is on the disk; not every system lets one ask."""
    if os.name != "posix" or not folder.is_dir():
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some file systems cannot
        pass
    finally:
        os.close(handle)


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """What the system says when a path cannot be written, as one sentence."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> PoelaError:
    """What the system says, and what helps.

    >>> print(unwritable(Path("study"), OSError(errno.EROFS, "Read-only file system")))
    study cannot be written: Read-only file system; choose another place
    """
    remedy = "free space, or choose another place" if error.errno in FULL else "choose another place"
    return PoelaError(f"{place(path)} cannot be written: {error.strerror or error}; {remedy}")
