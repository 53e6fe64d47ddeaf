"""Rows in files, one line each: written as each log ends, found again by a run that continues, and made into tables."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from .studies import Row, Task, studied

SUFFIX = ".jsonl"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def read_rows(folder: Path) -> list[Row]:
    """All rows below a folder, each log of a kind of study once (the last row of it), in order."""
    found: dict[tuple[Any, ...], Row] = {}
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        for row in rows_in(file):
            found[(*_group(row), row["seed"])] = row
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


def append_row(folder: Path, task: Task, row: Row) -> None:
    """Add a row to the file of its kind."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{task.kind}{SUFFIX}").open("a+", encoding="utf-8") as file:
        file.seek(max(file.seek(0, 2) - 1, 0))
        torn = file.read(1) not in ("", "\n")
        file.write("\n" * torn + json.dumps(row) + "\n")


def left(tasks: Sequence[Task], folder: Path) -> list[Task]:
    """Those that have no row yet, or one that says that the study failed."""
    files = {task.kind: folder / f"{task.kind}{SUFFIX}" for task in tasks}
    done = {(kind, row["seed"]) for kind, file in files.items() for row in rows_in(file) if "error" not in row}
    return [task for task in tasks if (task.kind, task.seed) not in done]


def carry_out(tasks: Sequence[Task], folder: Path, jobs: int = 1, minutes: float | None = None) -> Iterator[Row]:
    """Study what is left, some at once, writing and yielding each row as it comes.

    After so many minutes no further log is begun.
    """
    waiting, until = iter(left(tasks, folder)), None if minutes is None else time.monotonic() + 60 * minutes
    running: dict[Future[Row], Task] = {}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # which processes started from here read
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        while True:
            while len(running) < jobs and (until is None or time.monotonic() < until):
                task = next(waiting, None)
                if task is None:
                    break
                running[pool.submit(studied, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                append_row(folder, task, future.result())
                yield future.result()


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


COLUMNS = (
    *("scenario", "cases", "variant", "learners", "logs", "claims", "false", "harmful", "shown", "true"),
    *("shown per log", "in the hole", "promising: true", "promising: in the hole", "barred", "seconds"),
)


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line for each kind of study, then all scenarios of a variant and size together.

    Shown and true are means over claims; *shown per log* counts 0 where nothing is claimed. *False* is a claim above
    the truth, *harmful* a recommended policy that is worse than practice, *in the hole* how often the recommended
    policy takes there what nobody took, *barred* the share of held-out logged decisions that its rule does not allow.
    """
    rows = [*rows]
    whole = [row for row in rows if "error" not in row]
    lines = [_line(*group) for group in _grouped(whole, _group)]
    head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    together = [pooled(variant, group) for variant, group in _grouped(whole, lambda row: _group(row)[1:])]
    failed = [f"{len(rows) - len(whole)} studies failed and are left out."] if len(whole) < len(rows) else []
    mixed = [kind for kind, group in _grouped(whole, _group) if len({row.get("code") for row in group}) > 1]
    versions = [f"{len(mixed)} lines mix rows of several versions of the code."] if mixed else []
    return "\n".join([*head, *lines, "", *together, *failed, *versions])


def pooled(kind: Sequence[Any], rows: Sequence[Row]) -> str:
    """One line on all scenarios together."""
    claims, false, harmful = (sum(row[name] for row in rows) for name in ("claimed", "false", "harmful"))
    n, variant, learners = kind
    return (
        f"- {variant}, {n} cases, {learners} learners: {len(rows)} logs, {claims} claims; above the truth {false}, "
        f"{_share(false, len(rows))} of logs, {_share(false, claims)} of claims; harmful {harmful}, "
        f"{_share(harmful, len(rows))} of logs (95% Clopper–Pearson)."
    )


def clopper_pearson(hits: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval for a share.

    >>> [round(end, 4) for end in clopper_pearson(0, 60)]  # 1 - 0.025^(1/60)
    [0.0, 0.0596]
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, of - hits + 1))
    high = 1.0 if hits == of else float(beta.ppf(1 - tail, hits + 1, of - hits))
    return low, high


def _share(hits: int, of: int) -> str:
    if not of:
        return "none"
    low, high = clopper_pearson(hits, of)
    return f"{hits / of:.1%} [{low:.1%}, {high:.1%}]"


def _line(kind: Sequence[Any], rows: Sequence[Row]) -> str:
    claims = [row for row in rows if row["claimed"]]
    cells = [
        *(*kind, len(rows), len(claims)),
        *(sum(row[name] for row in rows) for name in ("false", "harmful")),
        *(_mean(claims, "shown"), _mean(claims, "true")),
        f"{sum(row['shown'] for row in claims) / len(rows):.3f}",
        *(_mean(rows, "in_hole", "%"), _mean(rows, "promising_true")),
        *(_mean(rows, "promising_in_hole", "%"), _mean(rows, "barred", "%")),
        f"{fmean(row['seconds'] for row in rows):.0f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _mean(rows: Sequence[Mapping[str, Any]], name: str, unit: str = "") -> str:
    known = [row[name] for row in rows if row.get(name) is not None]
    if not known:
        return ""
    return f"{fmean(known):.1%}" if unit else f"{fmean(known):.3f}"


def _group(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["scenario"], row["n"], row["variant"], row["learners"]


def _grouped(rows: Sequence[Row], key: Any) -> Iterator[tuple[Any, list[Row]]]:
    for kind, group in groupby(sorted(rows, key=key), key):
        yield kind, [*group]
