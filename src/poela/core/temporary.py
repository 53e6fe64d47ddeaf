"""Files and folders that are ours for a while, and locks that vanish with the process that holds them.

Whoever uses a temporary place holds a lock on it, so what is not locked is litter.
"""

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from poela.core.errors import PoelaError
from poela.core.interruption import safe_point
from poela.core.paths import GUARDS, place

# Locks that vanish with the process that holds them, however it ends.

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.002


def take(handle: int, *, without: bool = False) -> bool:
    """Lock an open file, unless another has; `without` is the answer of file systems that know no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return without
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """One at a time inside the block, of all who ask for this folder. Nothing is written into it for that."""
    if os.name != "posix":  # elsewhere a folder cannot be locked
        yield
        return
    handle = _locked(folder)
    try:
        yield
    finally:
        os.close(handle)


def _locked(folder: Path) -> int:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        folder.mkdir(mode=0o700, exist_ok=True)  # whoever had the lock may have removed it
        handle = os.open(folder, os.O_RDONLY)
        if take(handle, without=True) and _is_still(folder, handle):
            return handle
        os.close(handle)
        safe_point()
        time.sleep(POLL_SECONDS)
    raise PoelaError(f"{place(folder)} is in use by another process: wait for it, or choose another folder")


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


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
