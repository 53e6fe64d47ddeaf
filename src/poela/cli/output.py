"""What commands print: one JSON document, or tables and sentences for people."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from poela.core.readable import escaped

if TYPE_CHECKING:
    from rich.console import Console

# Standard output and error as they may be: full, closed, or without most letters.


@contextmanager
def forgiving_streams() -> Iterator[None]:
    """Inside the block, letters that a stream does not know become question marks, and a closed one takes everything.

    What is left in the buffer is written before the block ends, so that a full disk shows here.
    """
    with ExitStack() as undo:
        for name in ("stdout", "stderr"):
            stream: Any = getattr(sys, name)
            if stream is None:  # closed by whoever started us
                setattr(sys, name, undo.enter_context(open(os.devnull, "w", encoding="utf-8")))
                undo.callback(setattr, sys, name, None)
            elif hasattr(stream, "reconfigure"):
                undo.callback(stream.reconfigure, errors=stream.errors)
                stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")
        yield
        sys.stdout.flush()


def silence(stream: Any) -> None:
    """Let what a broken stream still holds go nowhere, or Python would complain about it when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def say(text: str, *, bold: bool = False) -> None:
    """A line for people; nothing in it is taken for markup."""
    lines = "\n".join(map(escaped, text.split("\n")))
    _console().print(lines, markup=False, style="bold" if bold else None)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """A table; the first column is text, the others are numbers. A row whose first cell starts with * is bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(escaped(title)),
        title_justify="left",
        caption=Text(note) if note else None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(escaped(cell)) for cell in row), style="bold" if row[0].startswith("*") else None)
    _console().print(table)
