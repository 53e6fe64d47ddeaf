"""Paths that users give: which can be opened, made or replaced, and how messages show them."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.typed import shown

LONG_PATH = 300
SYSTEM = ("/dev", "/proc", "/sys")  # where names are not files, and writing to one does something else
# What is opened with these is neither waited for, as a pipe would be, nor a link.
GUARDS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW"))
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def place(path: str | os.PathLike[str]) -> str:
    r"""A path as messages show it: on one line, and not for pages.

    >>> place("logs.csv"), place("two\nlines.csv")
    ('logs.csv', "'two\\nlines.csv'")
    """
    text = os.fspath(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONG_PATH else f"…{text[-LONG_PATH:]}"


def kind_of(mode: int) -> str | None:
    """What is no plain file, in words; None where it is one.

    >>> kind_of(stat.S_IFIFO), kind_of(stat.S_IFREG)
    ('a pipe', None)
    """
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "something else")


def regular_file(path: str | os.PathLike[str]) -> Path:
    """The path of a plain file; anything else is refused before it is opened, since a pipe would wait forever."""
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        raise InputError(f"{place(path)} may not be read: ask for permission") from None
    except (OSError, ValueError):  # also a link to nowhere, a name that is too long, a name with a zero byte
        raise InputError(f"{place(path)} does not exist: check the path") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{place(path)} is a directory: give one file")
    if (kind := kind_of(mode)) is not None:
        raise InputError(f"{place(path)} is {kind}, not a file: write its content to a file first")
    return Path(path)


def is_there(path: Path) -> bool:
    """Whether anything has this name, be it a link to nowhere; one sentence where that cannot be known."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise InputError(f"{place(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return True


def new_path(path: Any, what: str) -> Path:
    """The path of something to be written, with `~` for one's home; never one of the system's own.

    >>> new_path(5, "a study")
    Traceback (most recent call last):
    poela.core.errors.InputError: the path for a study is 5: it must be text or a Path
    >>> new_path("", "a study")
    Traceback (most recent call last):
    poela.core.errors.InputError: the path for a study is empty: name a folder
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise InputError(f"the path for {what} is {shown(path)}: it must be text or a Path")
    # Path("") is Path("."), the folder one stands in: nobody means that by an empty path.
    if not text or "\0" in text:
        raise InputError(f"the path for {what} is {'empty' if not text else 'not one'}: name a folder")
    try:
        text.encode()  # it will stand in documents and messages
        return _outside_system(Path(text).expanduser(), what)
    except UnicodeEncodeError:
        raise InputError(f"{place(text)} is no text in UTF-8: choose another name for {what}") from None
    except RuntimeError:
        raise InputError(f"{place(text)} is in the home of a user who is not known: write ./ before it") from None


def _outside_system(path: Path, what: str) -> Path:
    """Refuse devices and what else the system shows as files, by their names or by links that lead there."""
    for way in {os.path.abspath(path), os.path.realpath(path)}:
        if any(way == own or way.startswith(f"{own}/") for own in SYSTEM):
            raise InputError(f"{place(path)} belongs to the system ({', '.join(SYSTEM)}): choose another for {what}")
    return path


def folder_at(path: Any, what: str) -> Path:
    """The path as a place for a folder; refuses an empty path and whatever is not a folder."""
    folder = new_path(path, what)
    try:
        # Those of its parents that are not there will be made.
        nearest = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
        if os.path.lexists(nearest) and not nearest.is_dir():
            raise InputError(f"{place(nearest)} is no folder: choose another place for {what}")
    except OSError as error:
        raise InputError(f"{place(folder)} cannot be used for {what}: {error.strerror}") from None
    return folder


# The one gate for what users ask to be written: a new file or a plain one that may go; a folder that is nobody
# else's.
# What is written inside a study goes through `files.atomic_file`, which refuses links, pipes and devices for itself.

STUDY_MARK = ".poela-study"
# Files by which the folder of a study or a policy is known: what lies in one is checked against the rest of it.
OWNED = {STUDY_MARK: "study", "poela-policy.json": "policy"}


def output_file(
    path: Any,
    what: str,
    *,
    overwrite: bool = False,
    endings: Sequence[str] = (),
    is_ours: Callable[[Path], bool] | None = None,
) -> Path:
    """Where a file may be written, refused before any work: never a device, a pipe, a socket, a link, or in a study.

    A plain file may be replaced with `overwrite`, or where `is_ours` knows it as an earlier one of its kind.
    """
    file = new_path(path, what)
    if endings and file.suffix not in endings:
        raise InputError(f"{place(file)} ends in neither {' nor '.join(endings)}: choose one of them")
    folder_at(file.parent, what)
    refuse_inside_ours(file, what)
    if not is_there(file):
        return file
    if (kind := kind_of(file.lstat().st_mode)) is not None:
        raise InputError(f"{place(file)} is {kind}, and no file: name another for {what}")
    if not (overwrite or (is_ours is not None and is_ours(file))):
        foreign = "" if is_ours is None else f" and is no {what.partition(' ')[2]} of ours"
        raise InputError(f"{place(file)} exists already{foreign}: choose another file, or add --overwrite")
    return file


def output_folder(path: Any, what: str) -> Path:
    """Where a folder may be written: anywhere but in a study, a policy, or among the system's devices."""
    folder = folder_at(path, what)
    refuse_inside_ours(folder, what)
    return folder


def refuse_inside_ours(path: Path, what: str) -> None:
    """Refuse a place within the folder of a study or a policy, whose files are checked against each other."""
    # By its true place: a link may lead into such a folder.
    for folder in Path(os.path.realpath(path)).parents:
        for mark, owner in OWNED.items():
            if is_there(folder / mark):
                raise InputError(f"{place(path)} is inside the folder of a {owner}: choose another place for {what}")
