"""Where a log may come from: files, Arrow tables and streams, data frames; all become a `TableSource`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from poela.core.errors import InputError
from poela.core.paths import place, regular_file
from poela.data.csv_files import open_csv
from poela.data.frames import with_notes
from poela.data.layout import LogLayout
from poela.data.rows import RowProblems
from poela.data.sources import BATCH_ROWS, TableSource, expected, from_table
from poela.data.unpacking import refuse_swollen, refuse_swollen_messages, text_bytes
from poela.data.words import bad_log, quoted

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class ArrowTable(Protocol):
    """What Arrow takes for a table: its own tables, and data frames of pandas, Polars and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as Arrow passes them on."""


AnyTable = str | os.PathLike[str] | Mapping[str, Any] | ArrowTable  # a file, columns by name, or a table

FILE_KINDS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".arrow": "Arrow",
    ".ipc": "Arrow",
    ".feather": "Arrow",
}
MOST_DECODED = 2**21  # numbers of a Parquet file at once: some 16 MB
FRAME = b"ARROW1"  # begins and ends a file in Arrow's file format


def open_source(
    source: Any, layout: LogLayout, labels: Sequence[str], others: Sequence[str] | None = None
) -> TableSource:
    """Open a file, a table, a stream or a data frame.

    A CSV file's `labels` columns stay text; if `others` (of any type) are given, all but these are supposed numbers.
    """
    if isinstance(source, TableSource):
        return source
    if not isinstance(source, str | os.PathLike):
        return from_table(_table_of_object(source, layout))
    path = regular_file(source)
    kind = kind_of_file(path)
    with explain_read_errors(source):
        if kind == "Parquet":
            return open_parquet(path)
        return open_csv(path, layout, labels, others) if kind == "CSV" else from_table(open_arrow(path))


@contextmanager
def explain_read_errors(source: Any) -> Iterator[None]:
    """Turn what the readers throw at a damaged file into one sentence that quotes nothing of its content."""
    import pyarrow as pa

    name = place(source) if isinstance(source, str | os.PathLike) else f"the {type(source).__name__}"
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{name} does not exist: check the path") from None
    except PermissionError:
        raise InputError(f"{name} may not be read: ask for permission") from None
    except pa.ArrowCancelled:  # Arrow's own way of saying that Ctrl-C came while it read
        raise KeyboardInterrupt from None
    except pa.ArrowNotImplementedError:
        raise InputError(
            f"{name} holds columns of a type that cannot be used: give numbers, text, booleans or times"
        ) from None
    except (pa.ArrowException, OSError, UnicodeError):
        raise InputError(
            f"{name} cannot be read: it is damaged, truncated or not what its name says; write it again"
        ) from None


@contextmanager
def named(source: Any) -> Iterator[None]:
    """Say in which of several logs something is wrong.

    >>> with named("second.csv"):
    ...     raise InputError("column 'age' is missing")
    Traceback (most recent call last):
    poela.core.errors.InputError: second.csv: column 'age' is missing
    """
    try:
        yield
    except InputError as error:
        if not isinstance(source, str | os.PathLike):
            raise
        name = place(Path(source))
        raise InputError([one if name in one else f"{name}: {one}" for one in error.problems]) from None


def kind_of_file(path: Path) -> str:
    """What a file holds, by its name: Parquet, CSV or Arrow."""
    suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if suffix.lower() not in FILE_KINDS:
        shown = place(suffix) if suffix else "no suffix"
        raise InputError(
            f"{place(path)} is of an unknown kind ({shown}): give a .parquet, .csv, .arrow or .feather file"
        )
    return FILE_KINDS[suffix.lower()]


def open_parquet(path: Path) -> TableSource:
    """A Parquet file, whose columns are read when they are asked for; one that unpacks to far too much is refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A small read buffer keeps the memory flat, however large the file's row groups are.
    how: dict[str, Any] = {"buffer_size": 1 << 20, "pre_buffer": False}
    plain = pq.ParquetFile(path, **how)
    schema, rows = plain.schema_arrow, plain.metadata.num_rows
    groups = [plain.metadata.row_group(number) for number in range(plain.metadata.num_row_groups)]
    told = sum(group.column(place).total_uncompressed_size for group in groups for place in range(group.num_columns))
    refuse_swollen(path, max(8 * rows * plain.metadata.num_columns, told))
    # A text that many rows have stands in the file once. It is read once too, and given to each row if that is not too
    # much: one text of 50,000 letters in 20,000 rows is a gigabyte, and a file of some kilobytes.
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    file = pq.ParquetFile(path, read_dictionary=texts, **how)

    def read(name: str) -> "pa.ChunkedArray":
        # Parquet picks 'a.b' along with 'a', so the column is looked up by its name.
        column = file.read([name])[name]
        if len(column) != rows:
            raise pa.ArrowInvalid("more or fewer rows than the file says")
        refuse_swollen(path, text_bytes(column))
        return column.cast(schema.field(name).type) if name in texts else column

    def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        size = 0
        # Each decoded batch costs time for each column, so several are decoded at once, but not of text, which swells.
        together = 1 if set(columns) & set(texts) else max(MOST_DECODED // (BATCH_ROWS * max(len(columns), 1)), 1)
        for batch in file.iter_batches(batch_size=together * BATCH_ROWS, columns=list(columns)):
            size += sum(map(text_bytes, batch.columns))
            refuse_swollen(path, size)
            kinds = pa.schema([schema.field(name) for name in batch.schema.names])
            batch = batch if batch.schema == kinds else batch.cast(kinds)
            for start in range(0, len(batch), BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)

    return TableSource(with_notes(schema), rows, read, lambda columns: expected(rows, batches(columns)))


def open_arrow(path: Path) -> "pa.Table":
    """The whole file, copied: one that is mapped kills the process if somebody else cuts it off meanwhile."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        # Both formats are read as a stream, whose messages tell what they unpack to; that of files has a frame.
        framed = file.read(len(FRAME)) == FRAME
        if framed:
            pa.ipc.open_file(file)  # refuses one that is cut off
        start = len(FRAME) + 2 if framed else 0  # the frame is padded to eight bytes
        file.seek(start)
        refuse_swollen_messages(path, file)
        file.seek(start)
        table = _batch_by_batch(path, pa.ipc.open_stream(file))
    table.validate(full=True)  # broken offsets of text would be followed blindly
    refuse_swollen(path, sum(map(text_bytes, table.columns)))
    return table


def _batch_by_batch(path: Path, reader: Any) -> "pa.Table":
    import pyarrow as pa

    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        refuse_swollen(path, size)
    return pa.Table.from_batches(batches, reader.schema)


def _table_of_object(source: Any, layout: LogLayout) -> "pa.Table":
    import pyarrow as pa

    name = type(source).__name__
    try:
        table = pa.table(source)
        table = table.replace_schema_metadata(with_notes(table.schema).metadata)
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        problems = _mixed_columns(source, layout) if hasattr(source, "iloc") else []
        raise bad_log(problems or [f"the {name} cannot be turned into a table"]) from None
    except Exception:  # whatever a stranger's frame or stream throws, it may quote cells
        raise InputError(f"cannot read logs from a {name}: give a path, an Arrow table or a data frame") from None
    return table


def _mixed_columns(frame: Any, layout: LogLayout) -> list[str]:
    """Which columns of a pandas frame hold values of several types, which no table can."""
    import pyarrow as pa

    names = [str(name) for name in frame.columns]
    if not layout.recognises(names):
        return layout.problems(names)
    problems = RowProblems()
    for position, name in enumerate(names):
        column = frame.iloc[:, position]
        try:
            pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            types = column.map(type).to_numpy()
            valid = column.notna().to_numpy()
            odd = valid & (types != column[valid].map(type).mode().iloc[0])
            problems.note(odd, f"column {quoted(name)} is of another type than elsewhere", "give the column one type")
    return problems.sentences()
