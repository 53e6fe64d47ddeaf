"""Files and folders that are ours for a while. Whoever uses one holds a lock on it, so what is not locked is litter."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from poela.core.locks import take
from poela.core.paths import GUARDS

# How every half-written file is called, so that what a killed process left behind is known by its name.
TEMPORARY = ".poela-tmp-"
OWN_FOLDER = "poela-"
OWNER = f"{TEMPORARY}owner"  # the file in a folder of our own that its process holds


def is_temporary(path: Path) -> bool:
    """Whether this is one of our half-written files, by its name: a plain file, no link, no folder."""
    try:
        return path.name.startswith(TEMPORARY) and stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:  # finished meanwhile
        return path.name.startswith(TEMPORARY)


def held_temporary(folder: Path) -> tuple[Path, int]:
    """A new file, readable by the owner alone, and the handle that holds it; it is for the caller to close."""
    while True:
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
        if _is_held(handle):
            return Path(name), handle
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder of ours; nothing in use, nothing of another name."""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = folder / name
            if is_temporary(path):
                _if_unused(path, path.unlink)


def own_folder() -> tuple[Path, int]:
    """A folder among the system's temporary ones, and the handle that holds it; removes what killed processes left."""
    for left in Path(tempfile.gettempdir()).glob(f"{OWN_FOLDER}*"):
        with suppress(OSError):
            if _is_mine(left):
                _if_unused(left / OWNER, lambda left=left: shutil.rmtree(left, ignore_errors=True))  # type: ignore[misc]
    while True:
        folder = Path(tempfile.mkdtemp(prefix=OWN_FOLDER))
        handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        if _is_held(handle):
            return folder, handle
        os.close(handle)


def remove_own_folder(folder: Path, handle: int) -> None:
    """Remove a folder that `own_folder` made."""
    os.close(handle)
    shutil.rmtree(folder, ignore_errors=True)


def _is_held(handle: int) -> bool:
    """Hold a new file; False where somebody's sweep came first."""
    taken = take(handle, without=True)
    return taken and os.fstat(handle).st_nlink > 0


def _if_unused(path: Path, remove: Callable[[], None]) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | GUARDS)
        try:
            if take(handle):
                if sys.platform == "win32":  # where what is open cannot be removed
                    os.close(handle)
                remove()
        finally:
            if sys.platform != "win32":
                os.close(handle)


def _is_mine(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and (sys.platform == "win32" or status.st_uid == os.getuid())
