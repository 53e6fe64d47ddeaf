"""`learn` as a whole, on a study of a fraction of a second."""

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import poela
from poela.core.errors import InputError, PoelaError
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.learning import learn
from poela.studies.selection import Selection
from poela.studies.store import Store
from poela.studies.study import Study

Run = Callable[..., Study]


def test_a_study_has_everything(tiny_study: Run, tmp_path: Path) -> None:
    study = tiny_study(out=tmp_path / "study", selection=Selection("sntis", "final"))
    assert len(study.runs) == len(study.tasks) == 6
    assert not study.left_out
    table = study.table()
    assert table.num_rows == 18  # 3 candidates × 2 restarts × 3 checkpoints
    assert sum(table["chosen"].to_pylist()) == 1
    assert study.estimate.n_episodes == 12
    finals = [row for row in table.to_pylist() if row["final"]]
    best = max(finals, key=lambda row: row["sntis"])
    assert best["chosen"]
    assert pq.read_table(tmp_path / "study" / "table.parquet").equals(table)
    assert study.record.data.hashes.keys() == {"train", "validation", "test"}


def test_the_policy_is_the_same_from_memory_from_the_runs_and_from_its_own_files(
    tiny_study: Run, tiny_logs: Trajectories, tmp_path: Path
) -> None:
    study = tiny_study(out=tmp_path / "study")
    saved = poela.load_policy(tmp_path / "study" / "policy")
    opened = Study.open(tmp_path / "study").policy
    expected = study.policy.along(tiny_logs)
    np.testing.assert_array_equal(saved.along(tiny_logs), expected)
    np.testing.assert_array_equal(opened.along(tiny_logs), expected)


