"""Writing logs to a file by its ending."""

from pathlib import Path

from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import folder_at, is_there, new_path, place
from poela.data.trajectories import Trajectories


def file_for_logs(out: str, overwrite: bool) -> Path:
    """The path of a log to be written; refuses what is no place for one, or already somebody's file."""
    path = new_path(out, "logs")
    if path.suffix not in {".parquet", ".csv"}:
        raise InputError(f"{place(path)} ends in neither .parquet nor .csv: choose one of them")
    folder_at(path.parent, "logs")
    if is_there(path) and not (overwrite and path.is_file()):
        what = "exists already: choose another file, or add --overwrite" if path.is_file() else "is no file: name one"
        raise InputError(f"{place(path)} {what}")
    return path


def write_logs(logs: Trajectories, path: Path, overwrite: bool) -> None:
    """Write the logs as Parquet or CSV, whole or not at all."""
    table = logs.to_table()
    with atomic_file(path, replacing=overwrite) as temporary:
        if path.suffix == ".csv":
            from pyarrow.csv import write_csv

            write_csv(table, temporary)
        else:
            from pyarrow.parquet import write_table

            write_table(table, temporary)
