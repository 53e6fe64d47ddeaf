"""CSV files: read in small batches where the cells are what they are supposed to be, and whole where they are not."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.csv_problems import as_written, damage, detect_format
from poela.data.layout import LogLayout
from poela.data.sources import TableSource, expected, from_table
from poela.data.spreadsheets import as_meant, meant_names
from poela.data.unpacking import refuse_bomb

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
    names = file.names
    wanted = [name for name in columns(names) if name in names]
    batches = csv.open_csv(path, **file.options(include_columns=wanted, column_types=types))
    return names, _as_meant(batches), layout.decimal


def _as_meant(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for batch in batches:
        yield from as_meant(pa.Table.from_batches([batch])).to_batches()


def refuse_misunderstood(path: Path, layout: LogLayout) -> None:
    """Refuse an empty file, and one whose beginning shows that it is no such text."""
    if path.stat().st_size == 0:
        raise InputError(f"{place(path)} is empty: it needs a header and a row for each decision")
    if path.suffix.lower() == ".gz":
        refuse_bomb(path)
    problem = detect_format(path, layout)
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

        return {
            "read_options": csv.ReadOptions(encoding=self._encoding, **self._named),
            "parse_options": csv.ParseOptions(delimiter=self.layout.separator),
            "convert_options": csv.ConvertOptions(
                decimal_point=self.layout.decimal, strings_can_be_null=True, **convert
            ),
        }

    @property
    def _encoding(self) -> str:
        return "utf8" if codecs.lookup(self.layout.encoding).name == "utf-8" else self.layout.encoding

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns, as they were before a spreadsheet was thought of."""
        return meant_names(self._written_names)

    @cached_property
    def _written_names(self) -> list[str]:
        from pyarrow import csv

        how = {"encoding": self._encoding}
        parsing = csv.ParseOptions(delimiter=self.layout.separator)
        with csv.open_csv(self.path, read_options=csv.ReadOptions(**how), parse_options=parsing) as file:
            return list(file.schema.names)

    @property
    def _named(self) -> dict[str, Any]:
        """The names in the place of those of the file, where these are others."""
        if self.names == self._written_names:
            return {}
        return {"column_names": self.names, "skip_rows_after_names": 1}

    def streamed(self, others: Sequence[str]) -> TableSource:
        """Only labels and others are held; the rest, supposed to be numbers, is parsed again when it is read."""
        import pyarrow as pa
        from pyarrow import csv

        def stream(columns: Sequence[str], types: "Mapping[str, pa.DataType]") -> "pa.RecordBatchReader":
            return csv.open_csv(self.path, **self.options(include_columns=columns, column_types=types))

        def read(name: str) -> "pa.ChunkedArray":
            return keys[name] if name in key_names else as_meant(stream([name], {}).read_all())[name]

        def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
            return expected(keys.num_rows, stream(columns, dict.fromkeys(columns, pa.float64())))

        names = self.names
        if len(set(names)) < len(names):  # columns cannot be asked for by such names; whoever reads all says so
            return self.inferred()
        held = [name for name in dict.fromkeys((*self.as_text, *others)) if name in names]
        keys = stream(held, self.as_text).read_all()
        keys = as_meant(keys)
        key_names = set(keys.column_names)
        fields = [keys.schema.field(name) if name in key_names else pa.field(name, pa.float64()) for name in names]
        how: dict[str, Any] = {"decimal": self.layout.decimal, "notes": self.notes}
        return TableSource(pa.schema(fields), keys.num_rows, read, batches, **how, reopened=self.inferred)

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
        return from_table(as_meant(table), self.layout.decimal, self.notes)
