"""Rows of a measurement, stored as they are made: a run goes on where there are rows, shards can be joined."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import poela

Row = dict[str, Any]
Task = tuple[Any, ...]


def add_flags(parser: argparse.ArgumentParser, out: str) -> None:
    """The flags of a measurement that is made log by log."""
    parser.add_argument("--logs", type=int, default=10, help="of each kind")
    parser.add_argument("--first", type=int, default=None, help="the first seed")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th log from the I-th on")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="begin no further log after so long")
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="only print what the rows there come to")


def rows_in(folder: Path) -> list[Row]:
    """Every row that a folder has, each task once."""
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return list({json.dumps(row["task"]): row for row in rows}.values())


def seeds(first: int, logs: int, shard: str) -> range:
    """The seeds of this shard.

    >>> list(seeds(100, 5, "1/2"))
    [101, 103]
    """
    place, shards = map(int, shard.split("/"))
    return range(first + place, first + logs, shards)


@cache
def commit() -> str:
    """That of the sources that are measured, as POELA_COMMIT or git tells; empty where nobody knows."""
    if told := os.environ.get("POELA_COMMIT"):
        return told
    home = Path(poela.__file__).parent
    found = subprocess.run(["git", "-C", str(home), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


def machine() -> str:
    """What rows were made on, in words.

    >>> machine().partition(" cores, ")[0].isdigit()
    True
    """
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def made_by() -> Row:
    """What every row tells beside its numbers."""
    return {"commit": commit(), "machine": machine()}


def made(work: Callable[..., Row], task: Task) -> Row:
    """The row of a task, with what evidence needs: processor seconds (if it tells none itself), commit and machine."""
    began = time.process_time()
    row = work(*task)
    return {"task": list(task), "cpu": time.process_time() - began, **made_by(), **row}


def in_turn(
    tasks: Iterable[Task], work: Callable[..., Row], jobs: int, minutes: float | None = None
) -> Iterator[tuple[Task, Row]]:
    """Tasks and what came of them, in the order in which they end; after so many minutes no further one is begun."""
    until = None if minutes is None else time.monotonic() + 60 * minutes
    waiting, running = iter(tasks), dict[Future[Row], Task]()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each process has one core
    with ProcessPoolExecutor(jobs) as pool:
        while True:
            while len(running) < jobs and (until is None or time.monotonic() < until):
                task = next(waiting, None)
                if task is None:
                    break
                running[pool.submit(work, *task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task, problem = running.pop(future), future.exception()
                if problem is None:
                    yield task, future.result()
                elif isinstance(problem, BrokenExecutor):
                    raise problem
                else:  # one log must not end a night's work; it has no row, and is begun again by the next run
                    print(f"{task} failed: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)


def carry_out(
    tasks: Sequence[Task], work: Callable[..., Row], out: Path, shard: str, jobs: int, minutes: float | None = None
) -> Iterator[Row]:
    """The row of every task that has none yet, stored at once; a task is the kind of a log and what else matters."""
    out.mkdir(parents=True, exist_ok=True)
    there = {json.dumps(row["task"]) for row in rows_in(out)}
    left = [task for task in tasks if json.dumps(task) not in there]
    for (_, task), row in in_turn([(work, task) for task in left], made, jobs, minutes):
        file = f"{str(task[0]).replace('/', '-').replace(' ', '-')}.{shard.replace('/', '-of-')}.jsonl"
        with (out / file).open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        yield row
