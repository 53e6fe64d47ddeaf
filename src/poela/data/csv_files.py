"""CSV files: read in small batches where the cells are what they are supposed to be, and whole where they are not."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.layout import LogLayout
from poela.data.sources import TableSource, expected, from_table
from poela.data.spreadsheets import as_meant, meant_names
from poela.data.unpacking import refuse_bomb
from poela.data.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

# What is wrong with a CSV file: written in another way than was said, or damaged. Nothing of it is quoted.

HEAD_BYTES = 1 << 16
OTHER_KINDS = {
    b"PAR1": "is a Parquet file: let its name end in .parquet",
    b"ARROW1": "is an Arrow file: let its name end in .arrow",
    b"\x1f\x8b": "is compressed: let its name end in .csv.gz",
    b"PK\x03\x04": "is a spreadsheet or an archive: save it as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: save it as CSV",
}
# What a file may begin with, the encoding that this shows, and others that read it as well.
MARKS = {
    b"\xef\xbb\xbf": ("utf-8", "utf-8-sig"),
    codecs.BOM_UTF32_LE: ("utf-32", "utf-32-le"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
SEPARATORS = (",", ";", "\t", "|")
FRACTION = re.compile(r"[+-]?[0-9]+[.,][0-9]+")


def detect_format(path: Path, layout: LogLayout) -> str | None:
    """Whether the beginning of a file shows that it is written in another way than the layout says."""
    import pyarrow as pa

    with pa.input_stream(path) as stream:
        head = stream.read(HEAD_BYTES)
    for mark, sentence in OTHER_KINDS.items():
        if head.startswith(mark):
            return sentence
    return _other_encoding(head, layout) or _spreadsheet_line(head, layout)


def _other_encoding(head: bytes, layout: LogLayout) -> str | None:
    encoding = codecs.lookup(layout.encoding).name
    for mark, known in MARKS.items():
        if head.startswith(mark):
            return None if encoding in known else _say("is text in", known[0].upper(), "encoding", known[0])
    even, odd = (2 * head[first::2].count(0) / max(len(head), 1) for first in (0, 1))
    if max(even, odd) > 0.4 and min(even, odd) < 0.1:
        likely = "utf-16-le" if odd > even else "utf-16-be"
        return None if encoding == likely else _say("seems to be text in", likely.upper(), "encoding", likely)
    if encoding.startswith(("utf-16", "utf-32")) and not (even or odd):
        return f"seems to be no text in {encoding.upper()}: leave the encoding out, or name another"
    return None


def as_written(path: Path, layout: LogLayout) -> tuple[LogLayout, tuple[str, ...]]:
    """The layout with the separator and the decimals that the beginning of the file shows, and words about that.

    Only where it cannot be as the layout says: no part of the log is named in the header, or (where commas do not
    separate cells) there are decimal commas and no decimal points.
    """
    import pyarrow as pa

    with pa.input_stream(path) as stream:
        lines = re.split(r"[\r\n]+", stream.read(HEAD_BYTES).decode(layout.encoding, "replace"))
    notes = []
    separator = _separator(lines[0], layout)
    if separator != layout.separator:
        shown = "tabs" if separator == "\t" else repr(separator)
        layout = replace(layout, separator=separator)
        notes.append(f"the cells of the file are separated by {shown}")
    cells = [cell.strip().strip('"') for line in lines[1:-1] or lines[1:] for cell in line.split(separator)]
    fractions = [cell for cell in cells if FRACTION.fullmatch(cell)]
    if layout.decimal == "." and separator != "," and fractions and not any("." in cell for cell in fractions):
        layout = replace(layout, decimal=",")
        notes.append("the decimals of the file follow a comma")
    return layout, tuple(notes)


def _separator(header: str, layout: LogLayout) -> str:
    separator = layout.separator
    cells = {cell.strip().strip('"') for cell in header.split(separator)}
    parts = (*layout.key_columns, *layout.action_columns, *layout.reward_columns(list(cells)))
    if "\0" in header or not cells.isdisjoint(parts):  # no text at all, or as said
        return separator
    unquoted = re.sub(r'"[^"]*"', "", header)
    best = max(SEPARATORS, key=unquoted.count)
    return best if unquoted.count(best) > unquoted.count(separator) else separator


def _spreadsheet_line(head: bytes, layout: LogLayout) -> str | None:
    line = re.split(r"[\r\n]", head.decode(layout.encoding, "replace"), maxsplit=1)[0]
    return "begins with a line for spreadsheets (sep=…): remove that line" if re.fullmatch(r"sep=.?", line) else None


def _say(what: str, shown: str, field: str, value: str) -> str:
    return f"{what} {shown}: say so with {field}={value!r} (--{field} {value})"


def damage(path: Path, layout: LogLayout) -> str:
    """What is wrong with a file that could not be read."""
    import pyarrow as pa
    from pyarrow import csv

    if not _is_text(path, layout.encoding):
        known = codecs.lookup(layout.encoding).name.upper()
        return f"it is not text in {known}; name its encoding, e.g. encoding='latin-1' (--encoding latin-1)"
    ragged: list[tuple[int, bool]] = []

    def note(row: Any) -> str:
        ragged.append((row.number - 1, row.actual_columns > row.expected_columns))
        return "skip"

    # Several threads do not know the numbers of rows.
    reading = csv.ReadOptions(use_threads=False, encoding=layout.encoding)
    parsing = csv.ParseOptions(delimiter=layout.separator, invalid_row_handler=note)
    try:
        table = csv.read_csv(path, read_options=reading, parse_options=parsing)
    except (pa.ArrowInvalid, UnicodeError):
        return "it is damaged or not a table; write it again"
    have = "has" if len(ragged) == 1 else "have"
    first = min(ragged, default=(1, False))[0]
    remedy = "write it again"
    if table.num_rows == 0 and all(more for _, more in ragged):
        remedy = "is a title above the header? remove it"
        if table.num_columns > 1:
            remedy = "are decimal commas not in quotes? separate cells by ';'"
    return f"{counted(len(ragged), 'row')} {have} more or fewer cells than the header, first row {first}; {remedy}"


def _is_text(path: Path, encoding: str) -> bool:
    import pyarrow as pa

    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with pa.input_stream(path) as stream:
            while chunk := stream.read(1 << 20):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


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
