"""Processor seconds of one study by one thread: 17 candidates of six learners, two restarts, 2000 tumor episodes.

    OMP_NUM_THREADS=1 python benchmarks/study_cpu.py [--cross]
    python benchmarks/study_cpu.py --default [--commit f88706f] [--episodes 2000] [--repeats 3]
    python benchmarks/study_cpu.py --files [--episodes 500]

For two commits: the same with PYTHONPATH set to the other one's src. `--cross`: five folds instead of one split.
`--default`: the default study of this code and that of an earlier commit, each with the defaults of its own, on the
same log, in turn, each in a process of its own; the earlier code is checked out beside, and removed again.
`--files`: the files of one default study of this code, how often it waits for the disk, and for how many runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import poela
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate
from poela.studies.learning import learn

SPLIT = {"shares": (0.5, 0.3, 0.2)}


def candidates() -> list[Candidate]:
    """What a default study tried before paths from cautious to bold."""
    return [
        *(Candidate("fittedq", {"history": h, "backup": b}) for h in (0, 2) for b in ("max", "soft")),
        Candidate("clone", {}),
        *(Candidate("poela", {"radius": r, "variance_penalty": v}) for r in ("q75", "q90", "q97") for v in (0.1, 1.0)),
        *(Candidate("pocrm", {"variance_penalty": v}) for v in (0.1, 1.0)),
        *(Candidate("bcq", {"threshold": t}) for t in (0.1, 0.3)),
        *(Candidate("pql", {"threshold": t, "density": "nearest"}) for t in (0.1, 0.3)),
    ]


def default_study(logs: Any) -> None:
    """One default study in this process: what it chose, and what that took."""
    read = logs if isinstance(logs, poela.Trajectories) else poela.read_logs(logs)
    waits, fsync = [], os.fsync

    def counted(handle: int) -> None:
        waits.append(handle)
        fsync(handle)

    os.fsync = counted
    started = time.process_time()
    with tempfile.TemporaryDirectory() as home:
        study = learn(read, out=Path(home) / "study", backend="inline", seed=0)
        seconds = time.process_time() - started
        shown = None if study.choice.chosen is None else study.choice.chosen.metrics.get("shown")
        found = {"seconds": round(seconds, 1), "choice": study.chosen_name, "shown": shown}
        sizes = [path.stat().st_size for path in Path(home).rglob("*") if path.is_file()]
        on_disk = {"files": len(sizes), "megabytes": round(sum(sizes) / 1e6, 1), "waits": len(waits)}
        print(json.dumps({**found, **on_disk, "runs": len(study.all_runs)}))


def beside(commit: str, episodes: int, repeats: int) -> None:
    """This code and that of a commit in turn, and the ratios of their seconds, pair by pair."""
    home = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(home)]
    with tempfile.TemporaryDirectory() as folder:
        earlier, logs = Path(folder) / "earlier", str(Path(folder) / "logs.parquet")
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(earlier), commit], check=True)
        try:
            pq.write_table(simulate("tumor", episodes=episodes, seed=0).to_table(), logs)
            seconds: dict[str, list[float]] = {"this code": [], commit: []}
            for _ in range(repeats):
                for name, code in (("this code", home), (commit, earlier)):
                    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(code / "src")}
                    run = [sys.executable, __file__, "--one", logs]
                    found = json.loads(subprocess.check_output(run, env=env, text=True).splitlines()[-1])
                    seconds[name].append(found["seconds"])
                    print(f"{name:10} {found}", flush=True)
        finally:
            with suppress(subprocess.CalledProcessError):
                subprocess.run([*git, "worktree", "remove", "--force", str(earlier)], check=True)
    ratios = [one / other for one, other in zip(*seconds.values(), strict=True)]
    print(f"this code / {commit}: {min(ratios):.2f} to {max(ratios):.2f}")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--default", action="store_true", help="default studies of this code and an earlier one")
    parser.add_argument("--files", action="store_true", help="what one default study writes")
    parser.add_argument("--commit", default="f88706f")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--one", metavar="LOGS", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return default_study(asked.one)
    if asked.files:
        return default_study(simulate("tumor", episodes=asked.episodes, seed=0))
    if asked.default:
        return beside(asked.commit, asked.episodes, asked.repeats)
    how = {} if asked.cross else SPLIT
    logs = simulate("tumor", episodes=2000, seed=0)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as home:
        learn(logs, candidates=candidates(), restarts=2, out=Path(home) / "study", jobs=1, backend="inline", **how)
    print(f"{time.process_time() - started:.1f} s of the processor, {Path(poela.__file__).parent}")
    return None


if __name__ == "__main__":
    main()
