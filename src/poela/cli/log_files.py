"""Writing logs to a file by its ending."""

from pathlib import Path

from poela.core.files import atomic_file
from poela.core.outputs import output_file
from poela.data.spreadsheets import harmless
from poela.data.trajectories import Trajectories


def file_for_logs(out: str, overwrite: bool) -> Path:
    """The path of a log to be written; refuses what is no place for one, or already somebody's file."""
    return output_file(out, "logs", overwrite=overwrite, endings=(".parquet", ".csv"))


def write_logs(logs: Trajectories, path: Path, overwrite: bool) -> None:
    """Write the logs as Parquet or CSV, whole or not at all."""
    table = logs.to_table()
    with atomic_file(path, replacing=overwrite) as temporary:
        if path.suffix == ".csv":
            from pyarrow.csv import write_csv

            write_csv(harmless(table), temporary)
        else:
            from pyarrow.parquet import write_table

            write_table(table, temporary)
