"""Stacks of candidates give the runs that one candidate after the other gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from poela.studies import running
from poela.studies.candidates import Candidate
from poela.studies.execution import run_inline
from poela.studies.records import Task
from poela.studies.running import run_stacked, stacks_of
from poela.studies.runs import Result
from poela.studies.study import Study

TINY = {"steps": 4, "hidden": (3,), "checkpoints": 2, "device": "cpu"}
WARM = {**TINY, "warm_start_steps": 2}
CANDIDATES = (
    Candidate("poela", {"radius": 1.0, **WARM}),
    Candidate("pocrm", WARM),
    Candidate("bcq", TINY),
    Candidate("pql", {**TINY, "rule": {"scale": [1.0] * 9}}),
    Candidate("fittedq", {"history": 0, "regressor": "ridge"}),
)
TASKS = [Task(candidate, restart, seed=restart + 5, fold=0) for restart in (0, 1) for candidate in CANDIDATES]


def test_what_goes_together() -> None:
    stacks, rest = stacks_of(TASKS)
    names = [{task.candidate.learner for task in stack} for stack in stacks]
    assert names == [{"poela", "pocrm"}, {"bcq", "pql"}]
    assert {task.candidate.learner for task in rest} == {"fittedq"}
    assert sorted(task.run_id for part in (*stacks, rest) for task in part) == sorted(task.run_id for task in TASKS)


def test_runs_are_those_of_one_after_the_other(material: Path) -> None:
    found = {task.run_id: result for task, result in run_stacked(TASKS, material, jobs=2)}
    assert [name.partition("-")[0] for name in found][:2] == ["fittedq"] * 2  # the quick ones come first
    assert len(found) == len(TASKS)
    for task, expected in run_inline(TASKS, material):
        result = found[task.run_id]
        assert isinstance(result, Result)
        assert isinstance(expected, Result)
        for name in ("status", "message", "warnings"):
            assert getattr(result.record, name) == getattr(expected.record, name)
        ours, theirs = (run.record.checkpoints for run in (result, expected))
        assert [row.step for row in ours] == [row.step for row in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            known = {name: value for name, value in other.metrics.items() if value is not None}
            assert mine.metrics == {**other.metrics, **{n: pytest.approx(v, rel=1e-3) for n, v in known.items()}}


def test_nothing_is_begun_after_the_deadline(material: Path) -> None:
    assert list(run_stacked(TASKS, material, jobs=1, deadline=0.0)) == []


def test_a_study_stacks_where_there_is_a_gpu(tiny_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch) -> None:
    stacked = []

    def recorded(*arguments: object) -> object:
        stacked.append(True)
        return run_stacked(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "has_gpu", lambda: True)
    monkeypatch.setattr(running, "run_stacked", recorded)
    study, plain = tiny_study(backend="local", jobs=1), tiny_study(backend="inline")
    assert stacked
    assert study.chosen_name == plain.chosen_name
