"""Reading a large log: seconds and peak memory of `read_logs`, beside pandas doing the same job.

    python benchmarks/read_logs.py --rows 10000000 --features 44

Each reader runs in a process of its own. "Data" is rows × features × 4 bytes, the size of the contexts; the peak is the
whole process, interpreter and libraries included. The pandas reader does what a careful user would write: read the
columns, sort by episode and step, look for duplicates and values that are not finite, and take float32 contexts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS_PER_EPISODE = 20
ROW_GROUP = 1_000_000


def write_log(path: Path, rows: int, features: int, shuffled: bool) -> None:
    """Random logs in the default layout, written one row group at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    order = rng.permutation(rows) if shuffled else np.arange(rows)
    writer = None
    for start in range(0, rows, ROW_GROUP):
        part = order[start : start + ROW_GROUP]
        columns: dict[str, Any] = {"episode": part // STEPS_PER_EPISODE, "step": part % STEPS_PER_EPISODE}
        columns |= {f"x{column}": rng.standard_normal(len(part), dtype=np.float32) for column in range(features)}
        columns |= {"action": rng.integers(0, 5, len(part)), "reward": rng.standard_normal(len(part))}
        table = pa.table(columns | {"propensity": np.full(len(part), 0.2)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def read_with_poela(path: str) -> tuple[int, ...]:
    """Our reader."""
    from poela.data.tables import read_logs

    return read_logs(path).contexts.shape


def read_with_pandas(path: str) -> tuple[int, ...]:
    """The alternative."""
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(path).sort_values(["episode", "step"])
    contexts = frame.drop(columns=["episode", "step", "action", "reward", "propensity"]).to_numpy(np.float32)
    lengths = frame.groupby("episode").size()
    sound = np.isfinite(contexts).all() and np.isfinite(frame["reward"]).all() and not frame.isna().any(axis=None)
    sound = sound and frame["propensity"].between(0, 1).all() and not frame.duplicated(["episode", "step"]).any()
    return contexts.shape if sound and lengths.sum() == len(frame) else ()


READERS = {"poela": read_with_poela, "pandas": read_with_pandas}


def measure(reader: str, path: Path) -> dict[str, float]:
    """Seconds and peak bytes of one reader in a fresh process."""
    command = [sys.executable, __file__, "--reader", reader, "--path", str(path)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def report_one(reader: str, path: str) -> None:
    """Run one reader here and print its figures as JSON."""
    start, start_of_work = time.perf_counter(), time.process_time()
    shape = READERS[reader](path)
    seconds, work = time.perf_counter() - start, time.process_time() - start_of_work
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "work": work, "peak": peak, "rows": shape[0]}))


def main() -> None:
    """Write the log, run both readers, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=44)
    parser.add_argument("--shuffled", action="store_true", help="rows in random order")
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        report_one(arguments.reader, arguments.path)
        return
    data = arguments.rows * arguments.features * 4
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "logs.parquet"
        write_log(path, arguments.rows, arguments.features, arguments.shuffled)
        figures = {reader: measure(reader, path) for reader in READERS}
    for reader, figure in figures.items():
        times = f"{figure['seconds']:6.1f} s ({figure['work']:.1f} s of processor time)"
        print(f"{reader:7} {times}, peak {figure['peak'] / data:.2f} x data")
    print(f"poela takes {figures['poela']['seconds'] / figures['pandas']['seconds']:.2f} of the time of pandas")


if __name__ == "__main__":
    main()
