"""Runs as files: what several policies have in common is there once, and read through once."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.studies.coins import coins

from poela.core.files import sha256
from poela.core.storage import Stored
from poela.studies import run_files
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.store import Store


def policy(large: np.ndarray[tuple[int], np.dtype[np.float64]], own: float) -> Stored:
    return Stored("network", {}, {"weights": np.array([own])}, {"rule": Stored("rule", {}, {"contexts": large})})


def test_the_very_same_part_is_read_through_once_and_an_equal_one_is_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large, hashed = np.arange(run_files.LARGE, dtype=np.float64), list[int]()

    def counted(content: bytes) -> str:
        hashed.append(len(content))
        return sha256(content)

    monkeypatch.setattr(run_files, "sha256", counted)
    same = run_files.packed([policy(large, 1.0), policy(large, 2.0)])
    assert sum(size > run_files.LARGE for size in hashed) == 1
    equal = run_files.packed([policy(large, 1.0), policy(large.copy(), 2.0)])
    assert (same.own, dict(same.shared)) == (equal.own, dict(equal.shared))
    other = run_files.packed([policy(large, 1.0), policy(large + 1, 2.0)])
    assert len(same.shared) == 1
    assert len(other.shared) == 2


def test_a_study_is_a_handful_of_files_and_waits_for_the_disk_once_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: Counter[str] = Counter()
    at_work, fsync, write_run = ["the study"], os.fsync, Store.write_run

    def counted(handle: int) -> None:
        waits[at_work[-1]] += 1
        fsync(handle)

    def written(store: Store, *run: Any) -> None:
        at_work.append("runs")
        write_run(store, *run)
        at_work.pop()

    monkeypatch.setattr(os, "fsync", counted)
    monkeypatch.setattr(Store, "write_run", written)
    candidates = [Candidate("fittedq", {"history": 0, "regressor": "ridge"}), Candidate("consensus")]
    study = learn(coins(300, effect=0.5), candidates=candidates, folds=3, backend="inline", out=tmp_path / "study")
    assert waits["runs"] == len(study.all_runs) > len(study.runs)  # with those on all episodes and without two folds
    assert waits["the study"] <= 30
    gathered = len(list((tmp_path / "study" / "runs").glob("*-pairs.safetensors")))
    alone = [run_id for run_id, run in study.all_runs.items() if run.task.fold is None or run.task.fold < 3]
    files = [path for path in (tmp_path / "study").rglob("*") if path.is_file()]
    assert gathered > 0
    assert len([path for path in files if path.parent.name == "runs"]) == len(alone) + gathered
    assert len(files) <= len(alone) + gathered + 20
