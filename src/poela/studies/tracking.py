"""Finished runs, reported to MLflow or TensorBoard as they come. The study's own files remain the record."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from poela.core.errors import InputError
from poela.core.registry import how_to_install
from poela.studies.candidates import setting_text
from poela.studies.records import RunRecord


class Tracker(ABC):
    """Hears of every run that finishes."""

    @abstractmethod
    def finished(self, run_id: str, record: RunRecord) -> None:
        """Note a finished run: its settings, and the metrics of its checkpoints."""


class MLflow(Tracker):
    """One MLflow run for each run; the experiment has the name of the study's directory.

    Where MLFLOW_TRACKING_URI says nothing else, they go to `mlruns` in the study.
    """

    def __init__(self, study: Path) -> None:
        import os

        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise InputError(f"tracking with MLflow needs it: {how_to_install('track')}") from None
        store = os.environ.get("MLFLOW_TRACKING_URI")
        if not store:
            store = (study / "mlruns").resolve().as_uri()
            # MLflow 3 wants to be told that plain files are meant.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client = MlflowClient(tracking_uri=store)
        name = str(study.resolve())
        known = self._client.get_experiment_by_name(name)
        self._experiment = self._client.create_experiment(name) if known is None else known.experiment_id

    def finished(self, run_id: str, record: RunRecord) -> None:
        """Settings as parameters, metrics by step, status and messages as tags."""
        client = self._client
        run = client.create_run(self._experiment, run_name=run_id).info.run_id
        for name, value in _settings(record).items():
            client.log_param(run, name, value)
        for step, metric, number in _metrics(record):
            client.log_metric(run, metric, number, step=step)
        client.log_metric(run, "wall_seconds", record.wall_seconds)
        client.set_tag(run, "message", record.message)
        client.set_terminated(run, status="FAILED" if record.status == "failed" else "FINISHED")


class TensorBoard(Tracker):
    """One event directory for each run, under `tensorboard` in the study."""

    def __init__(self, study: Path) -> None:
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            raise InputError(f"tracking with TensorBoard needs it: {how_to_install('track')}") from None
        self._directory = study / "tensorboard"

    def finished(self, run_id: str, record: RunRecord) -> None:
        """Metrics by step, settings as text."""
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(self._directory / run_id)) as writer:
            lines = "\n".join(f"- {name}: {value}" for name, value in _settings(record).items())
            writer.add_text("settings", lines)
            for step, name, value in _metrics(record):
                writer.add_scalar(name, value, step)


TRACKERS: dict[str, type[MLflow] | type[TensorBoard]] = {"mlflow": MLflow, "tensorboard": TensorBoard}


def tracker(name: str | None, study: Path) -> Tracker | None:
    """The tracker of that name, for a study in this directory."""
    if name is None:
        return None
    if name not in TRACKERS:
        raise InputError(f"there is no tracker {name!r}: choose {' or '.join(TRACKERS)}")
    return TRACKERS[name](study)


def _settings(record: RunRecord) -> dict[str, str]:
    task = record.task
    settings = {name: setting_text(value) for name, value in task.candidate.settings.items()}
    return {"learner": task.candidate.learner, "restart": str(task.restart), "seed": str(task.seed), **settings}


def _metrics(record: RunRecord) -> Iterator[tuple[int, str, float]]:
    for checkpoint in record.checkpoints:
        for name, value in checkpoint.metrics.items():
            if value is not None:
                yield checkpoint.step, name, value
