"""One run: a candidate fitted with one seed, and every checkpoint scored on the validation logs."""

import platform
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from poela.core.errors import PoelaError, PoelaWarning, TrainingError
from poela.learners.learner import Checkpoint
from poela.studies.candidates import Candidate
from poela.studies.material import Material
from poela.studies.scoring import Metrics
from poela.studies.store import PackedPolicies, packed

PACKAGES = ("poela", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "safetensors")


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do."""

    candidate: Candidate  # with every radius a number
    restart: int
    seed: int

    @cached_property
    def run_id(self) -> str:
        """The name of the run's files.

        >>> Task(Candidate("pocrm", {}), restart=1, seed=7).run_id
        'pocrm-51ea6387a88e-1'
        """
        return f"{self.candidate.learner}-{self.candidate.key}-{self.restart}"

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"candidate": self.candidate.to_plain(), "restart": self.restart, "seed": self.seed}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Task":
        """The inverse of `to_plain`."""
        return cls(Candidate.from_plain(plain["candidate"]), plain["restart"], plain["seed"])


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run: its record, as JSON can hold it, and the policies of its checkpoints."""

    record: Mapping[str, Any]
    policies: PackedPolicies | None


def carry_out(task: Task, material: Material) -> Result:
    """Fit and score. What goes wrong inside a learner is written into the record; other candidates go on."""
    started = time.monotonic()
    reached: list[Checkpoint] = []
    rows: list[dict[str, Any]] = []
    status, message = "done", ""
    with _one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PoelaWarning)
        try:
            try:
                for checkpoint in task.candidate.build().fit_path(material.train, task.seed, material.behavior):
                    reached.append(checkpoint)  # noqa: PERF402 (one by one, to keep those before a breakdown)
            except TrainingError as error:
                if not reached:
                    raise
                status, message = "broke down", str(error)
            metrics = material.scorer.score([checkpoint.policy for checkpoint in reached])
            rows = [_row(checkpoint, found) for checkpoint, found in zip(reached, metrics, strict=True)]
        except (PoelaError, ArithmeticError, RuntimeError, ValueError) as error:
            status, message = "failed", str(error) or type(error).__name__
    record = {
        **task.to_plain(),
        "candidate_key": task.candidate.key,
        "status": status,
        "message": message,
        "warnings": list(dict.fromkeys(str(item.message) for item in caught)),
        "checkpoints": rows,
        "wall_seconds": round(time.monotonic() - started, 3),
        "versions": versions(),
    }
    return Result(record, packed([checkpoint.policy.stored() for checkpoint in reached]) if rows else None)


def _row(checkpoint: Checkpoint, metrics: Metrics) -> dict[str, Any]:
    return {"step": checkpoint.step, "note": checkpoint.note, "metrics": metrics}


@contextmanager
def _one_thread() -> Iterator[None]:
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
