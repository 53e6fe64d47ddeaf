"""Writing logs to a file by its ending."""

from pathlib import Path

from poela.core.errors import InputError
from poela.core.storage import atomic_file
from poela.data.trajectories import Trajectories


def write_logs(logs: Trajectories, path: Path) -> None:
    """Write the logs as Parquet or CSV, whole or not at all."""
    if path.suffix not in {".parquet", ".csv"}:
        raise InputError(f"{path} ends in neither .parquet nor .csv: choose one of them")
    if path.is_dir():
        raise InputError(f"{path} is a directory: name a file")
    table = logs.to_table()
    with atomic_file(path) as temporary:
        if path.suffix == ".csv":
            from pyarrow.csv import write_csv

            write_csv(table, temporary)
        else:
            from pyarrow.parquet import write_table

            write_table(table, temporary)
