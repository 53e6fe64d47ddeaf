"""The tables that finished experiments have left in a directory of results."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """The rows of one table, and where they come from."""

    name: str  # of its files in the directory of results, without an ending
    experiment: str
    title: str
    command: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def label(self) -> str:
        """The paper's table, where this is a comparison."""
        return str(self.rows[0]["table"])


def stored_table(path: Path) -> Stored:
    """One of them."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    notes = tuple(about["notes"].splitlines())
    rows = tuple(table.to_pylist())
    name = f"{path.parent.name}/{path.stem}"
    return Stored(name, about["experiment"], about["title"], about["command"], notes, rows)


def stored_tables(results: Path, columns: Set[str]) -> list[Stored]:
    """All with these columns, experiment by experiment, in the order of its report."""
    import pyarrow.parquet as pq

    places: dict[tuple[str, int], Path] = {}
    for path in results.glob("*/*.parquet"):
        schema = pq.read_schema(path)
        about = schema.metadata or {}
        if columns <= set(schema.names) and b"experiment" in about:
            places[about[b"experiment"].decode(), int(about[b"place"])] = path
    return [stored_table(places[place]) for place in sorted(places)]
