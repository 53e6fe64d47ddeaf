"""The sepsis experiment in miniature: grids, choices, tables, pictures, and what is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny_sepsis

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela_experiments import sepsis_logs
from poela_experiments.frame.candidates import candidates_of, name_of
from poela_experiments.frame.policies import Examined, Truth
from poela_experiments.frame.results import ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.frame.trials import Choosing
from poela_experiments.sepsis import part as made_part
from poela_experiments.sepsis import pictures, sepsis
from poela_experiments.sepsis_actions import eligible_by_rule, severities
from poela_experiments.sepsis_beside import CAUGHT, MISSED, misleads
from poela_experiments.sepsis_logs import CHOOSING, LOGGING, OWN, hidden_logs, weighted_logs
from poela_experiments.sepsis_tables import RADIUS

FULL = Size.of("sepsis", "full")


def part(name: str, run: Run) -> list[ResultTable]:
    return [ResultTable(**table) for table in made_part(run, name)]


def test_paper_grids() -> None:
    """Table of hyperparameters in the paper's appendix."""
    settings = [(name_of(candidate), dict(candidate.settings)) for candidate in candidates_of("sepsis", FULL, "kNN")]
    by_learner = {name: [values for other, values in settings if other == name] for name, _ in settings}
    assert {name: len(own) for name, own in by_learner.items()} == {
        "POELA": 16,
        "PO-mu": 4,
        "PO-CRM": 4,
        "BCQ": 6,
        "PQL": 6,
    }
    assert {values["radius"] for values in by_learner["POELA"]} == {0.4, 0.6, 0.8, 1.0}
    assert {values["variance_penalty"] for values in by_learner["PO-CRM"]} == {0, 0.1, 1, 10}
    assert {values["minimum_probability"] for values in by_learner["PO-mu"]} == {0.01, 0.02, 0.05, 0.1}
    assert {values["threshold"] for values in by_learner["PQL"]} == {0, 0.01, 0.05, 0.1, 0.3, 0.5}
    assert {values["steps"] for values in by_learner["POELA"]} == {1000}
    assert {(values["steps"], values["batch_size"]) for values in by_learner["BCQ"]} == {(10_000, 100)}
    assert {values["hidden"] for _, values in settings} == {(256, 256)}
    # The paper has 100 checkpoints and three restarts: every table says what is left out.
    assert ({values["checkpoints"] for _, values in settings}, FULL.restarts) == ({20}, 1)
    assert "one restart instead of the paper's three, 20 checkpoints instead of 100" in FULL.left_out
    assert CHOOSING.selections["final"].least_ess(3000) == pytest.approx(200)


def test_own_care_is_equal() -> None:
    names = [name_of(candidate) for candidate in candidates_of("sepsis", FULL, OWN)]
    assert {names.count(name) for name in ("POELA", "PO-mu", "PO-CRM")} == {8}
    assert {names.count(name) for name in ("BCQ", "PQL", "CQL")} == {6}


def test_logs_hide_the_clinicians() -> None:
    parts = hidden_logs("harmless", 0, (40, 30, 30))
    assert [logs.n_episodes for logs in parts] == [40, 30, 30]
    assert all(logs.propensities is None for logs in parts)


def test_knn_weighs_every_part_by_itself() -> None:
    """Each context is among its own 100 neighbours, so a logged action never has less than 1 / 100."""
    for logs in weighted_logs("harmless", "kNN", 0, (60, 50, 40)):
        assert logs.n_steps > 100
        assert logs.logged_propensities.min() >= 1 / 100
        np.testing.assert_allclose(np.asarray(logs.propensities).sum(axis=1), 1.0)
    assert all(logs.propensities is None for logs in weighted_logs("harmless", "BC", 0, (40, 30, 30)))


