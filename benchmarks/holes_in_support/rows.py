"""Rows in files, one line each: written as each log ends, and found again by a run that continues."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .studies import Row, studied

SUFFIX = ".jsonl"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def read_rows(folder: Path) -> list[Row]:
    """All rows below a folder, each log of a kind of study once (the last row of it), in order."""
    found: dict[tuple[Any, ...], Row] = {}
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        for row in rows_in(file):
            found[(*kind_of(row), row["seed"])] = row
    return [found[key] for key in sorted(found)]


def rows_in(file: Path) -> Iterator[Row]:
    """The rows of a file; a line that a killed run left half written is no row."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield row


def append_row(folder: Path, task: Any, row: Row) -> None:
    """Add a row to the file of its kind."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{task.kind}{SUFFIX}").open("a+", encoding="utf-8") as file:
        file.seek(max(file.seek(0, 2) - 1, 0))
        torn = file.read(1) not in ("", "\n")
        file.write("\n" * torn + json.dumps(row) + "\n")


def left(tasks: Sequence[Any], folder: Path) -> list[Any]:
    """Those that have no row yet, or one that says that the study failed."""
    files = {task.kind: folder / f"{task.kind}{SUFFIX}" for task in tasks}
    done = {(kind, row["seed"]) for kind, file in files.items() for row in rows_in(file) if "error" not in row}
    return [task for task in tasks if (task.kind, task.seed) not in done]


def carry_out(
    tasks: Sequence[Any],
    folder: Path,
    jobs: int = 1,
    minutes: float | None = None,
    study: Callable[[Any], Row] = studied,
    beside: Row | None = None,
) -> Iterator[Row]:
    """Study what is left, some at once, writing and yielding each row as it comes, with what it tells `beside`.

    After so many minutes no further log is begun.
    """
    waiting, until = iter(left(tasks, folder)), None if minutes is None else time.monotonic() + 60 * minutes
    running: dict[Future[Row], Any] = {}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # which processes started from here read
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        while True:
            while len(running) < jobs and (until is None or time.monotonic() < until):
                task = next(waiting, None)
                if task is None:
                    break
                running[pool.submit(study, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                row = {**(beside or {}), **future.result()}
                append_row(folder, task, row)
                yield row


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def kind_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the rows of one line of a table share."""
    return row["scenario"], row["n"], row["variant"], row["learners"]
