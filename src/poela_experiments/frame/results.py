"""What an experiment hands back: tables that print, and that are written as Parquet and Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.files import atomic_file
from poela_experiments.frame.figures import comparison_figure

Cell = str | float | int | bool | None


@dataclass(frozen=True)
class ResultTable:
    """One table: rows of plain values under a title, with the command that makes it and notes beneath.

    Its key names its files, so that another table renames none.

    >>> print(ResultTable("ages", "ages", [{"name": "a", "age": 1.25}], "poela reproduce ages", ("made up",)))
    ages
    name   age
    a     1.25
    made up
    command: poela reproduce ages
    """

    key: str
    title: str
    rows: Sequence[Mapping[str, Cell]]
    command: str
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.rows[0]) if self.rows else ()

    def __str__(self) -> str:
        cells = [self.columns, *(tuple(shown(row.get(name)) for name in self.columns) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numeric = [any(isinstance(row.get(name), int | float) for row in self.rows) for name in self.columns]
        lines = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ).rstrip()
            for line in cells
        ]
        return "\n".join([self.title, *lines, *self.notes, f"command: {self.command}"])

    def markdown(self) -> str:
        """The table as Markdown."""
        cells = ([shown(row.get(name)) for name in self.columns] for row in self.rows)
        end = ["", *(f"{note}  " for note in self.notes), f"Command: `{self.command}`", ""]
        return "\n".join([f"### {self.title}", "", *markdown_rows(self.columns, cells), *end])


@dataclass(frozen=True)
class Report:
    """All tables of one experiment."""

    name: str
    tables: tuple[ResultTable, ...]
    closing: str = ""

    def __post_init__(self) -> None:
        keys = [table.key for table in self.tables]
        if len(set(keys)) < len(keys):
            raise ValueError(f"two tables of {self.name} have the same key: {', '.join(keys)}")

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.tables), *([self.closing] if self.closing else [])])

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "experiment": self.name,
            "tables": [
                {
                    "key": table.key,
                    "title": table.title,
                    "rows": [dict(row) for row in table.rows],
                    "notes": list(table.notes),
                }
                for table in self.tables
            ],
        }

    def write(self, directory: Path) -> "Report":
        """Write `NAME.md`, and `NAME/KEY.parquet` for each table, with a picture of each comparison; returns itself."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with atomic_file(directory / f"{self.name}.md") as temporary:
            temporary.write_text("\n".join([*map(ResultTable.markdown, self.tables), *self._end()]), encoding="utf-8")
        for place, table in enumerate(self.tables):
            files = place_of(directory, self.name, table.key)
            rows = pa.Table.from_pylist([dict(row) for row in table.rows])
            about = {"experiment": self.name, "place": str(place), "title": table.title}
            about |= {"command": table.command, "notes": "\n".join(table.notes)}
            with atomic_file(files.with_name(f"{files.name}.parquet")) as temporary:
                pq.write_table(rows.replace_schema_metadata(about), temporary)
            if {"paper", "ours"} <= set(table.columns):
                comparison_figure(files, table.rows)
        return self

    def _end(self) -> Iterator[str]:
        """What is said in closing, as Markdown: after a rule, line by line."""
        if self.closing:
            yield "\n".join(["---", "", *(f"{line}  " for line in self.closing.splitlines()), ""])


def place_of(results: Path, experiment: str, key: str) -> Path:
    """The files of a table and its picture, without an ending: by their key, so that another table renames none."""
    return results / experiment / key


def markdown_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown.

    >>> list(markdown_rows(("a", "b"), [("1", "2")]))
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def shown(value: Cell) -> str:
    """A cell as people read it.

    >>> shown(12.3456), shown(None), shown("x"), shown(3)
    ('12.35', '', 'x', '3')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"
    return str(value)


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean over data sets and its standard error (none for a single one).

    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), error


def with_error(values: Sequence[float]) -> str:
    """Mean ± standard error, as the paper's tables print it.

    >>> with_error([1.0, 3.0])
    '2.00 ± 1.00'
    """
    mean, error = mean_and_error(values)
    return f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}"