def test_no_file_of_a_study_holds_names_of_episodes(
    tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    names = np.array([f"SECRET-{number}" for number in range(tiny_logs.n_episodes)])
    learn(replace(tiny_logs, episode_ids=names), candidates=tiny_candidates, out=tmp_path / "study", backend="inline")
    files = [path for path in (tmp_path / "study").rglob("*") if path.is_file()]
    assert any(path.suffix == ".safetensors" and path.parent.name == "runs" for path in files)
    assert not [path.name for path in files if b"SECRET" in path.read_bytes()]


def test_a_changed_scoring_is_told_by_the_names_of_its_settings(tiny_study: Run, tmp_path: Path) -> None:
    tiny_study(out=tmp_path / "study", returns=poela.Bounds(-10.0, 10.0))
    with pytest.raises(InputError) as told:
        tiny_study(out=tmp_path / "study", resume=True, discount=0.9, resamples=500)
    assert told.value.problems == (
        "discount was 1.0 and is now 0.9: keep it, or choose another folder",
        "returns was -10 to 10 and is now not given: keep it, or choose another folder",
        "resamples of the scoring was 10000 and is now 500: keep it, or choose another folder",
    )


def test_same_logs_settings_and_seed_give_the_same_study_wherever_it_runs(tiny_study: Run, tmp_path: Path) -> None:
    tiny_study(out=tmp_path / "inline")
    tiny_study(out=tmp_path / "local", backend="local", jobs=2)
    for name in ("table.parquet", "choice.json"):
        assert (tmp_path / "inline" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    other = tiny_study(seed=1)
    assert not other.table().equals(Study.open(tmp_path / "inline").table())


def test_a_study_without_a_place_lives_as_long_as_its_object(tiny_study: Run) -> None:
    study = tiny_study()
    directory = study.directory
    assert study.policy is not None
    del study
    assert not directory.exists()


def test_large_contexts_are_stored_once(tiny_study: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poela.studies.run_files.LARGE", 100)
    study = tiny_study(out=tmp_path / "study")
    # Twelve POELA checkpoints under two radii hold the same training contexts.
    assert len(list((study.directory / "shared").iterdir())) == 1
    small = tiny_study(out=tmp_path / "small")
    assert (small.directory / "shared").exists()


def test_a_run_is_one_file(tiny_study: Run, tmp_path: Path) -> None:
    study = tiny_study(out=tmp_path / "study")
    assert {path.name for path in (study.directory / "runs").iterdir()} == {
        f"{run_id}.safetensors" for run_id in study.all_runs
    }
    assert not (study.directory / "shared").exists()


def test_a_run_waits_for_the_disk_once_and_scratch_files_never(
    tiny_study: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = [], os.fsync

    def counted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    study = tiny_study(out=tmp_path / "study")
    runs = study.directory / "runs"
    assert [synced.count(path.stat().st_ino) for path in runs.iterdir()] == [1] * len(study.all_runs)
    kept = {path.stat().st_ino for path in (study.directory, *study.directory.rglob("*"))}
    assert set(synced) <= kept
    assert synced.count(runs.stat().st_ino) < len(study.all_runs)  # their names, all at once
    assert f"{len(study.tasks)} of {len(study.tasks)} runs" in repr(study)


def test_resuming_adds_candidates_and_keeps_what_is_there(
    tiny_study: Run, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    out = tmp_path / "study"
    tiny_study(out=out, candidates=tiny_candidates[:1])
    before = {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    study = tiny_study(out=out, resume=True)
    assert len(study.runs) == 6
    assert all((out / "runs" / name).stat().st_mtime_ns == when for name, when in before.items())


def test_an_existing_study_is_not_overwritten(tiny_study: Run, tmp_path: Path) -> None:
    tiny_study(out=tmp_path / "study")
    with pytest.raises(InputError, match="already holds a study: add --resume"):
        tiny_study(out=tmp_path / "study")


def test_resuming_with_other_logs_or_another_seed_is_refused(
    tiny_study: Run, tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    tiny_study(out=tmp_path / "study")
    with pytest.raises(InputError, match="seed was 0 and is now 1"):
        tiny_study(out=tmp_path / "study", resume=True, seed=1)
    other = tiny_logs.take(np.arange(50))
    with pytest.raises(InputError, match="not those that this study began with"):
        poela.learn(
            other,
            candidates=tiny_candidates,
            out=tmp_path / "study",
            shares=(0.5, 0.3, 0.2),
            selection=Selection(),
            restarts=2,
            resume=True,
            backend="inline",
        )


def test_a_study_by_sntis_needs_no_value_model_and_says_so(tiny_study: Run, tmp_path: Path) -> None:
    study = tiny_study(out=tmp_path / "study")
    assert {item.metrics["wdr"] for item in study.points} == {None}
    with pytest.raises(InputError, match="scored by sntis alone, so none can be chosen by wdr"):
        tiny_study(out=tmp_path / "study", resume=True, selection=Selection("wdr"))
    richer = tiny_study(out=tmp_path / "richer", selection=Selection("wdr"))
    assert None not in {item.metrics["wdr"] for item in richer.points}
    for ours, theirs in zip(study.points, richer.points, strict=True):
        assert ours.metrics["sntis"] == theirs.metrics["sntis"]
    again = tiny_study(out=tmp_path / "richer", resume=True, restarts=3)
    assert again.chosen_name == tiny_study(out=tmp_path / "three", restarts=3).chosen_name
    assert None not in {item.metrics["wdr"] for item in again.points}


def test_only_one_process_at_a_time(tiny_study: Run, tmp_path: Path) -> None:
    with Store(tmp_path / "study").locked(), pytest.raises(PoelaError, match="in use by another process"):
        tiny_study(out=tmp_path / "study")
    assert len(tiny_study(out=tmp_path / "study").runs) == 6


def test_a_second_look_at_the_test_episodes_is_recorded(tiny_study: Run, tmp_path: Path) -> None:
    out = tmp_path / "study"
    first = tiny_study(out=out, selection=Selection("sntis", "final"))
    assert [look.number for look in first.evaluations] == [1]
    again = tiny_study(out=out, selection=Selection("sntis", "final"), resume=True)
    assert [look.number for look in again.evaluations] == [1]  # the same policy again tells nothing new
    second = tiny_study(out=out, selection=Selection("sntis", "final", min_ess=1000), resume=True)
    assert [look.number for look in second.evaluations] == [1, 2]
    assert second.test_evaluation is not None
    assert "evaluation 2" in second.test_evaluation.caveat


def test_evaluating_on_other_logs(tiny_study: Run, tiny_logs: Trajectories, tmp_path: Path) -> None:
    study = tiny_study(out=tmp_path / "study")
    fresh = Trajectories(
        tiny_logs.contexts + 0.01, tiny_logs.actions, tiny_logs.rewards, tiny_logs.offsets, tiny_logs.propensities
    )
    look = evaluate_study(study, fresh)
    assert (look.estimate.n_episodes, look.number, look.caveat) == (60, 1, "")


def test_evaluating_on_episodes_that_took_part_is_told(
    tiny_study: Run, tiny_logs: Trajectories, tmp_path: Path
) -> None:
    look = evaluate_study(tiny_study(out=tmp_path / "study"), tiny_logs)
    assert look.seen == 48  # all but the test episodes
    assert look.caveat.startswith("48 of 60 episodes were used for learning or choosing")
    assert look.advice == "evaluate it on episodes that the study did not use."


def test_episodes_that_look_alike_by_chance_are_no_reason_for_a_caveat(tiny_candidates: list[Candidate]) -> None:
    rng = np.random.default_rng(0)

    def coins(n: int) -> Trajectories:
        actions = rng.integers(0, 2, n)
        return Trajectories(rng.integers(0, 2, (n, 1)), actions, actions * 1.0, np.arange(n + 1), np.full((n, 2), 0.5))

    study = poela.learn(coins(60), candidates=tiny_candidates[2:], restarts=1, backend="inline")
    assert evaluate_study(study, coins(20)).caveat == ""


def test_logs_with_the_propensity_of_the_logged_action_alone(
    tiny_logs: Trajectories, tiny_candidates: list[Candidate]
) -> None:
    partial = tiny_logs.with_propensities(tiny_logs.logged_propensities)
    greedy = Candidate("bcq", {"steps": 2, "hidden": (3,), "device": "cpu"})
    candidates = [
        Candidate("fittedq", {"history": 0, "regressor": "ridge"}),
        tiny_candidates[2],
        greedy,
        Candidate("consensus"),
    ]
    study = poela.learn(partial, candidates=candidates, restarts=1, folds=2, backend="inline")
    assert {run.status for run in study.runs.values()} == {"done"}
    assert "those of actions not taken" in study.record.data.propensities
    assert not any("propensities are estimated" in reason for reason in study.estimate.reasons)
    # A greedy policy cannot be smoothed by propensities that are not known.
    assert {point.metrics["smoothing"] for point in study.points} == {0.0}


def test_frontier_trades_value_against_support(tiny_study: Run) -> None:
    rows = tiny_study().frontier().to_pylist()
    assert rows
    assert [row["ess"] for row in rows] == sorted((row["ess"] for row in rows), reverse=True)
    assert [row["sntis"] for row in rows] == sorted(row["sntis"] for row in rows)


def test_a_failing_candidate_does_not_stop_the_others(tiny_study: Run, tiny_candidates: list[Candidate]) -> None:
    broken = Candidate("pocrm", {"steps": 5, "learning_rate": 1e30, "device": "cpu"})
    study = tiny_study(candidates=[broken, tiny_candidates[2]], restarts=1)
    statuses = {run.task.candidate.settings.get("learning_rate"): run.status for run in study.runs.values()}
    assert statuses[None] == "done"
    assert statuses[1e30] in {"failed", "broke down"}
    assert study.policy is not None


def test_a_budget_leaves_out_and_says_so(tiny_study: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    study = tiny_study(out=tmp_path / "study", time="10s")
    assert 0 < len(study.runs) < 6
    assert len(study.left_out) == 6 - len(study.runs)
    assert json.loads((tmp_path / "study" / "choice.json").read_text())["left_out"] == [
        task.run_id for task in study.left_out
    ]
    assert study.estimate is not None


@pytest.mark.parametrize("budget", ["soon", "-3m", "0", "3 weeks"])
def test_a_budget_must_be_a_time(tiny_study: Run, budget: str) -> None:
    with pytest.raises(InputError, match="is no time: write 90s, 10m or 2h"):
        tiny_study(time=budget)


def test_a_full_disk_gives_one_sentence_and_the_study_can_go_on(
    tiny_study: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def full(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(PoelaError, match="cannot be written: No space left on device"):
            tiny_study(out=tmp_path / "study")
    study = tiny_study(out=tmp_path / "study", resume=True)
    assert len(study.runs) == 6


def test_a_place_that_cannot_be_written_gives_one_sentence(tiny_study: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PoelaError, match="is no folder"):
        tiny_study(out=tmp_path / "file" / "study")


def test_a_changed_policy_file_is_refused(tiny_study: Run, tmp_path: Path) -> None:
    study = tiny_study(out=tmp_path / "study")
    assert study.choice.chosen is not None
    path = study.directory / "runs" / f"{study.choice.chosen.run_id}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged or was changed"):
        _ = Study.open(tmp_path / "study").policy


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"restarts": 0}, "restarts is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"shares": (0.5, 0.5, 0.5)}, "sum to at most 1"),
        ({"test": 0.3}, "in one split shares says which part is for the test"),
        ({"folds": 1}, "folds is 1"),
        ({"folds": 61}, "61 folds of 60 episodes cannot be made"),
        ({"level": 1.0}, "level is 1.0"),
        ({"candidates": []}, "there are no candidates"),
        ({"candidates": [Candidate("luck")]}, "there is no learner 'luck'"),
        ({"candidates": [Candidate("pocrm", {"luck": 1})]}, "has no setting 'luck'"),
        ({"candidates": [Candidate("poela", {"radius": "q500"})]}, "or a quantile from 'q0' to 'q100'"),
        ({"backend": "cloud"}, "backend is 'cloud'"),
        ({"luck": 1, "chance": 2}, "there is no setting 'luck', 'chance': choose from"),
        ({"episode": "stay", "step": "day"}, r"learn from poela.read_logs\(table, episode=..., step=...\)"),
    ],
)
def test_wrong_settings(tiny_study: Run, tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        tiny_study(out=tmp_path / "study", **settings)
    assert not (tmp_path / "study" / "study.json").exists() or settings.get("backend")
