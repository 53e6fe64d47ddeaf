"""The runs of a study, carried out where the execution says, and kept as they come."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

from poela.core.errors import InputError, PoelaError
from poela.core.files import unwritable
from poela.core.interruption import safe_point
from poela.core.progress import progress
from poela.core.registry import how_to_install
from poela.learners.stacked import stack_key
from poela.studies.candidates import setting_text
from poela.studies.execution import POLL_SECONDS, Lost, Outcome, available_cores, run_inline, run_local
from poela.studies.fold_data import FoldData, Folds, remove_folds, write_folds
from poela.studies.options import Execution
from poela.studies.records import RunRecord, Task
from poela.studies.runs import OTHER_ERRORS, Result, learned_by, one_thread, result_of
from poela.studies.store import SCRATCH
from poela.studies.study import Study

# Runs on a GPU: candidates that can be are learned as one stack, and scored by threads beside it.

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


# Finished runs, reported to MLflow or TensorBoard as they come. The study's own files remain the record.


class Tracker(ABC):
    """Hears of every run that finishes."""

    @abstractmethod
    def finished(self, run_id: str, record: RunRecord) -> None:
        """Note a finished run: its settings, and the metrics of its checkpoints."""


class MLflow(Tracker):
    """One MLflow run for each run; the experiment has the name of the study's directory.

    Where MLFLOW_TRACKING_URI says nothing else, they go to `mlruns` in the study.
    """

    def __init__(self, study: Path) -> None:
        import os

        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise InputError(f"tracking with MLflow needs it: {how_to_install('track')}") from None
        store = os.environ.get("MLFLOW_TRACKING_URI")
        if not store:
            store = (study / "mlruns").resolve().as_uri()
            # MLflow 3 wants to be told that plain files are meant.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client = MlflowClient(tracking_uri=store)
        name = str(study.resolve())
        known = self._client.get_experiment_by_name(name)
        self._experiment = self._client.create_experiment(name) if known is None else known.experiment_id

    def finished(self, run_id: str, record: RunRecord) -> None:
        """Settings as parameters, metrics by step, status and messages as tags."""
        client = self._client
        run = client.create_run(self._experiment, run_name=run_id).info.run_id
        for name, value in _settings(record).items():
            client.log_param(run, name, value)
        for step, metric, number in _metrics(record):
            client.log_metric(run, metric, number, step=step)
        client.log_metric(run, "wall_seconds", record.wall_seconds)
        client.set_tag(run, "message", record.message)
        client.set_terminated(run, status="FAILED" if record.status == "failed" else "FINISHED")


class TensorBoard(Tracker):
    """One event directory for each run, under `tensorboard` in the study."""

    def __init__(self, study: Path) -> None:
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            raise InputError(f"tracking with TensorBoard needs it: {how_to_install('track')}") from None
        self._directory = study / "tensorboard"

    def finished(self, run_id: str, record: RunRecord) -> None:
        """Metrics by step, settings as text."""
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(self._directory / run_id)) as writer:
            lines = "\n".join(f"- {name}: {value}" for name, value in _settings(record).items())
            writer.add_text("settings", lines)
            for step, name, value in _metrics(record):
                writer.add_scalar(name, value, step)


TRACKERS: dict[str, type[MLflow] | type[TensorBoard]] = {"mlflow": MLflow, "tensorboard": TensorBoard}


def tracker(name: str | None, study: Path) -> Tracker | None:
    """The tracker of that name, for a study in this directory."""
    if name is None:
        return None
    if name not in TRACKERS:
        raise InputError(f"there is no tracker {name!r}: choose {' or '.join(TRACKERS)}")
    return TRACKERS[name](study)


def _settings(record: RunRecord) -> dict[str, str]:
    task = record.task
    settings = {name: setting_text(value) for name, value in task.candidate.settings.items()}
    return {"learner": task.candidate.learner, "restart": str(task.restart), "seed": str(task.seed), **settings}


def _metrics(record: RunRecord) -> Iterator[tuple[int, str, float]]:
    for checkpoint in record.checkpoints:
        for name, value in checkpoint.metrics.items():
            if value is not None:
                yield checkpoint.step, name, value


def run(
    study: Study,
    tasks: Sequence[Task],
    folds: Mapping[str, FoldData],
    execution: Execution,
    deadline: float | None = None,
    finished: Callable[[Task, RunRecord], None] | None = None,
) -> None:
    """Carry out runs of a study, and keep each as it finishes, of which `finished` is told; a deadline may end it."""
    scratch = study.directory / SCRATCH
    lost: list[str] = []
    tracking = tracker(execution.track, study.directory)
    try:
        write_folds(scratch, folds)
        with (
            closing(_outcomes(tasks, scratch, execution, deadline)) as outcomes,
            progress(f"{len(tasks)} runs", len(tasks)) as advance,
        ):
            for task, result in outcomes:
                if isinstance(result, Lost):
                    lost.append(f"{task.candidate}, restart {task.restart}: {result.reason}")
                else:
                    study.store.write_run(result.record, result.policies)
                    if tracking is not None:
                        tracking.finished(task.run_id, result.record)
                    if finished is not None:
                        finished(task, result.record)
                advance(1, note=str(task.candidate))
    except OSError as error:
        raise unwritable(study.directory, error) from None
    finally:
        remove_folds(scratch)
    if lost:
        raise PoelaError("; ".join(lost))


def _outcomes(
    tasks: Sequence[Task], scratch: Path, execution: Execution, deadline: float | None
) -> Generator[Outcome, None, None]:
    if execution.backend == "inline":
        return run_inline(tasks, scratch, deadline)
    if execution.backend == "local":
        jobs = execution.jobs or available_cores()
        return (run_stacked if has_gpu() else run_local)(tasks, scratch, jobs, deadline)
    from poela.studies.ray_backend import run_ray

    return run_ray(tasks, scratch, execution.address, deadline, execution.jobs)