def test_where_no_policy_qualifies_one_is_shown_but_not_judged(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as strict:
        strict.setattr(sepsis_logs, "CHOOSING", Choosing(0.999))
        table = part("kNN", tiny_sepsis(tmp_path, fewer=100))[0]
    assert any(note.startswith("no policy has that effective sample size") for note in table.notes)
    learned = [row for row in table.rows if row["learner"] == "POELA"]
    assert learned
    assert {row["agrees"] for row in learned} == {""}
    assert [row["± ours"] is not None for row in learned if row["quantity"] == "SNTIS"] == [True]


def test_another_seed_is_another_study(tmp_path: Path) -> None:
    first, second = (part("harmful 0", tiny_sepsis(tmp_path, seed, fewer=100))[0] for seed in (0, 1))
    (again,) = part("harmful 1", tiny_sepsis(tmp_path, fewer=100))
    assert first.rows != second.rows == again.rows
    assert [table.title.count("another data set") for table in (first, second, again)] == [0, 0, 1]


def test_paper_part(tmp_path: Path) -> None:
    tables = part("kNN", tiny_sepsis(tmp_path))
    labels = [table.rows[0].get("table") for table in tables if table.rows]
    assert labels[:3] == ["tab:sepsis_result_main", "tab:sepsis_result_checkpoint", "tab:sepsis_noess_result"]
    by_title = {table.title: table for table in tables}
    quantities = [f"{where} {what}" for where in ("training", "test", "validation") for what in ("SNTIS", "ESS")]
    by_radius = by_title[RADIUS.title].rows
    assert [(row["learner"], row["quantity"]) for row in by_radius] == [
        ("0.4", quantity) for quantity in (*quantities, "true value")
    ]
    clinicians = [row for row in tables[0].rows if row["learner"] == LOGGING]
    assert {row["quantity"] for row in clinicians} == {"SNTIS", "upper bound", "lower bound", "ESS", "true value"}
    weights = [row for table in tables for row in table.rows if row.get("table") == "tab:training_weights"]
    assert {row["learner"] for row in weights} == {"POELA", "PO-mu", "PO-CRM", "BCQ", "PQL"}
    assert all(0 <= float(str(row["ours"])) <= 1 for row in weights)
    assert not any(row.get("agrees") for table in tables for row in table.rows)  # other data than the paper's
    pytest.importorskip("matplotlib")
    pictures(tmp_path, {table.key: table for table in tables})
    drawn = {file.stem for file in tmp_path.rglob("*.svg")}
    assert drawn == {"radius-value", "radius-ess", "trade-off", "actions", "eligible"}


def test_report_of_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poela_experiments.sepsis.VARIANTS", ("harmful",))
    report = sepsis(tiny_sepsis(tmp_path, behaviors=()))
    (beside,) = report.tables
    assert [row["learner"] for row in beside.rows][:4] == [LOGGING, "POELA", "PO-mu", "PO-CRM"]
    assert "Sepsis, harmful: of " in report.closing
    assert report.closing.splitlines()[-1] in (tmp_path / "sepsis.md").read_text(encoding="utf-8")


def examined(value: float, truth: float, verdict: str) -> Examined:
    logs = Trajectories([[0.0]] * 2, [0, 0], [value - 1, value + 1], [0, 1, 2])
    estimate = replace(evaluate(None, logs, estimator="behavior", interval=None), verdict=verdict)
    return Examined("POELA", "best", estimate, Truth(truth, 0.1))


def test_a_policy_misleads_where_it_is_worse_and_its_estimate_better() -> None:
    logging = examined(80.0, 78.0, "trust")
    assert misleads(logging, logging) == "no"
    assert misleads(examined(90.0, 70.0, "trust"), logging) == MISSED
    assert misleads(examined(90.0, 70.0, "caution"), logging) == CAUGHT
    assert misleads(examined(75.0, 70.0, "trust"), logging) == "no"  # its estimate tells
    assert misleads(examined(90.0, 77.9, "trust"), logging) == "no"  # within two standard errors


def test_eligible_actions_by_hand() -> None:
    train = Trajectories([[0.0, 0.0], [2.0, 0.0]], [0, 1], [0, 0], [0, 2], n_actions=3)
    patient = Trajectories([[1.0, 0.0], [0.0, 0.0]], [0, 1], [0, 0], [0, 2], n_actions=3)

    class Model:
        def probabilities(self, contexts: np.ndarray) -> np.ndarray:
            return np.tile([0.935, 0.05, 0.015], (len(contexts), 1))

    masks = eligible_by_rule(train, patient, Model())
    # Mean squared differences: ½ to both at the first step; 0 and 2 at the second. Action 2 was never logged.
    assert masks["δ = 0.4"].tolist() == [[False, False, False], [True, False, False]]
    assert masks["δ = 0.6"].tolist() == [[True, True, False], [True, False, False]]
    assert masks["μ ≥ 0.02"].tolist() == [[True, True, False]] * 2


def test_every_step_has_one_severity() -> None:
    _, _, test = hidden_logs("harmless", 0, (40, 30, 30))
    assert np.sum(list(severities(test).values()), axis=0).tolist() == [1] * test.n_steps
