"""Runs on a Ray cluster: data in the object store by fold and column, tasks done again when a node or a worker dies.

A node fetches only the folds that its tasks need, and its workers map the same copy of them into memory.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.errors import InputError, PoelaError
from poela.core.interruption import safe_point
from poela.core.live import packed, unpack
from poela.core.registry import how_to_install
from poela.core.typed import from_plain, to_plain
from poela.studies.execution import ATTEMPTS, ONE_THREAD, POLL_SECONDS, Lost, Outcome, objects_for, staged
from poela.studies.fold_data import FoldData, fold_name, read_fold
from poela.studies.records import RunRecord, Task
from poela.studies.run_files import PackedPolicies
from poela.studies.runs import Result, carry_out

Answer = tuple[dict[str, Any], bytes | None, dict[str, bytes], bytes]

_at_hand: dict[tuple[str, str], FoldData] = {}  # of the worker process: the folds of the study that it worked for last


@dataclass(frozen=True)
class StoredFold:
    """Where a fold is in the object store: each of its columns by itself, and its small files together."""

    study: str  # one call of `run_ray`
    name: str
    columns: Mapping[str, Any]
    files: Any


def run_ray(
    tasks: Sequence[Task],
    directory: Path,
    address: str | None = None,
    deadline: float | None = None,
    jobs: int | None = None,
) -> Generator[Outcome, None, None]:
    """On the cluster at `address` ("auto": the one this machine belongs to; None: a small one started here).

    At most `jobs` tasks are there at a time; None: all of them, so that every core of the cluster has something to do.
    """
    with _cluster(address) as ray:
        folds, objects = _stored(ray, tasks, directory), ray.put(objects_for(tasks, directory))
        # Retried where a worker or its node dies; what goes wrong inside a run is part of its result.
        work = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_answer)
        waiting: dict[Any, Task] = {}
        left, most = iter(staged(tasks)), jobs or len(tasks)
        try:
            while True:
                for task in islice(left, most - len(waiting)):
                    waiting[work.remote(to_plain(task), folds[fold_name(task)], objects)] = task
                safe_point()
                if not waiting or (deadline is not None and time.monotonic() >= deadline):
                    return
                ready, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_SECONDS)
                if not ready:
                    continue
                task = waiting.pop(ready[0])
                yield task, _outcome(ray, ready[0])
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)


def _stored(ray: Any, tasks: Sequence[Task], directory: Path) -> dict[str, StoredFold]:
    """Put the folds that tasks need into the object store."""
    study, folds = uuid.uuid4().hex, dict[str, StoredFold]()
    for name in sorted({fold_name(task) for task in tasks}):
        folder = directory / name
        columns = {
            path.name: ray.put(np.asarray(np.load(path, mmap_mode="r"))) for path in sorted(folder.glob("*.npy"))
        }
        others = [path for path in folder.rglob("*") if path.is_file() and path.name not in columns]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in others}
        folds[name] = StoredFold(study, name, columns, ray.put(files))
    return folds


def _fetched(stored: StoredFold) -> FoldData:
    """The fold, its columns mapped from the object store of this node."""
    columns = dict(zip(stored.columns, _get(list(stored.columns.values())), strict=True))
    with tempfile.TemporaryDirectory(prefix="poela-") as directory:
        for name, content in _get(stored.files).items():
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # Small files stay mapped after their names are gone.
        return read_fold(Path(directory), columns)


def _get(references: Any) -> Any:
    import ray

    return ray.get(references)


def _answer(task: dict[str, Any], stored: StoredFold, objects: bytes = b"") -> Answer:
    """What a Ray worker does: one task, with its fold at hand or fetched once."""
    known = unpack(objects) if objects else set[str]()
    if any(study != stored.study for study, _ in _at_hand):
        _at_hand.clear()
    key = (stored.study, stored.name)
    if key not in _at_hand:
        _at_hand[key] = _fetched(stored)
    result = carry_out(from_plain(Task, task, "a task"), _at_hand[key])
    if result.policies is None:
        return to_plain(result.record), None, {}, b""
    made = packed(result.objects - known) if result.objects - known else b""
    return to_plain(result.record), result.policies.own, dict(result.policies.shared), made


def _outcome(ray: Any, reference: Any) -> Result | Lost:
    try:
        record, own, shared, objects = ray.get(reference)
    except ray.exceptions.RayError as error:
        return Lost(f"Ray gave it up: {str(error).splitlines()[0]}")
    if objects:
        unpack(objects)
    record = from_plain(RunRecord, record, "a worker's answer")
    return Result(record, None if own is None else PackedPolicies(own, shared))


@contextmanager
def _cluster(address: str | None) -> Generator[Any, None, None]:
    """Connected to Ray, for as long as the block lasts; a connection that was there before is left alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise InputError(f"the Ray backend needs Ray: {how_to_install('ray')}") from None
    if ray.is_initialized():
        yield ray
        return
    variables = {**dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    local = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": variables},
            **local,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PoelaError(f"the Ray cluster at {address or 'this machine'} cannot be reached: {reason}") from None
    try:
        yield ray
    finally:
        ray.shutdown()
