"""Ctrl-C and SIGTERM at safe points: the signal is noted, and work ends where nothing is half done.

An exception at any moment could fall into somebody's clean-up (Rich's bar, a thread's lock, an import) and come out as
something else. So inside `orderly` a signal sets a flag, and `safe_point`, which every long loop calls, raises.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_asked = threading.Event()


@contextmanager
def orderly() -> Iterator[None]:
    """Note SIGINT and SIGTERM inside the block instead of raising at once; in the main thread only.

    >>> with orderly():
    ...     signal.raise_signal(signal.SIGINT)
    ...     try:
    ...         safe_point()
    ...     except KeyboardInterrupt:
    ...         print("here")
    here
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()


def _note(number: int, frame: Any) -> None:
    # Whoever asks twice does not want to wait for a safe point.
    if _asked.is_set():
        raise KeyboardInterrupt
    _asked.set()


def safe_point() -> None:
    """Raise `KeyboardInterrupt` here if a signal has come; long loops call this."""
    if _asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back a Ctrl-C inside a short block that must not be left half-way, also outside of `orderly`."""
    plain = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not plain:
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, plain)
    if held:
        raise KeyboardInterrupt
