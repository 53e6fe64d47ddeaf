"""The experiment on value-based learners in miniature."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from poela.experiments import value_learners as experiment
from poela.experiments.value_learners import Size


def test_every_learner_and_every_temperature_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "QUICK", Size(data_sets=1, episodes=20, restarts=1, steps=20, density_steps=20))
    monkeypatch.setattr(experiment, "TEMPERATURES", (4.0, 0.0))
    monkeypatch.setattr(experiment, "GRIDS", {name: experiment.GRIDS[name] for name in ("BCQ", "CQL")})
    report = experiment.value_learners(tmp_path, quick=True)
    learners, _, path, _ = (pq.read_table(tmp_path / f"value_learners-{n}.parquet").to_pylist() for n in (1, 2, 3, 4))
    assert [row["learner"] for row in learners] == ["BCQ", "CQL"]
    assert [row["policy"] for row in path] == [f"temperature {tau:.4g}" for tau in experiment.TEMPERATURES]
    # No log follows the greedy policy for 30 months, and the table says what that means.
    assert path[-1]["SNTIS"] == "none"
    assert path[-1]["verdict"] == "do not trust"
    assert "every weight is zero" in str(report)
