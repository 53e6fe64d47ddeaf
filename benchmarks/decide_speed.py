"""Deciding about the rows of a file, beside `policy.probabilities` alone.

    python benchmarks/bench.py decide_speed

The policy is learned from logs of the tumor simulator. "Probabilities" reads the contexts into memory and asks for
nothing else; deciding reads the file, writes another, and tells eligible actions, distances, similar cases and what
came of them.
"""

import tempfile
from pathlib import Path

import numpy as np
from measuring import Speed, Work

from poela import POELA, LogLayout, load_policy, read_logs
from poela.core.ragged import returns_to_go
from poela.policies.deciding import Deciding
from poela.serving.decide import decide_file
from poela.simulators.registry import simulate


def prepared(rows: int) -> Path:
    """A folder with a policy, what came of its logged cases, and rows that look like other logs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.gettempdir()) / f"poela-bench-decide-{rows}"
    if (folder / "rows.parquet").exists():
        return folder
    folder.mkdir(exist_ok=True)
    logs = read_logs(simulate("tumor", episodes=500, seed=0).to_table())
    POELA(radius="q50", steps=50).fit(logs, seed=0).save(folder / "policy", overwrite=True)
    np.save(folder / "outcomes.npy", returns_to_go(logs.rewards, logs.offsets))
    table: pa.Table = simulate("tumor", episodes=-(-rows // 30), seed=1).to_table()
    pq.write_table(table.slice(0, rows), folder / "rows.parquet")
    return folder


def deciding(rows: int) -> Work:
    """From file to file, with everything that is told."""
    folder = prepared(rows)
    policy, told = load_policy(folder / "policy"), Deciding(outcomes=np.load(folder / "outcomes.npy"))
    out = folder / "decisions.parquet"

    def work() -> None:
        out.unlink(missing_ok=True)
        decide_file(policy, folder / "rows.parquet", out, told)

    return work


def probabilities(rows: int) -> Work:
    """The least."""
    folder = prepared(rows)
    policy = load_policy(folder / "policy")
    layout = LogLayout().fixed_by(policy.table_schema, policy.action_space)
    return lambda: policy.along(read_logs(folder / "rows.parquet", layout=layout))


SPEED = Speed(
    case="Rows of a Parquet file, decided by a network under a radius rule",
    ours=deciding,
    floor=probabilities,
    floor_name="reading the rows and policy.probabilities",
    sizes=(10_000, 30_000, 100_000),
    large=(100_000, 300_000, 1_000_000),
)
