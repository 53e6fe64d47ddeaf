"""CSV files: read in small batches where the cells are what they are supposed to be, and whole where they are not."""

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.csv_problems import as_written, damage, misunderstanding
from poela.data.layout import LogLayout
from poela.data.sources import TableSource, expected, from_table

if TYPE_CHECKING:
    import pyarrow as pa


def open_csv(path: Path, layout: LogLayout, labels: Sequence[str], others: Sequence[str] | None) -> TableSource:
    """Open a file; `labels` stay text, and if `others` (of any type) are given, all but these are supposed numbers."""
    import pyarrow as pa

    refuse_misunderstood(path, layout)
    layout, notes = as_written(path, layout)
    text = pa.dictionary(pa.int32(), pa.large_string())
    file = _CsvFile(path, layout, dict.fromkeys(labels, text), notes)
    if others is not None:
        try:
            return file.streamed(others)
        except pa.ArrowCancelled:
            raise  # an interruption: nothing is wrong with the file
        except (pa.ArrowException, UnicodeError):
            pass  # what is wrong shows when all of the file is looked at
    return file.inferred()


def stream_csv(
    path: Path,
    layout: LogLayout,
    columns: "Callable[[Sequence[str]], Sequence[str]]",
    types: "Mapping[str, pa.DataType]",
) -> "tuple[list[str], Iterator[pa.RecordBatch], str]":
    """The names of all columns, batches of those wanted, of these types, and what stands before decimals."""
    from pyarrow import csv

    refuse_misunderstood(path, layout)
    layout, _ = as_written(path, layout)
    file = _CsvFile(path, layout, {})
    with csv.open_csv(path, **file.options()) as opened:
        names = opened.schema.names
    wanted = [name for name in columns(names) if name in names]
    return names, csv.open_csv(path, **file.options(include_columns=wanted, column_types=types)), layout.decimal


def refuse_misunderstood(path: Path, layout: LogLayout) -> None:
    """Refuse an empty file, and one whose beginning shows that it is no such text."""
    if path.stat().st_size == 0:
        raise InputError(f"{place(path)} is empty: it needs a header and a row for each decision")
    problem = misunderstanding(path, layout)
    if problem:
        raise InputError(f"{place(path)} {problem}")


@dataclass(frozen=True)
class _CsvFile:
    path: Path
    layout: LogLayout
    as_text: "Mapping[str, pa.DataType]"
    notes: tuple[str, ...] = ()

    def options(self, **convert: Any) -> dict[str, Any]:
        """How the file is written, as Arrow's readers want it said."""
        from pyarrow import csv

        plain = codecs.lookup(self.layout.encoding).name == "utf-8"
        return {
            "read_options": csv.ReadOptions(encoding="utf8" if plain else self.layout.encoding),
            "parse_options": csv.ParseOptions(delimiter=self.layout.separator),
            "convert_options": csv.ConvertOptions(
                decimal_point=self.layout.decimal, strings_can_be_null=True, **convert
            ),
        }

    def streamed(self, others: Sequence[str]) -> TableSource:
        """Only labels and others are held; the rest, supposed to be numbers, is parsed again in small batches."""
        import pyarrow as pa
        from pyarrow import csv

        def stream(columns: Sequence[str], types: "Mapping[str, pa.DataType]") -> "pa.RecordBatchReader":
            return csv.open_csv(self.path, **self.options(include_columns=columns, column_types=types))

        def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
            return expected(keys.num_rows, stream(columns, dict.fromkeys(columns, pa.float64())))

        with csv.open_csv(self.path, **self.options()) as file:
            names = file.schema.names
        if len(set(names)) < len(names):  # columns cannot be asked for by such names; whoever reads all says so
            return self.inferred()
        keys = stream([name for name in (*self.as_text, *others) if name in names], self.as_text).read_all()
        key_names = set(keys.column_names)
        fields = [keys.schema.field(name) if name in key_names else pa.field(name, pa.float64()) for name in names]
        how: dict[str, Any] = {"decimal": self.layout.decimal, "notes": self.notes}
        return TableSource(pa.schema(fields), keys.num_rows, keys.column, batches, **how, reopened=self.inferred)

    def inferred(self) -> TableSource:
        """The whole table, each column of the type that all its cells fit."""
        import pyarrow as pa
        from pyarrow import csv

        try:
            table = csv.read_csv(self.path, **self.options(column_types=self.as_text))
            # Arrow leaves bytes that are no text as they are, and fails at names that are none.
            if any(pa.types.is_binary(kind) for _, kind in zip(table.column_names, table.schema.types, strict=True)):
                raise UnicodeError
        except (pa.ArrowInvalid, UnicodeError):
            what = damage(self.path, self.layout)
            raise InputError(f"{place(self.path)} cannot be read as CSV: {what}") from None
        return from_table(table, self.layout.decimal, self.notes)
