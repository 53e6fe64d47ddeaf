"""Reading a large log: `read_logs` beside pandas doing the same job, and beside a bare read of the columns.

    python benchmarks/bench.py read_logs

The pandas reader does what a careful user would write: read the columns, sort by episode and step, look for duplicates
and values that are not finite, and take float32 contexts.
"""

import tempfile
from pathlib import Path
from typing import Any

from measuring import Speed, Work

FEATURES = 44
STEPS_PER_EPISODE = 20
ROW_GROUP = 1_000_000


def write_log(path: Path, rows: int, features: int = FEATURES, shuffled: bool = False) -> None:
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


def _file(rows: int) -> str:
    """Written by another process, so that its memory is not counted here."""
    import multiprocessing

    path = Path(tempfile.gettempdir()) / f"poela-bench-{rows}x{FEATURES}.parquet"
    if not path.exists():
        writing = multiprocessing.get_context("spawn").Process(target=write_log, args=(path, rows))
        writing.start()
        writing.join()
    return str(path)


def by_poela(rows: int) -> Work:
    """Our reader."""
    path = _file(rows)
    from poela.data.tables import read_logs

    return lambda: read_logs(path).contexts.shape


def by_pandas(rows: int) -> Work:
    """The alternative."""
    import numpy as np
    import pandas as pd

    path = _file(rows)

    def work() -> bool:
        frame = pd.read_parquet(path).sort_values(["episode", "step"])
        contexts = frame.drop(columns=["episode", "step", "action", "reward", "propensity"]).to_numpy(np.float32)
        sound = np.isfinite(contexts).all() and np.isfinite(frame["reward"]).all() and not frame.isna().any(axis=None)
        sound = sound and frame["propensity"].between(0, 1).all() and not frame.duplicated(["episode", "step"]).any()
        return bool(sound) and frame.groupby("episode").size().sum() == len(frame)

    return work


def bare(rows: int) -> Work:
    """Nothing but reading the columns."""
    import pyarrow.parquet as pq

    path = _file(rows)
    return lambda: pq.read_table(path)


SPEED = Speed(
    case=f"Rows of a Parquet file with {FEATURES} features",
    ours=by_poela,
    alternative=by_pandas,
    alternative_name="pandas, with the same checks",
    floor=bare,
    floor_name="bare read of the columns by pyarrow",
    sizes=(30_000, 100_000, 300_000),
    large=(1_000_000, 3_000_000, 10_000_000),
)
