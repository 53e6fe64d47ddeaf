"""The Ray backend: the same bits as here, and a killed worker costs nothing but time."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from poela.core.errors import PoelaError
from poela.studies import ray_backend
from poela.studies.candidates import Candidate
from poela.studies.study import Study

SLOW = {"steps": 300, "warm_start_steps": 2, "hidden": (64, 64), "checkpoints": 2, "device": "cpu"}


class Cluster:
    """As much of Ray as the backend asks for, in this process: work is done when somebody waits for it."""

    def __init__(self) -> None:
        self.waiting: dict[int, Any] = {}
        self.found: dict[int, Any] = {}
        self.most = 0  # tasks that were there at the same time

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **how: Any) -> Any:
        def decorated(function: Any) -> Any:
            def submit(*arguments: Any) -> int:
                number = len(self.waiting) + len(self.found)
                self.waiting[number] = lambda: function(*arguments)
                self.most = max(self.most, len(self.waiting))
                return number

            return type("Remote", (), {"remote": staticmethod(submit)})

        return decorated

    def wait(self, references: list[int], **how: Any) -> tuple[list[int], list[int]]:
        first, *others = references
        self.found[first] = self.waiting.pop(first)()
        return [first], others

    def get(self, reference: int) -> Any:
        return self.found[reference]


@pytest.mark.parametrize(("jobs", "most"), [(1, 1), (2, 2), (None, 6)])
def test_no_more_runs_are_on_the_cluster_than_there_are_jobs(
    jobs: int | None, most: int, tiny_study: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()

    @contextmanager
    def here(address: str | None) -> Iterator[Cluster]:
        yield cluster

    monkeypatch.setattr(ray_backend, "_cluster", here)
    candidates = [Candidate("fittedq", {"history": history}) for history in (0, 1, 2)]
    study = tiny_study(out=tmp_path / "ray", candidates=candidates, backend="ray", jobs=jobs, folds=2)
    assert len(study.runs) == 6
    assert cluster.most == most


def kill_a_busy_worker(killed: list[int], stop: threading.Event) -> None:
    """Look for a Ray process in the middle of a task, and kill it."""
    while not stop.is_set():
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes().startswith(b"ray::_answer"):
                    pid = int(path.parent.name)
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return
            except OSError:
                continue
        time.sleep(0.02)


def test_a_killed_ray_worker_leaves_no_trace_in_the_results(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    candidates = [Candidate("poela", {"radius": radius, **SLOW}) for radius in ("q50", 1.0)]
    tiny_study(out=tmp_path / "here", candidates=candidates)
    killed: list[int] = []
    stop = threading.Event()
    killer = threading.Thread(target=kill_a_busy_worker, args=(killed, stop))
    killer.start()
    try:
        tiny_study(out=tmp_path / "ray", candidates=candidates, backend="ray")
    finally:
        stop.set()
        killer.join()
    if Path("/proc").exists():
        assert len(killed) == 1
    for name in ("table.parquet", "choice.json"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "ray" / name).read_bytes()


def test_no_cluster_there(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(PoelaError, match="the Ray cluster at auto cannot be reached"):
        tiny_study(out=tmp_path / "study", backend="ray", address="auto")
