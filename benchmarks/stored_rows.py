"""Rows of a measurement, stored as they are made: a run goes on where there are rows, shards can be joined."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Task = tuple[Any, ...]


def add_flags(parser: argparse.ArgumentParser, out: str) -> None:
    """The flags of a measurement that is made log by log."""
    parser.add_argument("--logs", type=int, default=10, help="of each kind")
    parser.add_argument("--first", type=int, default=None, help="the first seed")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th log from the I-th on")
    parser.add_argument("--jobs", type=int, default=1)
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


def carry_out(tasks: Sequence[Task], work: Callable[..., Row], out: Path, shard: str, jobs: int) -> Iterator[Row]:
    """The row of every task that has none yet, stored at once; a task is the kind of a log and what else matters."""
    out.mkdir(parents=True, exist_ok=True)
    there = {json.dumps(row["task"]) for row in rows_in(out)}
    left = [task for task in tasks if json.dumps(task) not in there]
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(work, *task): task for task in left}
        for future in as_completed(futures):
            task = futures[future]
            row = {"task": list(task), **future.result()}
            file = f"{str(task[0]).replace('/', '-').replace(' ', '-')}.{shard.replace('/', '-of-')}.jsonl"
            with (out / file).open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            yield row
