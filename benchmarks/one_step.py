"""One-step logs of 20 features and 5 actions, from rows to an answer: seconds, peak memory and how both grow.

    python benchmarks/one_step.py --rows 10000 100000 --out one-step/
    python benchmarks/one_step.py --rows 1000000 --jobs 2 --out one-step/
    python benchmarks/one_step.py --rows 10000 --econml ../econml/bin/python --out one-step/
    python benchmarks/one_step.py --table one-step/

`study` is `poela.learn` with its default learners; the log has the propensity of the logged action alone. `econml` is
EconML's `DRPolicyForest` with its defaults on the same rows, by an interpreter that has EconML: it learns one policy,
with estimated propensities, and claims nothing about it. Each run is a process of its own, with one thread in each of
`--jobs` processes; peak memory is of the largest process. Rows are stored with their commit as they are made.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import HERE, growth

FEATURES, ACTIONS = 20, 5


def rows_of(count: int) -> dict[str, Any]:
    """Contexts, actions that depend on them, rewards of which a part can be gained, and logged propensities."""
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((count, FEATURES), dtype=np.float32)
    tastes = rng.normal(size=(FEATURES, ACTIONS)) / 8
    shares = np.exp(contexts @ tastes)
    shares /= shares.sum(axis=1, keepdims=True)
    actions = (shares.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1).clip(max=ACTIONS - 1)
    effects = rng.normal(size=(3, ACTIONS)) / 4
    rewards = contexts[:, 3] + (contexts[:, :3] @ effects)[np.arange(count), actions] + rng.normal(size=count)
    propensities = shares[np.arange(count), actions]
    return {"contexts": contexts, "actions": actions, "rewards": rewards, "propensities": propensities}


def study(count: int, jobs: int) -> dict[str, Any]:
    """A default study; its choice and what is shown."""
    import poela

    logs = poela.Trajectories(**rows_of(count), offsets=np.arange(count + 1), n_actions=ACTIONS)
    backend = "inline" if jobs == 1 else "local"
    with tempfile.TemporaryDirectory() as home:
        done = poela.learn(logs, out=Path(home) / "study", backend=backend, jobs=jobs, seed=0)
        chosen = done.choice.chosen
        shown = None if chosen is None else chosen.metrics.get("shown")
        return {"choice": done.chosen_name, "shown": shown}


def econml(count: int, jobs: int) -> dict[str, Any]:
    """EconML's forest of policies."""
    from econml.policy import DRPolicyForest

    rows = rows_of(count)
    forest = DRPolicyForest(n_jobs=jobs, random_state=0)
    forest.fit(rows["rewards"], rows["actions"], X=rows["contexts"])
    return {"choice": str(np.bincount(forest.predict(rows["contexts"][:10_000]), minlength=ACTIONS))}


WAYS = {"study": study, "econml": econml}


def here(way: str, count: int, jobs: int) -> None:
    """One run in this process."""
    import resource  # of POSIX

    started, wall = time.process_time(), time.monotonic()
    found = WAYS[way](count, jobs)
    wall, seconds = time.monotonic() - wall, time.process_time() - started
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, children.ru_maxrss) / 1024
    seconds += children.ru_utime + children.ru_stime
    print(json.dumps({**found, "seconds": round(seconds, 1), "wall": round(wall, 1), "peak_mb": round(peak)}))


def table(folder: Path) -> None:
    """Every row, and by which power of the number of rows seconds and memory grow."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    print("| way | rows | jobs | processor s | wall s | peak MB | commit |\n|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda one: (one["way"], one["rows"])):
        told = [row["way"], f"{row['rows']:,}", *(row[name] for name in ("jobs", "seconds", "wall", "peak_mb"))]
        print("| " + " | ".join(map(str, [*told, row["commit"]])) + " |")
    for way in WAYS:
        own = [row for row in rows if row["way"] == way]
        for name in ("seconds", "peak_mb"):
            exponent = growth([row["rows"] for row in own], [row[name] for row in own]) if own else None
            if exponent is not None:
                print(f"\n{way}: {name} grow like rows^{exponent:.2f}.")


def main() -> None:
    """Run what is asked for, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--econml", metavar="PYTHON", help="an interpreter that has EconML: run it instead")
    parser.add_argument("--out", type=Path, default=Path("one-step"))
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="only print the rows there")
    parser.add_argument("--here", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        return here(asked.here, asked.rows[0], asked.jobs)
    if asked.table:
        return table(asked.table)
    asked.out.mkdir(parents=True, exist_ok=True)
    way, python = ("econml", asked.econml) if asked.econml else ("study", sys.executable)
    commit = subprocess.check_output(["git", "-C", HERE, "describe", "--always", "--dirty"], text=True).strip()
    env = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    for count in asked.rows:
        run = [python, __file__, "--here", way, "--rows", str(count), "--jobs", str(asked.jobs)]
        figures = json.loads(subprocess.check_output(run, env=env, text=True).splitlines()[-1])
        row = {"way": way, "rows": count, "jobs": asked.jobs, **figures, "commit": commit}
        with (asked.out / "rows.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")
    return table(asked.out)


if __name__ == "__main__":
    main()
