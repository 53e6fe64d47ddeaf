"""One run: a candidate fitted with one seed, and every policy of its path judged on the episodes held out from it."""

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from poela.behavior.gaussian import GaussianBehavior
from poela.behavior.normal import NormalModel
from poela.core.errors import PoelaError, TrainingError
from poela.core.live import references_in
from poela.data.action_space import finite_actions
from poela.data.trajectories import Trajectories
from poela.eligibility.support_model import SupportedBehavior
from poela.learners.learner import Checkpoint, Learner, logging_policy
from poela.learners.stacked import Learned, Member, fit_stacked
from poela.policies.blended import BlendedPolicy
from poela.policies.foreign import ForeignPolicy
from poela.policies.gaussian import RealPolicy
from poela.policies.network import GreedyQPolicy
from poela.studies.fold_data import FoldData
from poela.studies.held_out import HeldOut, measured
from poela.studies.records import CheckpointRecord, Metrics, RunRecord, Task
from poela.studies.run_files import PackedPolicies, packed

# A path from cautious to bold for every learner: the same points in every fold.

# Shares of the learned policy: finer where the evidence begins to run out.
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def ambition_path(
    learner: Learner, checkpoints: Sequence[Checkpoint], train: Trajectories, behavior: Any
) -> list[Checkpoint]:
    """The learner's own path where it walks from cautious to bold, else blends of what it learned last.

    >>> from poela.learners.consensus import Consensus
    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 4, [0, 0, 0, 1], [0.0] * 4, range(5), [[0.75, 0.25]] * 4)
    >>> checkpoints = list(Consensus(sharpness=(2.0, 3.0)).fit_path(logs))
    >>> [point.note for point in ambition_path(Consensus(), checkpoints, logs, None)]
    ['sharpness 2', 'sharpness 3']
    """
    if learner.walks or not checkpoints:
        return list(checkpoints)
    learned = checkpoints[-1].policy
    if isinstance(learned, RealPolicy):
        return _path_of_amounts(learned, train, behavior)
    logging = logging_policy(finite_actions(train, "this learner"), behavior)
    support = learned.eligibility.support
    if support is not None:
        logging = SupportedBehavior(logging, support)
    return [
        Checkpoint(
            place,
            BlendedPolicy(
                policy=learned,
                behavior=logging,
                share=share,
                mixed=isinstance(learned, GreedyQPolicy) or (isinstance(learned, ForeignPolicy) and learned.greedy),
                eligibility=learned.eligibility,
                feature_names=learned.feature_names,
                action_names=learned.action_names,
            ),
            f"blend {share:g}",
        )
        for place, share in enumerate(SHARES, start=1)
    ]


def _path_of_amounts(learned: RealPolicy, train: Trajectories, behavior: Any) -> list[Checkpoint]:
    """On the way from the logging policy to what was learned: Gaussians, or mixtures with somebody's policy."""
    base = behavior if isinstance(behavior, NormalModel) else GaussianBehavior().fit_quietly(train)
    own: Any = learned  # a dataclass
    return [
        Checkpoint(place, replace(own, behavior=base, share=share), f"blend {share:g}")
        for place, share in enumerate(SHARES, start=1)
    ]


OTHER_ERRORS = (ArithmeticError, RuntimeError, ValueError)  # what may go wrong in the libraries beneath
PACKAGES = ("poela", "numpy", "scipy", "scikit-learn", "torch", "pyarrow", "safetensors")


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run: its record, and the policies of its checkpoints."""

    record: RunRecord
    policies: PackedPolicies | None
    objects: frozenset[str] = frozenset()  # references to what its policies are made of and no file can hold


def carry_out(task: Task, fold: FoldData) -> Result:
    """Fit and judge. What goes wrong inside a learner is written into the record; other candidates go on."""
    started = time.monotonic()
    with one_thread():
        (learned,) = learned_by([task], fold)
        return result_of(task, learned, fold, started)


def learned_by(tasks: Sequence[Task], fold: FoldData) -> list[Learned]:
    """What one task leads to, or several whose learners can be one stack."""
    try:
        members = [Member(task.candidate.build().for_more(fold.judging.times), task.seed) for task in tasks]
        return fit_stacked(members, fold.train, fold.behavior)
    except OTHER_ERRORS as error:
        return [Learned(error=PoelaError(str(error) or type(error).__name__)) for _ in tasks]


def result_of(task: Task, learned: Learned, fold: FoldData, started: float) -> Result:
    """Judge what was learned; `started`: the monotonic time at which work on it began."""
    status, message = "done", ""
    if learned.error is not None:
        broke_down = learned.checkpoints and isinstance(learned.error, TrainingError)
        status, message = "broke down" if broke_down else "failed", str(learned.error)
    rows: list[CheckpointRecord] = []
    policies, objects = None, frozenset[str]()
    if status != "failed":
        try:
            points = _points(task, learned, fold)
            metrics, shown = ([{} for _ in points], {}) if task.fold is None else _judged(points, fold)
            metrics = [{**own, **_plainness(one)} for one, own in zip(points, metrics, strict=True)]
            rows = [CheckpointRecord(one.step, one.note, own) for one, own in zip(points, metrics, strict=True)]
            stored = [point.policy.stored() for point in points] if fold.judging.keeps_policies else []
            objects = frozenset().union(*map(references_in, stored))
            policies = packed(stored, shown)
        except (PoelaError, *OTHER_ERRORS) as error:
            status, message, rows = "failed", str(error) or type(error).__name__, []
    record = RunRecord(
        task=task,
        status=status,
        message=message,
        warnings=tuple(dict.fromkeys(learned.warnings)),
        checkpoints=tuple(rows),
        wall_seconds=round(time.monotonic() - started, 3),
        versions=versions(),
    )
    return Result(record, policies if rows else None, objects)


def failed(result: Result, message: str) -> Result:
    """The same run as one that failed, without its policies."""
    return Result(replace(result.record, status="failed", message=message, checkpoints=()), None)


def _plainness(point: Checkpoint) -> Metrics:
    return {} if point.plainness is None else {"plainness": float(point.plainness)}


def _points(task: Task, learned: Learned, fold: FoldData) -> list[Checkpoint]:
    if fold.judging.path == "training":
        return learned.checkpoints
    return ambition_path(task.candidate.build(), learned.checkpoints, fold.train, fold.behavior)


def _judged(points: Sequence[Checkpoint], fold: FoldData) -> tuple[list[Metrics], dict[str, Any]]:
    """The metrics of each policy on the held-out episodes, and its weights there."""
    metrics, held_out = held_out_of([point.policy for point in points], fold, fold.judging.estimators)
    return metrics, held_out.arrays()


def held_out_of(policies: Sequence[Any], fold: FoldData, estimators: Sequence[str]) -> tuple[list[Metrics], HeldOut]:
    """Policies on the held-out episodes of a fold: metrics, by these estimators too, and weights."""
    n_episodes = fold.judging.n_episodes or fold.held_out.n_episodes
    seen = list(measured(fold.evaluator, policies, estimators, n_episodes, fold.train))
    weights = np.stack([own for _, own, _, _ in seen])
    recombined = np.stack([drawn for _, _, drawn, _ in seen]).astype(np.float32)
    controls = [own for _, _, _, own in seen if own is not None]
    held_out = HeldOut(weights, recombined, np.stack(controls) if len(controls) == len(seen) else None)
    return [metrics for metrics, _, _, _ in seen], held_out


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
