"""Where a log may come from: files, Arrow tables and streams, data frames; all read the same way."""

import codecs
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.data.rows import RowProblems, counted

if TYPE_CHECKING:
    import pyarrow as pa

# Small enough that a block of some fifty features stays in the processor's cache while it is transposed.
BATCH_ROWS = 8192

FILE_KINDS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".arrow": "Arrow",
    ".ipc": "Arrow",
    ".feather": "Arrow",
}
SAVED_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Source:
    """A table that can be read column by column: whole, or in batches of rows."""

    schema: "pa.Schema"
    n_rows: int
    read: Callable[[str], "pa.ChunkedArray"]
    batches: Callable[[Sequence[str]], Iterator["pa.RecordBatch"]]
    is_text: bool = False  # CSV, where the types of labels are guesses
    reopened: "Callable[[], Source] | None" = None  # where reading may fail on types that were only supposed

    @property
    def names(self) -> list[str]:
        """The columns; the row numbers that pandas saves beside them are none."""
        return [name for name in self.schema.names if not SAVED_INDEX.fullmatch(name)]


def open_source(source: Any, labels: Sequence[str], step: str | None = None) -> Source:
    """Open a file, a table, a stream or a data frame.

    A CSV file's `labels` columns stay text; if `step` is given, all columns but that one are supposed to be numbers.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind = _kind_of(path)
        with readable(source):
            if kind == "Parquet":
                return _parquet(path)
            return _csv(path, labels, step) if kind == "CSV" else _from_table(_arrow_file(path))
    return _from_table(_table_of_object(source))


@contextmanager
def readable(source: Any) -> Iterator[None]:
    """Turn what the readers throw at a damaged file into one sentence that quotes nothing of its content."""
    import pyarrow as pa

    name = str(source) if isinstance(source, str | os.PathLike) else f"the {type(source).__name__}"
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{name} does not exist: check the path") from None
    except PermissionError:
        raise InputError(f"{name} may not be read: ask for permission") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InputError(
            f"{name} cannot be read: it is damaged, truncated or not what its name says; write it again"
        ) from None


def _kind_of(path: Path) -> str:
    if path.is_dir():
        raise InputError(f"{path} is a directory: give one file")
    suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if suffix.lower() not in FILE_KINDS:
        raise InputError(
            f"{path} is of an unknown kind ({suffix or 'no suffix'}): give a .parquet, .csv, .arrow or .feather file"
        )
    return FILE_KINDS[suffix.lower()]


def _parquet(path: Path) -> Source:
    import pyarrow.parquet as pq

    # A small read buffer keeps the memory flat, however large the file's row groups are.
    file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)

    rows = file.metadata.num_rows

    def read(name: str) -> "pa.ChunkedArray":
        # Parquet picks 'a.b' along with 'a', so the column is looked up by its name.
        column = file.read([name])[name]
        _expect(rows, len(column))
        return column

    def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        seen = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
            seen += len(batch)
            yield batch
        _expect(rows, seen)

    return Source(file.schema_arrow, rows, read, batches)


def _expect(rows: int, found: int) -> None:
    """A damaged file may hold columns of other lengths than it says."""
    import pyarrow as pa

    if rows != found:
        raise pa.ArrowInvalid(f"{found} rows instead of {rows}")


def _arrow_file(path: Path) -> "pa.Table":
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    try:
        table = pa.ipc.open_file(mapped).read_all()
    except pa.ArrowInvalid:  # not the file format: perhaps the stream format
        mapped.seek(0)
        table = pa.ipc.open_stream(mapped).read_all()
    table.validate()
    return table


def _from_table(table: "pa.Table") -> Source:
    def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        return iter(table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS))

    return Source(table.schema, table.num_rows, table.column, batches)


def _table_of_object(source: Any) -> "pa.Table":
    import pyarrow as pa

    try:
        return pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        problems = _mixed_columns(source) if hasattr(source, "iloc") else []
        raise InputError(problems or f"the {type(source).__name__} cannot be turned into a table") from None
    except (TypeError, ValueError):
        raise InputError(
            f"cannot read logs from a {type(source).__name__}: give a path, an Arrow table or a data frame"
        ) from None


def _mixed_columns(frame: Any) -> list[str]:
    """Which columns of a pandas frame hold values of several types, which no table can."""
    import pyarrow as pa

    found = RowProblems()
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        try:
            pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            types = column.map(type).to_numpy()
            valid = column.notna().to_numpy()
            odd = valid & (types != column[valid].map(type).mode().iloc[0])
            found.note(odd, f"column {name!r} is of another type than elsewhere", "give the column one type")
    return found.sentences()


def _csv(path: Path, labels: Sequence[str], step: str | None) -> Source:
    import pyarrow as pa

    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty: it needs a header and a row for each decision")
    as_text = {name: pa.dictionary(pa.int32(), pa.large_string()) for name in labels}
    if step is not None:
        try:
            return _streamed_csv(path, as_text, step)
        except (pa.ArrowException, UnicodeDecodeError):
            pass  # what is wrong shows when all of the file is looked at
    return _inferred_csv(path, as_text)


def _streamed_csv(path: Path, as_text: "Mapping[str, pa.DataType]", step: str) -> Source:
    """Only labels and steps are held; the rest, supposed to be numbers, is parsed again in small batches."""
    import pyarrow as pa
    from pyarrow import csv

    def stream(columns: Sequence[str], types: "Mapping[str, pa.DataType]") -> "pa.RecordBatchReader":
        convert = csv.ConvertOptions(include_columns=columns, column_types=types, strings_can_be_null=True)
        return csv.open_csv(path, convert_options=convert)

    def batches(columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        return iter(stream(columns, dict.fromkeys(columns, pa.float64())))

    with csv.open_csv(path) as file:
        names = file.schema.names
    keys = stream([*as_text, step], as_text).read_all()
    fields = [keys.schema.field(name) if name in keys.column_names else pa.field(name, pa.float64()) for name in names]
    return Source(
        pa.schema(fields), keys.num_rows, keys.column, batches, True, reopened=lambda: _inferred_csv(path, as_text)
    )


def _inferred_csv(path: Path, as_text: "Mapping[str, pa.DataType]") -> Source:
    """The whole table, each column of the type that all its cells fit."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=as_text, strings_can_be_null=True))
        names = table.column_names
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as CSV: {_csv_problem(path)}") from None
    if len(names) == 1 and re.search(r"[;\t|]", names[0]):
        raise InputError(f"{path} is not separated by commas: write it again with commas between cells")
    return replace(_from_table(table), is_text=True)


def _csv_problem(path: Path) -> str:
    """What is wrong with a CSV file that could not be read."""
    import pyarrow as pa
    from pyarrow import csv

    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with pa.input_stream(path) as stream:
            while chunk := stream.read(1 << 20):
                decoder.decode(chunk)
    except UnicodeDecodeError:
        return "it is not text in UTF-8; write it again as that"
    ragged: list[int] = []

    def note(row: Any) -> str:
        ragged.append(row.number - 1)
        return "skip"

    one_thread = csv.ReadOptions(use_threads=False)  # several do not know the numbers of rows
    try:
        csv.read_csv(path, read_options=one_thread, parse_options=csv.ParseOptions(invalid_row_handler=note))
    except pa.ArrowInvalid:
        return "it is damaged or not a table; write it again"
    return (
        f"{counted(len(ragged), 'row')} {'has' if len(ragged) == 1 else 'have'} more or fewer cells than the header, "
        f"first row {min(ragged, default=1)}; write it again"
    )
