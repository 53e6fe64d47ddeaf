"""A log of ten million steps from file to verdict: seconds, peak memory and growth of each stage.

    python benchmarks/ten_million.py --rows 100000 300000 1000000
    python benchmarks/ten_million.py --rows 10000000 --stages read eligibility learn evaluate

Stages, each in a process of its own: read the Parquet file; distances of an approximate rule along the log; one fit of
POELA with 100 steps; its evaluation with an interval. The log is simulated: 44 features, 5 actions, episodes of 20
steps. Peak memory is of the whole process, reading included.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import HERE, growth

FEATURES, ACTIONS, STEPS = 44, 5, 20
ROW_GROUP = 500_000
STAGES = ("read", "eligibility", "learn", "evaluate")
RADIUS = 0.8


def write_log(path: Path, rows: int) -> None:
    """Correlated features; actions and rewards depend on them; the propensities of all actions are logged."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((12, FEATURES), dtype=np.float32) / np.float32(12**0.5)
    tastes = rng.standard_normal((FEATURES, ACTIONS), dtype=np.float32) / 8
    writer = None
    for start in range(0, rows, ROW_GROUP):
        row = np.arange(start, min(start + ROW_GROUP, rows))
        contexts = 0.7 * rng.standard_normal((len(row), 12), dtype=np.float32) @ mixing
        contexts += 0.7 * rng.standard_normal((len(row), FEATURES), dtype=np.float32)
        scores = np.exp(contexts @ tastes)
        shares = scores / scores.sum(axis=1, keepdims=True)
        actions = (shares.cumsum(axis=1) < rng.random((len(row), 1))).sum(axis=1).clip(max=ACTIONS - 1)
        columns: dict[str, Any] = {"episode": row // STEPS, "step": row % STEPS}
        columns |= {f"x{feature}": contexts[:, feature] for feature in range(FEATURES)}
        columns |= {"action": actions, "reward": contexts[:, 0] * (actions == 1) / STEPS}
        columns |= {"propensity": shares[np.arange(len(row)), actions].astype(np.float64)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def file_of(rows: int) -> Path:
    """The log, written once by another process."""
    path = Path(tempfile.gettempdir()) / f"poela-bench-large-{rows}.parquet"
    if not path.exists():
        writing = multiprocessing.get_context("spawn").Process(target=write_log, args=(path, rows))
        writing.start()
        writing.join()
    return path


def learner(logs: Any) -> Any:
    """POELA with 100 steps, on parts of a large log."""
    from poela import POELA

    batch = 5000 if logs.n_episodes > 5000 else None
    return POELA(
        radius=RADIUS, search="approximate", steps=100, warm_start_steps=20, hidden=(32, 32), batch_episodes=batch
    )


def stage(name: str, rows: int) -> dict[str, float]:
    """One stage here; what it needs from earlier ones is done before the clock starts."""
    path = file_of(rows)
    from poela import Eligibility, evaluate, load_policy, read_logs

    policy_path = path.with_suffix(".policy")
    logs = None if name == "read" else read_logs(path)
    policy = load_policy(policy_path) if name == "evaluate" else None
    started, work = time.perf_counter(), time.process_time()
    if name == "read":
        read_logs(path)
    elif name == "eligibility":
        Eligibility(radius=RADIUS, search="approximate").fit(logs).along(logs)
    elif name == "learn":
        learner(logs).fit(logs, seed=0).save(policy_path, overwrite=True)
    else:
        print(evaluate(policy, logs), file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": time.process_time() - work, "clock": time.perf_counter() - started, "peak_mb": round(peak)}


def main() -> None:
    """Run the stages at every size, print, and store as `bench.py` does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(stage(asked.stages[0], asked.rows[0])))
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.stages:
        rows = []
        for size in asked.rows:
            command = [sys.executable, __file__, "--here", "--stages", name, "--rows", str(size)]
            env = {"OMP_NUM_THREADS": "1"} | dict(os.environ)
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{name:12} {size:>12,} could not be done (exit code {done.returncode})", flush=True)
                continue
            figures = json.loads(done.stdout.splitlines()[-1])
            clock = f"{figures['seconds']:8.1f} s of the processor, {figures['clock']:8.1f} s of the clock"
            print(f"{name:12} {size:>12,} {clock}, peak {figures['peak_mb']:,} MB", flush=True)
            row = {"case": f"{name}: steps with {FEATURES} features", "size": size, "ours": figures["seconds"]}
            empty = {"alternative": None, "alternative_name": "", "floor": None, "floor_name": ""}
            rows.append({**row, **empty, "peak_mb": figures["peak_mb"]})
        exponent = growth([row["size"] for row in rows], [row["ours"] for row in rows])
        print(f"{name:12} grows like size^{exponent:.2f}" if exponent is not None else "", flush=True)
        result = {"benchmark": f"ten_million_{name}", "rows": rows, "exponent": exponent}
        (asked.out / f"ten_million_{name}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
