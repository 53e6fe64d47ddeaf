"""Paths that users give: which can be opened, and how messages show them."""

import os
import stat
from pathlib import Path

from poela.core.errors import InputError

LONG_PATH = 300
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def place(path: str | os.PathLike[str]) -> str:
    r"""A path as messages show it: on one line, and not for pages.

    >>> place("logs.csv"), place("two\nlines.csv")
    ('logs.csv', "'two\\nlines.csv'")
    """
    text = os.fspath(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONG_PATH else f"…{text[-LONG_PATH:]}"


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
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "something else")
        raise InputError(f"{place(path)} is {kind}, not a file: write its content to a file first")
    return Path(path)
