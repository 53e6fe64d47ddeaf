"""Where runs are carried out: in this process, in worker processes on this machine, or on a Ray cluster."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO, cast

import poela
from poela.core.errors import PoelaError
from poela.core.interruption import safe_point
from poela.core.live import packed, references_in
from poela.core.storage import read_json
from poela.core.typed import to_plain
from poela.learners.policy_gradient import PolicyGradient
from poela.learners.rules import Rules
from poela.learners.stacked import StackedLearner
from poela.studies.fold_data import BEHAVIOR_FORMAT, MATERIAL, Folds
from poela.studies.records import Task
from poela.studies.runs import Result, carry_out
from poela.studies.worker import read_result, write_frame

# Which run comes next in which worker: cheap learners first, path by path, so that an answer is there early.

# The short ones first, then these: a search over rules, passes over the log at each step, and batches of it.
LATER = (Rules, PolicyGradient, StackedLearner)


def staged(tasks: Sequence[Task]) -> list[Task]:
    """The runs in the order in which they are begun: a path is finished in all folds before the next one.

    >>> from poela.studies.candidates import Candidate
    >>> names = ("bcq", "poela", "fittedq", "rules")
    >>> [task.candidate.learner for task in staged([Task(Candidate(name), 0, 0, 0) for name in names])]
    ['fittedq', 'rules', 'poela', 'bcq']
    """
    return sorted(tasks, key=_stage)


class Waiting:
    """The runs that no worker has begun; workers are known by number.

    A fold costs time before its first run (its distances, its model of values), in each worker anew: so a worker goes
    along the paths with the folds that it has prepared, and those that nobody has. `in_order`: strictly one path after
    the other instead, so that a study which is cut short has finished what it has begun.

    >>> from poela.studies.candidates import Candidate
    >>> tasks = [Task(Candidate(name), 0, 0, fold) for name in ("poela", "fittedq") for fold in (0, 1)]
    >>> waiting = Waiting(tasks)
    >>> [f"{task.candidate}, {task.fold}" for task in map(waiting.take, (7, 8, 7, 8)) if task]
    ['fittedq, 0', 'fittedq, 1', 'poela, 0', 'poela, 1']
    """

    def __init__(self, tasks: Sequence[Task], *, in_order: bool = False) -> None:
        self._left = staged(tasks)
        self._in_order, self._lock = in_order, Lock()
        self._prepared: dict[int, set[int | None]] = {}  # folds, by worker

    def take(self, worker: int) -> Task | None:
        """The next run of a worker; None when nothing is left."""
        with self._lock:
            if not self._left:
                return None
            task = self._left[0] if self._in_order else self._next_of(worker)
            self._left.remove(task)
            self._prepared.setdefault(worker, set()).add(task.fold)
            return task

    def _next_of(self, worker: int) -> Task:
        own = self._prepared.get(worker, set())
        begun = set[int | None]().union(*self._prepared.values())
        near = (task for task in self._left if task.fold in own or task.fold not in begun)
        return next(near, self._left[0])


def _stage(task: Task) -> int:
    try:
        learner = task.candidate.build()
    except PoelaError:
        return 0  # its own run says why
    return next((stage for stage, kind in enumerate(LATER, start=1) if isinstance(learner, kind)), 0)


ATTEMPTS = 3  # of a task whose worker dies
POLL_SECONDS = 0.2  # how long an interruption may wait
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Lost:
    """A task that took its worker down with it, each time it was tried."""

    reason: str


Outcome = tuple[Task, Result | Lost]


def run_inline(tasks: Sequence[Task], directory: Path, deadline: float | None = None) -> Generator[Outcome, None, None]:
    """One task after the other, here, cheap ones first. Looks at the deadline between tasks only."""
    folds = Folds(directory)
    left = staged(tasks)
    while left:
        if deadline is not None and time.monotonic() >= deadline:
            return
        task = left.pop(0)
        result = carry_out(task, folds.of(task))
        folds.forget_all_but(left)
        yield task, result


def run_local(
    tasks: Sequence[Task],
    directory: Path,
    jobs: int,
    deadline: float | None = None,
    use_gpu: bool = True,
) -> Generator[Outcome, None, None]:
    """In `jobs` worker processes; outcomes come in the order in which they are ready, and tasks as `Waiting` says.

    Workers are plain `python -m` processes, so a script that calls this needs no `if __name__ == "__main__"`.
    """
    waiting = Waiting(tasks, in_order=deadline is not None)
    ready: queue.SimpleQueue[Outcome | PoelaError] = queue.SimpleQueue()
    worker = Workers(directory, use_gpu, objects_for(tasks, directory))
    threads = [_WorkerThread(number, worker, waiting, ready) for number in range(min(jobs, len(tasks)))]
    try:
        for thread in threads:
            thread.start()
        for _ in tasks:
            outcome = _next(ready, deadline)
            if outcome is None:
                return
            if isinstance(outcome, PoelaError):
                raise outcome
            yield outcome
    finally:
        for thread in threads:
            thread.stop()


def _next(ready: "queue.SimpleQueue[Outcome | PoelaError]", deadline: float | None) -> "Outcome | PoelaError | None":
    """What is ready next; None when time is up."""
    while deadline is None or time.monotonic() < deadline:
        safe_point()
        patience = POLL_SECONDS if deadline is None else max(min(deadline - time.monotonic(), POLL_SECONDS), 0.0)
        with contextlib.suppress(queue.Empty):
            return ready.get(timeout=patience)
    return None


class _WorkerThread(threading.Thread):
    """A thread that owns one worker process and feeds it tasks."""

    def __init__(
        self,
        number: int,
        workers: "Workers",
        waiting: Waiting,
        ready: "queue.SimpleQueue[Outcome | PoelaError]",
    ) -> None:
        super().__init__(daemon=True)
        self._number = number
        self._workers, self._waiting, self._ready = workers, waiting, ready
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._starting = threading.Lock()  # so that no worker is started behind the back of stop()

    def run(self) -> None:
        try:
            while not self._stopped and (task := self._waiting.take(self._number)) is not None:
                self._ready.put((task, self._attempt(task)))
            self.stop()
        except Exception as error:
            self._ready.put(PoelaError(f"a worker process could not be run: {error}"))

    def stop(self) -> None:
        """Kill the worker: whatever it was doing is not needed any more."""
        with self._starting:
            self._stopped, process = True, self._process
        if process is not None:
            process.kill()
            if threading.current_thread() is not self:
                self.join()
            _end(process)

    def _attempt(self, task: Task) -> Result | Lost:
        code, fresh = None, False
        for _ in range(ATTEMPTS):
            with self._starting:
                if self._stopped:
                    break
                if self._process is None:
                    self._process = self._workers.new()
                    fresh = True
            try:
                if fresh:
                    write_frame(cast("BinaryIO", self._process.stdin), self._workers.objects)
                    fresh = False
                write_frame(cast("BinaryIO", self._process.stdin), json.dumps(to_plain(task)).encode())
                return read_result(cast("BinaryIO", self._process.stdout))
            except (EOFError, OSError, ValueError):
                code = _end(self._process)
                self._process = None
        return Lost(f"its worker process ended {ATTEMPTS} times (exit code {code}), perhaps for lack of memory")


@dataclass(frozen=True)
class Workers:
    """How worker processes are started."""

    directory: Path  # of the folds
    use_gpu: bool
    objects: bytes = b""  # what they need of this process and no file can hold; empty: nothing

    def new(self) -> "subprocess.Popen[bytes]":
        """One more, which waits for its first frame."""
        hidden = {} if self.use_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        home = str(Path(poela.__file__).parents[1])
        paths = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(
            [sys.executable, "-m", "poela.studies.worker", str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": paths, **hidden},
            # Ctrl-C is for the parent alone, which then ends its workers.
            start_new_session=True,
        )


def objects_for(tasks: Sequence[Task], directory: Path) -> bytes:
    """The objects that these tasks and their folds need of this process, for another one; empty: none."""
    needed = references_in(to_plain([task.candidate.settings for task in tasks]))
    for document in (*directory.glob(f"*/*/{BEHAVIOR_FORMAT}.json"), *directory.glob(f"*/{MATERIAL}")):
        needed |= references_in(read_json(document))
    return packed(needed) if needed else b""


def _end(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a process that has died or lost its pipes, and close what is left of them."""
    process.kill()
    code = process.wait()
    for stream in (process.stdin, process.stdout):
        # What could not be sent is of no use any more.
        with contextlib.suppress(OSError):
            cast("BinaryIO", stream).close()
    return code


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
