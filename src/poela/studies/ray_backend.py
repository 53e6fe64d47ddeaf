"""Runs on a Ray cluster: the data put once in the object store, tasks done again when a node or a worker dies."""

import hashlib
import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from poela.core.errors import InputError, PoelaError
from poela.core.extras import how_to_install
from poela.core.interruption import safe_point
from poela.core.live import packed, unpack
from poela.core.typed import from_plain, to_plain
from poela.studies.execution import ATTEMPTS, ONE_THREAD, POLL_SECONDS, Lost, Outcome, objects_for
from poela.studies.fold_data import Folds
from poela.studies.records import RunRecord, Task
from poela.studies.run_files import PackedPolicies
from poela.studies.runs import Result, carry_out
from poela.studies.scheduling import staged

Files = Mapping[str, bytes]
Answer = tuple[dict[str, Any], bytes | None, dict[str, bytes], bytes]

_at_hand: dict[str, Folds] = {}  # of the worker process: the folds that it was given last


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
    files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    key = hashlib.sha256(repr(sorted((name, hashlib.sha256(c).digest()) for name, c in files.items())).encode())
    with _cluster(address) as ray:
        shared, objects = ray.put(files), ray.put(objects_for(tasks, directory))
        # Retried where a worker or its node dies; what goes wrong inside a run is part of its result.
        work = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_answer)
        waiting: dict[Any, Task] = {}
        left, most = iter(staged(tasks)), jobs or len(tasks)
        try:
            while True:
                for task in islice(left, most - len(waiting)):
                    waiting[work.remote(to_plain(task), key.hexdigest(), shared, objects)] = task
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


def _answer(task: dict[str, Any], key: str, files: Files, objects: bytes = b"") -> Answer:
    """What a Ray worker does: one task, with the folds at hand or unpacked once."""
    known = unpack(objects) if objects else set[str]()
    if key not in _at_hand:
        _at_hand.clear()
        with tempfile.TemporaryDirectory(prefix="poela-") as directory:
            for name, content in files.items():
                path = Path(directory) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            # The files stay mapped after their names are gone.
            _at_hand[key] = Folds(Path(directory)).all_read()
    own = from_plain(Task, task, "a task")
    result = carry_out(own, _at_hand[key].of(own))
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
