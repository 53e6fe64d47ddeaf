"""The same log as a file, a table, a stream or a frame of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

Write = Callable[[pa.Table, Path], Any]


def parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "logs.parquet", row_group_size=max(2, table.num_rows // 4))
    return folder / "logs.parquet"


def csv(table: pa.Table, folder: Path) -> str:
    pyarrow.csv.write_csv(table, folder / "logs.csv")
    return str(folder / "logs.csv")


def compressed_csv(table: pa.Table, folder: Path) -> Path:
    with pa.CompressedOutputStream(str(folder / "logs.csv.gz"), "gzip") as stream:
        pyarrow.csv.write_csv(table, stream)
    return folder / "logs.csv.gz"


def arrow(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_file(str(folder / "logs.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder / "logs.arrow"


def arrow_stream(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_stream(str(folder / "logs.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder / "logs.arrow"


def feather(table: pa.Table, folder: Path) -> Path:
    pa.feather.write_feather(table, str(folder / "logs.feather"), compression="zstd")
    return folder / "logs.feather"


class Capsule:
    """Anything that speaks Arrow's stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Write] = {
    "parquet": parquet,
    "csv": csv,
    "csv.gz": compressed_csv,
    "arrow": arrow,
    "arrow stream": arrow_stream,
    "feather": feather,
    "table": lambda table, _: table,
    "chunked table": lambda table, _: pa.concat_tables([table.slice(0, 2), table.slice(2)]),
    "reader": lambda table, _: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
    "capsule": lambda table, _: Capsule(table),
    "pandas": lambda table, _: table.to_pandas(),
    "pandas index": lambda table, _: table.to_pandas().set_index(["episode", "step"]),
    "pandas odd index": lambda table, _: table.to_pandas().set_index(pd.Index([9, 9, 7, 3, 1])),
    "polars": lambda table, _: pl.from_arrow(table),
}
