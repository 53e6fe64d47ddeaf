"""Ctrl-C and SIGTERM at safe points: the signal is noted, and work ends where nothing is half done.

An exception at any moment could fall into somebody's clean-up (Rich's bar, a thread's lock, an import) and come out as
something else. So inside `deferred_signals` a signal sets a flag, and `safe_point`, which every long loop calls,
raises.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_came: list[int] = []


@contextmanager
def deferred_signals(*, passed_on: bool = False) -> Iterator[None]:
    """Note SIGINT and SIGTERM inside the block instead of raising at once; in the main thread only.

    With `passed_on`, a signal that came goes on to whoever is there for it once the block has ended: SIGTERM ends the
    program then, as it would have without us. Inside another such block this one changes nothing.

    >>> with deferred_signals():
    ...     signal.raise_signal(signal.SIGINT)
    ...     try:
    ...         safe_point()
    ...     except KeyboardInterrupt:
    ...         print("here")
    here
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is _note:
        yield
        return
    # None: a handler that is not Python's, and that Python could not put back.
    before = {number: signal.signal(number, _note) for number in SIGNALS if signal.getsignal(number) is not None}
    raised = False
    try:
        yield
    except KeyboardInterrupt:
        raised = True
        raise
    finally:
        for taken_over, handler in before.items():
            signal.signal(taken_over, handler)
        came, _came[:] = set(_came), []
        for number in came if passed_on else ():
            if not (raised and signal.getsignal(number) is signal.default_int_handler):  # which has raised already
                signal.raise_signal(number)


def _note(number: int, frame: Any) -> None:
    # Whoever asks twice does not want to wait for a safe point.
    _came.append(number)
    if len(_came) > 1:
        raise KeyboardInterrupt


def safe_point() -> None:
    """Raise `KeyboardInterrupt` here if a signal has come; long loops call this."""
    if _came:
        raise KeyboardInterrupt


@contextmanager
def hold_sigint() -> Iterator[None]:
    """Hold back a Ctrl-C inside a short block that must not be left half-way, also outside of `deferred_signals`."""
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
