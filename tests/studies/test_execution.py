"""Worker processes: frames, results to the bit, workers that die, deadlines."""

import io
import sys
import time
from pathlib import Path

import pytest

from poela.studies import execution
from poela.studies.candidates import Candidate
from poela.studies.execution import Lost, run_inline, run_local
from poela.studies.records import RunRecord, Task
from poela.studies.run_files import PackedPolicies
from poela.studies.runs import Result
from poela.studies.worker import read_frame, read_result, write_frame, write_result

pytestmark = pytest.mark.usefixtures("cold_workers")
TINY = {"steps": 3, "warm_start_steps": 1, "hidden": (2,), "checkpoints": 1, "device": "cpu"}
SLOW = {**TINY, "steps": 10_000_000}


def test_frames_and_results_come_back() -> None:
    stream = io.BytesIO()
    write_frame(stream, b"one")
    records = [
        RunRecord(
            Task(Candidate("pocrm", TINY), restart, seed=1, fold=0), "failed", "why", (), (), 1.5, {"python": "3"}
        )
        for restart in (0, 1)
    ]
    write_result(stream, Result(records[0], PackedPolicies(b"own", {"x": b"shared"})))
    write_result(stream, Result(records[1], None))
    stream.seek(0)
    assert read_frame(stream) == b"one"
    first, second = read_result(stream), read_result(stream)
    assert first.record == records[0]
    assert first.policies is not None
    assert (first.policies.own, first.policies.shared) == (b"own", {"x": b"shared"})
    assert (second.record, second.policies) == (records[1], None)
    with pytest.raises(EOFError):
        read_frame(stream)


def test_a_worker_that_dies_is_replaced_and_its_task_done_again(
    material: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = execution.Workers.new

    def recorded(workers: execution.Workers) -> object:
        process = start(workers)
        started.append(process)
        if len(started) == 1:
            process.kill()
        return process

    monkeypatch.setattr(execution.Workers, "new", recorded)
    task = Task(Candidate("pocrm", TINY), restart=0, seed=1, fold=0)
    ((_, found),) = run_local([task], material, jobs=1)
    ((_, expected),) = run_inline([task], material)
    assert len(started) == 2
    assert isinstance(found, Result)
    assert isinstance(expected, Result)
    assert found.record.checkpoints == expected.record.checkpoints
    assert found.policies is not None
    assert expected.policies is not None
    assert found.policies.own == expected.policies.own


def test_a_task_that_kills_every_worker_is_given_up(material: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    ((_, found),) = run_local([Task(Candidate("pocrm", TINY), 0, 1, fold=0)], material, jobs=1)
    assert isinstance(found, Lost)
    assert "worker process ended 3 times (exit code 1)" in found.reason


def test_a_deadline_ends_workers_in_the_middle_of_their_work(material: Path) -> None:
    tasks = [Task(Candidate("pocrm", SLOW), restart, restart, fold=0) for restart in range(2)]
    started = time.monotonic()
    assert list(run_local(tasks, material, jobs=2, deadline=started + 0.5)) == []
    assert list(run_inline(tasks, material, deadline=started)) == []


def test_workers_leave_when_nobody_listens(material: Path) -> None:
    process = execution.Workers(material, use_gpu=True).new()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()
