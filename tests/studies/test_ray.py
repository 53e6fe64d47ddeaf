"""The Ray backend: the same bits as here, and a killed worker costs nothing but time."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from poela.core.errors import PoelaError
from poela.studies.candidates import Candidate
from poela.studies.study import Study

pytest.importorskip("ray")

SLOW = {"steps": 300, "warm_start_steps": 2, "hidden": (64, 64), "checkpoints": 2, "device": "cpu"}


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
    with pytest.raises(PoelaError, match="the Ray cluster at auto cannot be reached"):
        tiny_study(out=tmp_path / "study", backend="ray", address="auto")
