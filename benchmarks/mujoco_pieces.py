"""The pieces of `poela reproduce mujoco --full`, side by side; the command itself then puts them together.

d3rlpy has an environment of its own: `--environment` makes it where it is missing (needs a package index), or
POELA_D3RLPY_PYTHON names its Python; BCQ and CQL are left out without either. A piece that is there is not made again,
and none is begun after the time is up.

export OMP_NUM_THREADS=1
python benchmarks/mujoco_pieces.py --out DIRECTORY [--processes 16] [--seconds 450] [--environment E]
poela reproduce mujoco --full --out DIRECTORY
"""

import argparse
import multiprocessing
import os
import tarfile
import time
import traceback
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.mujoco_tasks import INTERPRETER, PEERS, RobotLog, Task, tasks_of

Told = tuple[str, float, str]  # a name, the seconds it took, and what went wrong


def main() -> None:
    """Make them, and pack what is finished every half a minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--size", default="full")
    parser.add_argument(
        "--peer-seconds", type=float, help="train BCQ and CQL for about so long each, as measured first"
    )
    parser.add_argument("--only", nargs="*", help="pieces whose names contain one of these")
    parser.add_argument("--environment", type=Path, help="the directory of d3rlpy's environment")
    options = parser.parse_args()
    if options.environment:
        from compare_d3rlpy import python_with_d3rlpy

        os.environ[INTERPRETER] = python_with_d3rlpy(options.environment)
    end = time.monotonic() + options.seconds
    run = Run("mujoco", options.out, Size.of("mujoco", options.size))
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        _make(pool, run, options, end)


def _make(pool: Any, run: Run, options: argparse.Namespace, end: float) -> None:
    wanted = [task for task in tasks_of(run) if not options.only or any(part in task.name for part in options.only)]
    logs = {log for task in wanted for log in needed(task)}
    _follow(pool.imap_unordered(_log, [(log, end) for log in sorted(logs, key=shorter)]), options.out)
    jobs = [(run, task, end) for task in mixed(wanted)]
    _follow(pool.imap_unordered(_piece, jobs), options.out)


def needed(task: Task) -> Iterable[RobotLog]:
    """The logs that a piece reads."""
    return (part for part in task.arguments if isinstance(part, RobotLog))


def shorter(log: RobotLog) -> int:
    """By how much a log is shorter than an expert's, which takes longest."""
    return ("expert", "medium", "random").index(log.level)


def mixed(tasks: list[Task]) -> list[Task]:
    """Those of d3rlpy, which wait for a GPU, in turn with ours, which do not; long ones first."""
    ordered = sorted(tasks, key=lambda task: shorter(task.log))
    peers = [task for task in ordered if task.learner in PEERS]
    own = [task for task in ordered if task.learner not in PEERS]
    rounds = zip_longest(peers, own[::2], own[1::2])
    return [task for task in chain.from_iterable(rounds) if task is not None]


def _log(job: tuple[RobotLog, float]) -> Told | None:
    log, end = job
    return _timed(log.name, log.made, end)


def _piece(job: tuple[Run, Task, float]) -> Told | None:
    run, task, end = job
    return _timed(task.name, lambda: run.made({task.name: task.part}, side_by_side=False), end)


def _timed(name: str, make: Callable[[], Any], end: float) -> Told | None:
    started = time.monotonic()
    if started > end:
        return None
    try:
        make()
    except Exception:
        return name, time.monotonic() - started, traceback.format_exc()
    return name, time.monotonic() - started, ""


def _follow(told: Iterable[Told | None], out: Path) -> None:
    started = packed = time.monotonic()
    for item in told:
        now = time.monotonic()
        if item is not None:
            print(f"{now - started:.0f} s: {item[0]} took {item[1]:.1f} s {item[2]}", flush=True)
        if now - packed > 30:
            _pack(out)
            packed = now
    _pack(out)


def _pack(out: Path) -> None:
    """All finished pieces in one file."""
    whole = out / "kept.tar.gz"
    with tarfile.open(whole.with_suffix(".part"), "w:gz") as archive:
        for file in sorted((out / "kept").glob("*.json")):
            archive.add(file, f"kept/{file.name}")
    whole.with_suffix(".part").replace(whole)


if __name__ == "__main__":
    main()
