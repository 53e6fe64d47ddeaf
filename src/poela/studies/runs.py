"""One run: a candidate fitted with one seed, and every checkpoint scored on the validation logs."""

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from poela.core.errors import PoelaError, TrainingError
from poela.learners.learner import Checkpoint
from poela.learners.stacked import Learned, Member, fit_stacked
from poela.studies.material import Material
from poela.studies.records import CheckpointRecord, RunRecord, Task
from poela.studies.store import PackedPolicies, packed

OTHER_ERRORS = (ArithmeticError, RuntimeError, ValueError)  # what may go wrong in the libraries beneath
PACKAGES = ("poela", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "safetensors")


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run: its record, and the policies of its checkpoints."""

    record: RunRecord
    policies: PackedPolicies | None


def carry_out(task: Task, material: Material) -> Result:
    """Fit and score. What goes wrong inside a learner is written into the record; other candidates go on."""
    started = time.monotonic()
    with one_thread():
        (learned,) = learned_by([task], material)
        return result_of(task, learned, material, started)


def learned_by(tasks: Sequence[Task], material: Material) -> list[Learned]:
    """What one task leads to, or several whose learners can be one stack."""
    try:
        members = [Member(task.candidate.build(), task.seed) for task in tasks]
        return fit_stacked(members, material.train, material.behavior)
    except OTHER_ERRORS as error:
        return [Learned(error=PoelaError(str(error) or type(error).__name__)) for _ in tasks]


def result_of(task: Task, learned: Learned, material: Material, started: float) -> Result:
    """Score what was learned; `started`: the monotonic time at which work on it began."""
    reached: list[Checkpoint] = learned.checkpoints
    rows: list[CheckpointRecord] = []
    status, message = "done", ""
    if learned.error is not None:
        broke_down = reached and isinstance(learned.error, TrainingError)
        status, message = "broke down" if broke_down else "failed", str(learned.error)
    if status != "failed":
        try:
            metrics = material.scorer.score([checkpoint.policy for checkpoint in reached])
            rows = [CheckpointRecord(one.step, one.note, own) for one, own in zip(reached, metrics, strict=True)]
        except (PoelaError, *OTHER_ERRORS) as error:
            status, message = "failed", str(error) or type(error).__name__
    record = RunRecord(
        task=task,
        status=status,
        message=message,
        warnings=tuple(dict.fromkeys(learned.warnings)),
        checkpoints=tuple(rows),
        wall_seconds=round(time.monotonic() - started, 3),
        versions=versions(),
    )
    return Result(record, packed([checkpoint.policy.stored() for checkpoint in reached]) if rows else None)


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS and torch thread: processes side by side do not fight, and sums always run in the same order."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threads = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@cache
def versions() -> dict[str, str]:
    """Of Python and the packages that results depend on."""
    from importlib.metadata import version

    return {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
