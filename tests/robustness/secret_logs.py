"""A sound log whose every cell is a secret, to be broken in many ways: no message may ever hold a part of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.data.log_files import Write, csv, parquet

SECRETS = ("SECRET", "8675309", "1999-12-31")
ROWS = 12
SOUND: dict[str, Any] = {
    "episode": [f"SECRET-{row // 3}" for row in range(ROWS)],
    "step": [row % 3 for row in range(ROWS)],
    "age": [8675309.25 + row for row in range(ROWS)],
    "action": ["SECRET-treat" if row % 2 else "SECRET-wait" for row in range(ROWS)],
    "reward": [-8675309.5 + row for row in range(ROWS)],
}
PROPENSITIES = {"propensity_SECRET-treat": [0.5] * ROWS, "propensity_SECRET-wait": [0.5] * ROWS}


@dataclass(frozen=True)
class Case:
    """A way to make a file, words of the message about it, and flags of `poela learn` beside it."""

    make: Callable[[Path], str | Path]
    words: tuple[str, ...]
    flags: tuple[str, ...] = ()


def changed(changes: dict[str, Any]) -> pa.Table:
    """The sound log with other columns, or without those that are None."""
    return pa.table({name: column for name, column in {**SOUND, **changes}.items() if column is not None})


def table(changes: dict[str, Any], *words: str, write: Write = parquet, flags: tuple[str, ...] = ()) -> Case:
    """A file of a changed log."""
    return Case(lambda folder: write(changed(changes), folder), words, flags)


def first(value: Any, column: str) -> list[Any]:
    """A column whose first cell is another."""
    return [value, *SOUND[column][1:]]


def text(content: str | bytes, *words: str, name: str = "logs.csv", flags: tuple[str, ...] = ()) -> Case:
    """A file with that content."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / name

    return Case(make, words, flags)


def damaged(write: Write, harm: Callable[[bytes], bytes], *words: str) -> Case:
    """A sound file to whose bytes harm was done."""

    def make(folder: Path) -> Path:
        path = Path(write(changed({}), folder))
        path.write_bytes(harm(path.read_bytes()))
        return path

    return Case(make, words)


def csv_text(folder: Path) -> str:
    """The sound log as CSV."""
    return Path(csv(changed({}), folder)).read_text()


def rewritten(change: Callable[[str], str | bytes], *words: str, flags: tuple[str, ...] = ()) -> Case:
    """The sound log as a CSV file that was changed as a text."""

    def make(folder: Path) -> Path:
        content = change(csv_text(folder))
        (folder / "logs.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / "logs.csv"

    return Case(make, words, flags)
