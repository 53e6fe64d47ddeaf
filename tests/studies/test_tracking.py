"""Trackers, against the real libraries with local files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from poela.core.errors import InputError
from poela.studies.study import Study


def test_mlflow(tiny_study: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    study = tiny_study(out=tmp_path / "study", track="mlflow")
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "study" / "mlruns").resolve().as_uri())
    experiment = client.get_experiment_by_name(str((tmp_path / "study").resolve()))
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == set(study.runs)
    one = runs[0]
    record = study.runs[one.info.run_name]
    assert one.data.params["learner"] == record.task.candidate.learner
    history = client.get_metric_history(one.info.run_id, "sntis")
    assert [(point.step, point.value) for point in history] == [
        (row.step, row.metrics["sntis"]) for row in record.checkpoints
    ]


def test_tensorboard(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    study = tiny_study(out=tmp_path / "study", track="tensorboard")
    for run_id, record in study.runs.items():
        events = EventAccumulator(str(tmp_path / "study" / "tensorboard" / run_id)).Reload()
        points = [(event.step, event.value) for event in events.Scalars("ess")]
        assert points == [(row.step, pytest.approx(row.metrics["ess"])) for row in record.checkpoints]


def test_an_unknown_tracker(tiny_study: Callable[..., Study], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="track is 'diary': choose 'mlflow' or 'tensorboard'"):
        tiny_study(out=tmp_path / "study", track="diary")
