"""Deciding about a million rows: seconds and peak memory of `decide_file`, beside `policy.probabilities` alone.

    python benchmarks/decide_speed.py --rows 1000000

The policy is learned from logs of the tumor simulator. "Probabilities" reads the contexts into memory and asks for
nothing else; deciding reads the file, writes another, and tells eligible actions, distances, similar cases and what
came of them.
Each runs in a process of its own, on as many threads as OMP_NUM_THREADS allows.
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


def prepare(folder: Path, rows: int, kind: str) -> None:
    """A policy, what came of its logged cases, and rows that look like other logs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from poela import POELA, FittedQ, read_logs
    from poela.core.ragged import returns_to_go
    from poela.simulators.registry import simulate

    logs = read_logs(simulate("tumor", episodes=500, seed=0).to_table())
    learner: Any = {"poela": POELA(radius="q50", steps=50), "fittedq": FittedQ()}[kind]
    learner.fit(logs, seed=0).save(folder / "policy")
    np.save(folder / "outcomes.npy", returns_to_go(logs.rewards, logs.offsets))
    table = simulate("tumor", episodes=rows // 20, seed=1).to_table()
    copies = -(-rows // table.num_rows)
    parts = [
        table.set_column(0, "episode", pa.array(table["episode"].to_numpy() + copy * 10**7)) for copy in range(copies)
    ]
    whole = pa.concat_tables(parts).slice(0, rows)
    pq.write_table(whole, folder / "rows.parquet")
    pyarrow.csv.write_csv(whole, folder / "rows.csv")


def run(folder: Path, what: str) -> dict[str, float]:
    """Seconds and peak bytes of one way, in this process."""
    import numpy as np

    from poela import load_policy, read_logs
    from poela.policies.deciding import Deciding
    from poela.serving.decide import decide_file

    policy = load_policy(folder / "policy")
    start, begun = time.perf_counter(), time.process_time()
    if what == "probabilities":
        from poela import LogLayout

        logs = read_logs(folder / "rows.parquet", layout=LogLayout().fixed_by(policy.table_schema, policy.action_names))
        policy.along(logs)
    else:
        outcomes = np.load(folder / "outcomes.npy")
        decide_file(policy, folder / f"rows.{what}", folder / f"decisions.{what}", Deciding(outcomes=outcomes))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": time.perf_counter() - start, "work": time.process_time() - begun, "peak": peak}


def main() -> None:
    """Prepare, run each way in a process of its own, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--policy", choices=("poela", "fittedq"), default="poela")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(Path(arguments.folder), arguments.run)))
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), arguments.rows, arguments.policy)
        found = {}
        for what in ("probabilities", "parquet", "csv"):
            command = [sys.executable, __file__, "--run", what, "--folder", folder]
            found[what] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for what, figure in found.items():
        ratio = figure["seconds"] / found["probabilities"]["seconds"]
        times = f"{figure['seconds']:6.1f} s ({ratio:.1f} x; {figure['work']:.1f} s of processor time)"
        print(f"{what:14} {times}, peak {figure['peak'] / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
