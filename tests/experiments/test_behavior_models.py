"""The experiment on behavior models, made tiny."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny

from poela.behavior.propensities import KNNBehavior
from poela_experiments import behavior_models as experiment


@pytest.mark.skipif(find_spec("icu_sepsis") is None, reason="the sepsis simulator needs the tables of icu-sepsis")
def test_a_tiny_run_gives_all_tables_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = {"multinomial": KNNBehavior(k=10), "MLP": KNNBehavior(k=20)}  # which are fitted in no time
    # The trees that look for what was never done, for 25 actions on every log, are no part of the tables.
    monkeypatch.setattr("poela.evaluation.evaluate.logged_support", lambda logs, behavior=None: None)
    monkeypatch.setattr(experiment, "MODELS", only)
    monkeypatch.setattr(experiment, "SHORT_MODELS", only)
    run = tiny("behavior", tmp_path, episodes=40, logs=2, log_episodes=30, roll_outs=50)
    report = experiment.behavior_models(run)
    recovery, pairs, references = report.tables
    assert len(recovery.rows) == 3 * 2 + 1
    assert all(0 <= float(row["total variation"] or 0) <= 1 for row in recovery.rows)
    assert [len(table.rows) for table in (pairs, references)] == [8, 8]
    assert {path.name for path in tmp_path.iterdir()} == {"behavior.md", "behavior", "kept"}
    assert {path.stem for path in (tmp_path / "behavior").iterdir()} == {"recovery", "errors", "yardsticks", "made"}


def test_root_mean_squares_and_savings_by_hand() -> None:
    errors = {
        **{(name, "in-sample"): np.array([[3.0, -3, 0], [4, -4, 0]]) for name in experiment.SHORT_MODELS},
        **{(name, "cross-fitted"): np.array([[1.0, -1, 0], [1, -1, 0]]) for name in experiment.SHORT_MODELS},
    }
    first, _, _, everything = experiment._pairs(errors)[:4]
    assert first["in-sample"] == pytest.approx(np.sqrt(12.5))
    assert first["cross-fitted"] == 1.0
    assert first["saved"] == 2.5
    assert first["standard error"] == 0.5
    assert everything["saved"] == pytest.approx(5 / 3)
