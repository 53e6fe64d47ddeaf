"""Writing logs to a file by its ending."""

import os
from pathlib import Path

from poela.core.errors import InputError
from poela.core.files import atomic_file, folder_at
from poela.data.trajectories import Trajectories


def refuse_unwritable(path: Path, overwrite: bool) -> None:
    """Refuse a path that is no place for a log, or already somebody's file."""
    if path.suffix not in {".parquet", ".csv"}:
        raise InputError(f"{path} ends in neither .parquet nor .csv: choose one of them")
    folder_at(path.parent, "logs")
    if os.path.lexists(path) and not (overwrite and path.is_file()):
        what = "exists already: choose another file, or add --overwrite" if path.is_file() else "is no file: name one"
        raise InputError(f"{path} {what}")


def write_logs(logs: Trajectories, path: Path) -> None:
    """Write the logs as Parquet or CSV, whole or not at all."""
    table = logs.to_table()
    with atomic_file(path) as temporary:
        if path.suffix == ".csv":
            from pyarrow.csv import write_csv

            write_csv(table, temporary)
        else:
            from pyarrow.parquet import write_table

            write_table(table, temporary)
