"""The tumor experiment in miniature: both protocols from one study, and the weights on the same study."""

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny_tumor

from poela.simulators.tumor import TumorBehavior
from poela_experiments import tumor_studies
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Truth
from poela_experiments.frame.settings import Size
from poela_experiments.tumor import TUMOR, Outcome, comparison_rows, details, outcomes_of, tables_of
from poela_experiments.tumor_studies import TumorTask
from poela_experiments.weights import normalised_weights, tumor_weights


class Uniform:
    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.full((len(contexts), 2), 0.5)


def outcome(learner: str, data_set: int, truth: float, sntis: float, **changes: str) -> Outcome:
    task = TumorTask(data_set=data_set, behavior=changes.get("behavior", "known"))
    return Outcome(learner, task, changes.get("protocol", "final"), "settings", sntis, 2.0, Truth(truth, 0.1))


def test_paper_grids() -> None:
    """Table of hyperparameters in the paper's appendix; PO-CRM has more penalties, so that it is tuned as hard."""
    settings = [
        (candidate.learner, dict(candidate.settings))
        for candidate in candidates_of("tumor", Size.of("tumor", "full"), "BC")
    ]
    assert {values["radius"] for name, values in settings if name == "poela"} == {0.05, 0.1, 0.5}
    assert {values["variance_penalty"] for name, values in settings if name == "poela"} == {0, 0.1, 1}
    assert {0, 0.1, 1} < {values["variance_penalty"] for name, values in settings if name == "pocrm"}
    assert {values["minimum_probability"] for name, values in settings if name == "pomu"} == {0.01, 0.05, 0.1, 0.2}
    assert {values["threshold"] for name, values in settings if name in ("bcq", "pql")} == {0.0, 0.2}
    assert {values["checkpoints"] for _, values in settings} == {25}  # half of the paper's


def test_means_and_errors_over_data_sets(tmp_path: Path) -> None:
    outcomes = [outcome("POELA", 0, 90.0, 95.0), outcome("POELA", 1, 94.0, 95.0), outcome("PO-CRM", 0, 91.0, 95.0)]
    rows = comparison_rows(tiny_tumor(tmp_path), TUMOR["main"], outcomes)
    value = next(row for row in rows if (row["learner"], row["quantity"]) == ("POELA", "true value"))
    assert (value["ours"], value["± ours"], value["authors' code"]) == (92.0, 2.0, 83.0)
    excess = next(row for row in rows if (row["learner"], row["quantity"]) == ("POELA", "SNTIS - truth"))
    assert excess["ours"] == 3.0


def test_one_table_for_each_protocol_and_behavior(tmp_path: Path) -> None:
    outcomes = [
        outcome("POELA", 0, 90.0, 95.0),
        outcome("PO-CRM", 0, 91.0, 95.0),
        outcome("POELA", 0, 89.0, 96.0, protocol="best"),
        outcome("POELA", 0, 88.0, 97.0, behavior="BC"),
    ]
    tables = list(tables_of(tiny_tumor(tmp_path), outcomes))
    assert [table.rows[0].get("table") for table in tables] == [
        "tab:tumor_result_main",
        "tab:tumor_result_bc",
        "tab:tumor_result_checkpoint",
        None,
    ]
    assert "non-Markov: POELA is above PO-CRM on 0 of 1 data sets" in tables[0].notes
    assert len(details(outcomes)) == 4


def test_estimated_behavior_sees_no_propensities() -> None:
    assert all(part.propensities is None for part in TumorTask(episodes=3, behavior="BC").logs())
    assert all(part.propensities is not None for part in TumorTask(episodes=3).logs())


def test_both_protocols_and_the_weights_from_one_study(tmp_path: Path) -> None:
    run = tiny_tumor(tmp_path)
    tasks = [TumorTask(markov, episodes=run.size.episodes) for markov in (False, True)]
    outcomes = list(outcomes_of((task, task.source(run)) for task in tasks))
    final, best = (
        {(o.task, o.learner): o for o in outcomes if o.protocol == protocol} for protocol in ("final", "best")
    )
    assert {name for _, name in final} == {name for _, name in best} == {"POELA", "PO-mu", "PO-CRM", "BCQ", "PQL"}
    assert all(best[key].sntis >= final[key].sntis for key in final)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/runs/*")}
    assert before
    report = tumor_weights(tiny_tumor(tmp_path, "tumor-weights"))
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/runs/*")}
    assert all(0 <= float(str(row["weight on low returns"])) <= 1 for row in report.tables[-1].rows)
    assert report.tables[0].command.endswith("tumor-weights --quick --seed 0 --out tumor")


def test_a_truth_is_found_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny_tumor(tmp_path)
    task = TumorTask(episodes=run.size.episodes)
    first = list(outcomes_of([(task, task.source(run))]))
    monkeypatch.setattr(tumor_studies, "true_value", None)
    assert list(outcomes_of([(task, task.source(run))])) == first


def test_weights_sum_to_one_and_follow_the_ratio() -> None:
    train, _ = TumorTask(episodes=50).logs()
    assert normalised_weights(TumorBehavior(), train, 0.0) == pytest.approx(np.full(50, 1 / 50))
    # By hand: the uniform policy's ratio is ½ over the logged propensity at each step, cut off at 1000.
    ratios = np.minimum(np.prod((0.5 / train.logged_propensities).reshape(50, 30), axis=1), 1000.0)
    weights = normalised_weights(Uniform(), train, 0.0)
    assert weights == pytest.approx(ratios / ratios.sum())
