"""What every kind of log is read through: a table whose columns come whole, or in batches of rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# Small enough that a block of some fifty features stays in the processor's cache while it is transposed.
BATCH_ROWS = 8192
SAVED_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class TableSource:
    """A table that can be read column by column: whole, or in batches of rows."""

    schema: "pa.Schema"
    n_rows: int
    read: Callable[[str], "pa.ChunkedArray"]
    batches: Callable[[Sequence[str]], Iterator["pa.RecordBatch"]]
    decimal: str = ""  # of a CSV file, where the types of columns are guesses; elsewhere empty
    reopened: "Callable[[], TableSource] | None" = None  # where reading may fail on types that were only supposed
    notes: tuple[str, ...] = ()  # how a CSV file was found to be written

    @property
    def is_text(self) -> bool:
        """Whether this is a CSV file."""
        return self.decimal != ""

    @cached_property
    def names(self) -> list[str]:
        """The columns; the row numbers that pandas saves beside them are none."""
        return [name for name in self.schema.names if not SAVED_INDEX.fullmatch(name)]


def expected(rows: int, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The batches, which must have so many rows: a file may be damaged, or change while it is read."""
    import pyarrow as pa

    seen = 0
    for batch in batches:
        seen += len(batch)
        if seen > rows:
            break
        yield batch
    if seen != rows:
        raise pa.ArrowInvalid("more or fewer rows than before")


def from_table(table: "pa.Table", decimal: str = "", notes: tuple[str, ...] = ()) -> TableSource:
    """A table in memory as a source."""

    def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        return iter(table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS))

    return TableSource(table.schema, table.num_rows, table.column, batches, decimal, notes=notes)
