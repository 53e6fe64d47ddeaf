"""Locks that vanish with the process that holds them, however it ends."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poela.core.errors import PoelaError
from poela.core.interruption import safe_point
from poela.core.paths import place

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
