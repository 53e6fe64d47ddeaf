"""The Ray backend: the same bits as here, and a killed worker or a lost node costs nothing but time."""

import contextlib
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
    monkeypatch.setattr(ray_backend, "_get", lambda references: references)
    candidates = [Candidate("fittedq", {"history": history}) for history in (0, 1, 2)]
    study = tiny_study(out=tmp_path / "ray", candidates=candidates, backend="ray", jobs=jobs, folds=2)
    assert len(study.runs) == 6
    assert cluster.most == most


def processes(name: bytes) -> Iterator[int]:
    """Processes whose title begins like this."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(name):
                yield int(path.parent.name)


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def when_busy(act: Callable[[int], bool], acted: list[int], stop: threading.Event) -> None:
    """Show each Ray process in the middle of a task to `act`, until it has acted."""
    while not stop.is_set():
        for pid in processes(b"ray::_answer"):
            if act(pid):
                acted.append(pid)
                return
        time.sleep(0.02)


@contextmanager
def watching(act: Callable[[int], bool]) -> Iterator[list[int]]:
    acted: list[int] = []
    stop = threading.Event()
    watcher = threading.Thread(target=when_busy, args=(act, acted, stop))
    watcher.start()
    try:
        yield acted
    finally:
        stop.set()
        watcher.join()


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    return [Candidate("poela", {"radius": radius, **SLOW}) for radius in ("q50", 1.0)]


@pytest.fixture(scope="module")
def here(
    tiny_study: Callable[..., Study], candidates: list[Candidate], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same study without Ray."""
    return tiny_study(out=tmp_path_factory.mktemp("here") / "study", candidates=candidates).directory


def assert_same(first: Path, second: Path) -> None:
    for name in ("table.parquet", "choice.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_killed_ray_worker_leaves_no_trace_in_the_results(
    tiny_study: Callable[..., Study], candidates: list[Candidate], here: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    with watching(kill) as killed:
        tiny_study(out=tmp_path / "ray", candidates=candidates, backend="ray")
    if Path("/proc").exists():
        assert len(killed) == 1
    assert_same(here, tmp_path / "ray")


def test_a_lost_node_leaves_no_trace_in_the_results(
    tiny_study: Callable[..., Study], candidates: list[Candidate], here: Path, tmp_path: Path
) -> None:
    """Two nodes work; one goes away with all its processes, its object store and the task that it was at."""
    pytest.importorskip("ray")
    if not Path("/proc").exists():
        pytest.skip("a node is found by its processes, in /proc")
    from ray.cluster_utils import Cluster as Nodes

    size = {"object_store_memory": 80 * 1024**2}
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **size})
    try:
        working = [nodes.add_node(num_cpus=1, **size) for _ in range(2)]
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in working}

        def take_away(pid: int) -> bool:
            if parent_of(pid) not in raylets:
                return False
            nodes.remove_node(raylets[parent_of(pid)], allow_graceful=False)
            return True

        with watching(take_away) as lost:
            tiny_study(out=tmp_path / "ray", candidates=candidates, backend="ray", address=nodes.address)
        assert len(lost) == 1
    finally:
        nodes.shutdown()
    assert_same(here, tmp_path / "ray")


def test_no_cluster_there(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(PoelaError, match="the Ray cluster at auto cannot be reached"):
        tiny_study(out=tmp_path / "study", backend="ray", address="auto")
