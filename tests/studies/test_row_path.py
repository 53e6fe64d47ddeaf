"""From file to verdict: rows are checked once, files opened once, documents parsed once, weights computed once."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from poela.core.errors import InputError
from poela.data import trajectories
from poela.data.checks import problems_of
from poela.data.joining import joined
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.evaluation import scoring
from poela.studies import judging, pooled_points, so_far, store
from poela.studies.study import Study


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, key: Callable[..., Any]) -> "Counter[Any]":
    """How often a function is called from now on, by a key of its arguments."""
    calls: Counter[Any] = Counter()
    function = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls[key(*arguments)] += 1
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_a_study_parses_no_document_that_it_wrote(
    tiny_study: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = counting(monkeypatch, store, "read_record", lambda kind, path: path.name)
    headers = counting(monkeypatch, store, "record_in", lambda path: path.name)
    study = tiny_study(folds=2, restarts=1, test=0.2, out=tmp_path / "study")
    assert study.all_runs
    assert study.result is not None
    assert not parsed
    assert not headers

    again = Study.open(tmp_path / "study")  # another process would know nothing
    for name in ("record", "all_runs", "result", "evaluations"):
        assert repr(getattr(again, name)) == repr(getattr(study, name))  # where NaN is like NaN
    assert set(parsed.values()) == set(headers.values()) == {1}
    assert (len(parsed), len(headers)) == (3, len(study.all_runs))


def test_a_document_that_changed_is_parsed_again(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    study = tiny_study(restarts=1, out=tmp_path / "study")
    path = next((tmp_path / "study" / "runs").glob("*.safetensors"))
    shutil.copy(path, tmp_path / "whole")
    path.write_bytes(path.read_bytes().replace(b"done", b"gone"))
    with pytest.raises(InputError, match="damaged or was changed"):
        study.store.finished_runs()
    shutil.copy(tmp_path / "whole", path)
    assert study.store.finished_runs() == study.all_runs


def test_weights_of_a_checkpoint_are_computed_once_and_read_once(
    tiny_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = counting(monkeypatch, scoring, "weights_of", lambda probabilities, logs: logs.n_episodes)
    pooled, told = (
        counting(monkeypatch, owner, "pooled_evidence", lambda held_out, number, *rest: number)
        for owner in (pooled_points, judging)
    )
    monkeypatch.setattr(so_far, "MOST_SHARE", -1.0)  # no provisional answer, which judges paths early
    study = tiny_study(folds=2, restarts=1, test=0.2)
    judged = sum(len(run.checkpoints) for run in study.runs.values())
    on_test = 0 if study.keeps_logging_policy else 1
    assert sum(computed.values()) == judged + on_test
    spoken_of = 0 if study.gain is None else 1  # the policy whose gain is told, with a two-sided interval
    assert (sum(pooled.values()), sum(told.values())) == (len(study.points), spoken_of)


def test_rows_that_were_checked_are_not_checked_again(tiny_logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = np.arange(60) < 3
    whole = replace(tiny_logs, clusters=np.arange(60) // 2, lost=lost)
    one, other = whole.take(np.arange(60) < 20), tiny_logs.take(np.arange(60) >= 20)
    checked = counting(monkeypatch, trajectories, "problems_of", lambda logs: logs.n_episodes)
    derived = (whole.with_history(2, initial=True), joined(one, other), joined(whole, whole), joined(whole))
    sliced = (*whole.split((0.5, 0.5), seed=0), whole.take([7, 3, 3]), whole.take(np.arange(60) > 50))
    for part in (*sliced, *derived):
        assert not checked
        again = replace(part)  # which goes through the constructor
        assert checked.pop(part.n_episodes) == 1
        assert problems_of(part) == []
        for name in Trajectories.__dataclass_fields__:
            own, other = getattr(part, name), getattr(again, name)
            np.testing.assert_array_equal(own, other)
            if isinstance(own, np.ndarray):
                assert own.dtype == other.dtype
                assert not own.flags.writeable
    with pytest.raises(InputError, match="the logs are empty"):
        whole.take([])
    with pytest.raises(InputError, match="other features or actions than the first"):
        joined(whole, whole.with_history(1))


def test_a_study_checks_its_logs_at_its_doors_alone(
    tiny_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = counting(monkeypatch, trajectories, "problems_of", lambda logs: logs.n_episodes)
    few = tiny_study(folds=3, restarts=1)
    counted = sum(checked.values())
    checked.clear()
    assert len(tiny_study(folds=3, restarts=3).runs) == 3 * len(few.runs)
    assert sum(checked.values()) == counted  # however many policies are judged
    # Both parts of each fold, and of each pair of folds, as they are read from their files; the rest is the log itself.
    assert counted <= 2 * (3 + 3) + 6


def test_a_file_is_opened_for_its_size_and_once_for_its_rows_which_are_checked_once(
    tiny_logs: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(tiny_logs.to_table(), tmp_path / "logs.parquet")
    opened = counting(monkeypatch, pq, "ParquetFile", lambda path, *rest: str(path))
    checked = counting(monkeypatch, trajectories, "problems_of", lambda logs: logs.n_episodes)
    logs = read_logs(tmp_path / "logs.parquet", for_learning=True)
    # Opened for what it says of itself, and once for its columns, where that is safe.
    assert (logs.n_episodes, sum(opened.values()), checked) == (60, 2, {60: 1})


def test_episodes_beside_are_joined_once_for_all_policies(
    tiny_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = counting(monkeypatch, scoring, "joined", lambda first, second: second.n_episodes)
    study = tiny_study(folds=2, restarts=2)
    assert len(study.runs) > 2
    assert sum(joined.values()) == 2  # once in each fold
