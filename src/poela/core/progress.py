"""One progress bar on standard error, for anything that takes longer than two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from poela.core.interruption import hold_sigint, safe_point

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 2.0
LINE_SECONDS = 30.0  # between lines of progress where nobody sees a bar
# None: only where somebody is looking, that is, where standard error is a terminal.
_enabled: ContextVar[bool | None] = ContextVar("progress_enabled", default=None)
_in_lines: ContextVar[bool] = ContextVar("progress_in_lines", default=False)
_told_alone: ContextVar[bool] = ContextVar("progress_told_alone", default=False)
_shown: ContextVar["_LateBar | _Lines | None"] = ContextVar("progress_bar", default=None)


@contextmanager
def progress_shown(enabled: bool = True) -> Iterator[None]:
    """Switch progress bars on (or off) inside the block; by default they show on a terminal.

    >>> with progress_shown(), progress("counting", total=3) as advance:
    ...     advance(3)
    """
    token = _enabled.set(enabled)
    try:
        yield
    finally:
        _enabled.reset(token)


@contextmanager
def progress_in_lines(*, told_alone: bool = False) -> Iterator[None]:
    """Inside the block, progress is told in lines where standard error is no terminal: for runs of hours.

    With `told_alone` the lines are those of `tell`, and no counts every so often.

    >>> with progress_in_lines(), progress("counting", total=3) as advance:
    ...     advance(3)
    """
    tokens = _in_lines.set(True), _told_alone.set(told_alone)
    try:
        yield
    finally:
        _in_lines.reset(tokens[0])
        _told_alone.reset(tokens[1])


def tell(line: str) -> None:
    """A line beside the progress that shows: above the bar, or between the lines; nothing where none shows.

    >>> tell("nobody looks")
    """
    bar = _shown.get()
    if bar is not None:
        bar.tell(line)


@contextmanager
def progress(task: str, total: int) -> Iterator[Callable[..., None]]:
    """Yields `advance(n, note="")`, a safe point for interruptions too.

    The bar appears after two seconds, and only the outermost one shows.
    """
    enabled = _enabled.get()
    bar: _LateBar | _Lines
    if _in_lines.get() and enabled is not False and not sys.stderr.isatty():
        bar = _Lines(task, total)
    elif sys.stderr.isatty() if enabled is None else enabled:
        bar = _LateBar(task, total)
    else:
        yield lambda n=1, note="": safe_point()
        return
    tokens = _enabled.set(False), _shown.set(bar)
    try:
        yield bar.advance
    finally:
        _enabled.reset(tokens[0])
        _shown.reset(tokens[1])
        with hold_sigint():  # an interruption within Rich's own clean-up would come out as another error
            bar.stop()


class _LateBar:
    def __init__(self, task: str, total: int) -> None:
        self._task, self._total = task, total
        self._done, self._started = 0, time.monotonic()
        self._bar: Progress | None = None
        self._untold: list[str] = []  # as long as there is no bar

    def advance(self, n: int = 1, note: str = "") -> None:
        safe_point()
        self._done += n
        if self._bar is None and time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        with hold_sigint():
            if self._bar is None:
                self._bar = _new_bar()
                self._bar.start()
                self._bar.add_task(self._task, total=self._total, note=note)
            self._bar.update(self._bar.task_ids[0], completed=self._done, note=note)
        untold, self._untold = self._untold, []
        for line in untold:
            self.tell(line)

    def tell(self, line: str) -> None:
        if self._bar is None:
            self._untold.append(line)
            return
        with hold_sigint():
            self._bar.console.print(line, markup=False, highlight=False)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


class _Lines:
    def __init__(self, task: str, total: int) -> None:
        self._task, self._total, self._done = task, total, 0
        self._told = time.monotonic() - LINE_SECONDS + PATIENCE_SECONDS
        self._counts = not _told_alone.get()

    def advance(self, n: int = 1, note: str = "") -> None:
        safe_point()
        self._done += n
        if self._counts and time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            self.tell(f"{self._task}: {self._done} of {self._total}{f' ({note})' if note else ''}")

    def tell(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def stop(self) -> None: ...


def _new_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
