"""The experiment on value-based learners in miniature."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.experiments.tiny import tiny

from poela_experiments import value_learners as experiment


def test_every_temperature_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "TEMPERATURES", (4.0, 0.0))
    run = tiny("values", tmp_path, data_sets=1, episodes=20)
    report = experiment.value_learners(run)
    path = pq.read_table(tmp_path / "values" / "path-max.parquet").to_pylist()
    assert [row["policy"] for row in path] == [f"temperature {tau:.4g}" for tau in experiment.TEMPERATURES]
    # No log follows the greedy policy for 30 months, and the table says what that means.
    assert path[-1]["SNTIS"] == "none"
    assert path[-1]["verdict"] == "do not trust"
    assert "every weight is zero" in str(report)
