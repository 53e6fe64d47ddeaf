"""Runs on a GPU: candidates that can be are learned as one stack, and scored by threads beside it."""

import time
from collections.abc import Generator, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from poela.core.errors import PoelaError
from poela.core.interruption import safe_point
from poela.learners.stacked import stack_key
from poela.studies.execution import POLL_SECONDS, Outcome, run_local
from poela.studies.fold_data import Folds
from poela.studies.records import Task
from poela.studies.runs import OTHER_ERRORS, Result, learned_by, one_thread, result_of

MOST_IN_A_STACK = 128  # so that finished runs are written every so often


def run_stacked(
    tasks: Sequence[Task], directory: Path, jobs: int, deadline: float | None = None
) -> Generator[Outcome, None, None]:
    """What cannot be stacked first, in worker processes on the CPU: it is quick, and says early what can be had.

    Then the stacks, on the GPU; between them the deadline is looked at.
    """
    folds = Folds(directory)
    stacks, rest = stacks_of(tasks)
    if rest:
        yield from run_local(rest, directory, jobs, deadline, use_gpu=False)
    waiting: dict[Future[Result], Task] = {}
    with one_thread(), ThreadPoolExecutor(jobs) as threads:
        for stack in stacks:
            if deadline is not None and time.monotonic() >= deadline:
                break
            started = time.monotonic()
            fold = folds.of(stack[0])
            _ = fold.evaluator  # made here, before several threads ask for it
            for task, learned in zip(stack, learned_by(stack, fold), strict=True):
                waiting[threads.submit(result_of, task, learned, fold, started)] = task
            yield from _ready(waiting, wait_for_all=False)
        yield from _ready(waiting, wait_for_all=True)


def has_gpu() -> bool:
    """Whether there is a GPU that torch can use."""
    import torch

    return torch.cuda.is_available()


def stacks_of(tasks: Sequence[Task]) -> tuple[list[list[Task]], list[Task]]:
    """The tasks that can be learned together, stack by stack, and those that cannot.

    >>> from poela.studies.candidates import Candidate
    >>> tasks = [Task(Candidate(name), restart, seed=restart) for restart in (0, 1) for name in ("poela", "fittedq")]
    >>> [len(stack) for stack in stacks_of(tasks)[0]], len(stacks_of(tasks)[1])
    ([2], 2)
    """
    together: dict[Hashable, list[Task]] = {}
    rest = []
    for task in tasks:
        key = _key(task)
        if key is None:
            rest.append(task)
        else:
            together.setdefault((task.fold, key), []).append(task)
    parts = (own[start : start + MOST_IN_A_STACK] for own in together.values() for start in _starts(own))
    return list(parts), rest


def _starts(tasks: Sequence[Task]) -> range:
    return range(0, len(tasks), MOST_IN_A_STACK)


def _key(task: Task) -> Hashable:
    """None for a candidate that cannot be built: its own run says why."""
    try:
        return stack_key(task.candidate.build())
    except (PoelaError, *OTHER_ERRORS):
        return None


def _ready(waiting: "dict[Future[Result], Task]", *, wait_for_all: bool) -> Generator[Outcome, None, None]:
    while waiting:
        safe_point()
        done, _ = wait(waiting, timeout=POLL_SECONDS if wait_for_all else 0, return_when=FIRST_COMPLETED)
        if not done and not wait_for_all:
            return
        for future in done:
            yield waiting.pop(future), future.result()
