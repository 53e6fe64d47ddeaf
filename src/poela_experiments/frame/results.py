"""What an experiment hands back: tables that print, and that are written as Parquet and Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from poela.core.files import atomic_file
from poela_experiments.frame.figures import comparison_figure

Cell = str | float | int | bool | None
Row = Mapping[str, Cell]
WIDTH = 100  # of what is printed
MOST_ROWS = 60  # of a table on a page: of a longer one, only where it lies
NOT_REGENERATED = "Stored from an earlier version; not regenerated, and therefore not judged."
TITLES = {
    "tumor": "Tumor growth",
    "tumor-order": "Tumor growth, with equal care for each learner",
    "sepsis": "Simulated sepsis",
    "cartpole": "CartPole",
    "counterexamples": "Counter-examples",
    "mujoco": "Hopper and Walker2D",
    "values": "Fitted Q, from verifiable to valuable",
    "behavior": "Models of the logging policy",
    "coverage": "Coverage of intervals",
    "d3rlpy": "Beside d3rlpy",
}


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
    rows: Sequence[Row]
    command: str
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def compares(self) -> bool:
        """Whether the paper's numbers stand in it."""
        return {"paper", "ours"} <= set(self.columns)

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows as people read them: errors beside their numbers, nothing that is empty throughout."""
        errors = {name: f"± {name}" for name in self.columns if f"± {name}" in self.columns}
        names = [name for name in self.columns if name not in errors.values() and name != "table"]
        cells = {name: [_with_error(row, name, errors) for row in self.rows] for name in names}
        kept = [name for name in names if any(cells[name])]
        return kept, [[cells[name][place] for name in kept] for place in range(len(self.rows))]

    def __str__(self) -> str:
        head, rows = self.shown()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        fitting = max(1, sum(sum(widths[:n]) + 2 * (n - 1) <= WIDTH for n in range(1, len(head) + 1)))
        lines = []
        numeric = [any(isinstance(row.get(name), int | float) for row in self.rows) for name in head]
        for line in [head, *rows]:
            cells = zip(line[:fitting], widths, numeric, strict=False)
            lines.append("  ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in cells).rstrip())
        left_out = head[fitting:]
        notes = [*self.notes, *([f"in the file {self.key}.parquet only: {', '.join(left_out)}"] if left_out else [])]
        lines = [line[:WIDTH] for line in lines]
        return "\n".join(
            [fill(self.title, WIDTH), *lines, *(fill(note, WIDTH) for note in notes), f"command: {self.command}"]
        )

    def markdown(self, experiment: str, pictures: Path | None = None) -> str:
        """As Markdown, with the picture that lies beside it; of a long table, where it is."""
        lines = [f"## {self.title}", ""]
        place = f"{experiment}/{self.key}"
        if len(self.rows) > MOST_ROWS:
            lines += [f"{len(self.rows)} rows: [{self.key}.parquet]({place}.parquet)."]
        else:
            lines += markdown_rows(*self.shown())
        lines += ["", *(f"{note}.  " for note in self.notes)]
        if pictures is not None:
            found = sorted(file.stem for file in pictures.glob(f"{self.key}*.svg"))
            others = [name for name in found if name == self.key or not (pictures / f"{name}.parquet").exists()]
            lines += [f"\n![{self.title}]({experiment}/{name}.svg)" for name in others]
        return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Report:
    """All tables of one experiment; `opening` says what a small version is."""

    name: str
    tables: tuple[ResultTable, ...]
    closing: str = ""
    opening: str = ""

    def __post_init__(self) -> None:
        keys = [table.key for table in self.tables]
        if len(set(keys)) < len(keys):
            raise ValueError(f"two tables of {self.name} have the same key: {', '.join(keys)}")

    def __str__(self) -> str:
        said = [fill(self.opening, WIDTH)] if self.opening else []
        return "\n\n".join([*said, *map(str, self.tables), *([self.closing] if self.closing else [])])

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        tables = [
            {"key": one.key, "title": one.title, "rows": [dict(row) for row in one.rows], "notes": list(one.notes)}
            for one in self.tables
        ]
        return {"experiment": self.name, **({"about": self.opening} if self.opening else {}), "tables": tables}

    def write(self, directory: Path) -> "Report":
        """Write `NAME.md`, and `NAME/KEY.parquet` for each table, with a picture of each comparison; returns itself."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for place, table in enumerate(self.tables):
            files = place_of(directory, self.name, table.key)
            rows = pa.Table.from_pylist([dict(row) for row in table.rows])
            about = {"experiment": self.name, "place": str(place), "title": table.title}
            about |= {"command": table.command, "notes": "\n".join(table.notes), "closing": self.closing}
            with atomic_file(files.with_name(f"{files.name}.parquet")) as temporary:
                pq.write_table(rows.replace_schema_metadata(about), temporary)
        self.write_page(directory, self.opening)
        return self

    def write_page(self, directory: Path, about: str) -> None:
        """Draw the comparisons, and write the page of all tables."""
        for table in self.tables:
            if table.compares:
                comparison_figure(place_of(directory, self.name, table.key), table.title, table.rows)
        commands = dict.fromkeys(table.command for table in self.tables)
        said = "Command then" if about == NOT_REGENERATED else "Command"
        head = [f"# {title_of(self.name)}", "", about, "", *(f"{said}: `{command}`  " for command in commands), ""]
        tables = [table.markdown(self.name, directory / self.name) for table in self.tables]
        end = ["\n".join(["---", "", *(f"{line}  " for line in self.closing.splitlines()), ""])] if self.closing else []
        with atomic_file(directory / f"{self.name}.md") as temporary:
            temporary.write_text("\n".join([*head, *tables, *end]), encoding="utf-8")


def title_of(experiment: str) -> str:
    """What people call it.

    >>> title_of("cartpole"), title_of("coverage")
    ('CartPole', 'Coverage of intervals')
    """
    return TITLES.get(experiment, experiment.capitalize())


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

    >>> shown(12.3456), shown(None), shown("x"), shown(3), shown(32.0), shown(0.0)
    ('12.35', '', 'x', '3', '32', '0')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        if value.is_integer():
            return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
        return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"
    return str(value)


def _with_error(row: Row, name: str, errors: Mapping[str, str]) -> str:
    error = row.get(errors[name]) if name in errors else None
    return f"{shown(row[name])} ± {shown(error)}" if error else shown(row.get(name))


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
