"""The tumor experiments in miniature: the paper's grids, equal care, both protocols, and whether the order holds."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from tests.experiments.tiny import tiny_tumor

from poela.learners.policy_gradient import PolicyGradient
from poela.learners.stacked import Learned, Member
from poela.simulators.episodes import run as simulated
from poela.simulators.tumor import TumorBehavior
from poela_experiments.frame import trials
from poela_experiments.frame.candidates import candidates_of, name_of
from poela_experiments.frame.judging import clear
from poela_experiments.frame.settings import Size
from poela_experiments.order import order_table
from poela_experiments.tumor import Outcome, data_set, tables_of, tumor, tumor_order
from poela_experiments.tumor_logs import TumorTask, normalised_weights


class Uniform:
    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.full((len(contexts), 2), 0.5)


def outcome(learner: str, number: int, truth: float, sntis: float, **changes: str) -> Outcome:
    about = {"contexts": "non-Markov", "behavior": "known", "protocol": "final", **changes}
    return Outcome(
        about["contexts"],
        about["behavior"],
        number,
        learner,
        about["protocol"],
        "settings",
        sntis,
        ess=2.0,
        value=truth,
        error=0.1,
        weight=0.25,
        logged=0.9,
    )


def test_paper_grids() -> None:
    """Table of hyperparameters in the paper's appendix, and nothing else."""
    settings = [
        (candidate.learner, dict(candidate.settings))
        for candidate in candidates_of("tumor", Size.of("tumor", "full"), "BC")
    ]
    assert {values["radius"] for name, values in settings if name == "poela"} == {0.05, 0.1, 0.5}
    assert {values["variance_penalty"] for name, values in settings if name in ("poela", "pocrm")} == {0, 0.1, 1}
    assert {values["variance_penalty"] for name, values in settings if name == "pomu"} == {0}
    assert {values["minimum_probability"] for name, values in settings if name == "pomu"} == {0.01, 0.05, 0.1, 0.2}
    assert {values["threshold"] for name, values in settings if name in ("bcq", "pql")} == {0.0, 0.2}
    assert {values["checkpoints"] for _, values in settings} == {50}
    assert len(settings) == 9 + 4 + 3 + 2 + 2


def test_equal_care_is_equal() -> None:
    for behavior, learners in (("known", {"POELA", "PO-CRM"}), ("BC", {"POELA", "PO-mu", "PO-CRM"})):
        names = [name_of(one) for one in candidates_of("tumor-order", Size.of("tumor-order", "full"), behavior)]
        assert set(names) == learners
        assert {names.count(name) for name in learners} == {9}


def test_tables_are_made_of_learners_in_their_published_form(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PolicyGradient] = []

    def watched(members: list[Member], *_: object) -> list[Learned]:
        seen.extend(member.learner for member in members)
        return [Learned() for _ in members]

    monkeypatch.setattr(trials, "fit_stacked", watched)
    for published in (True, False):
        assert data_set(TumorTask(episodes=3), [("poela", {"radius": 0.1})], 1, 5, published) == []
    first, second = seen
    assert (first.relu_logits, first.standardise, first.warm_start_last_steps) == (True, False, False)
    assert (second.relu_logits, second.standardise, second.warm_start_last_steps) == (False, True, True)


def test_means_and_errors_over_data_sets(tmp_path: Path) -> None:
    outcomes = [outcome("POELA", 0, 90.0, 95.0), outcome("POELA", 1, 94.0, 95.0), outcome("PO-CRM", 0, 91.0, 95.0)]
    fixed = {f"9 months, {contexts}": [68.0, 0.1] for contexts in ("Markov", "non-Markov")}
    tables = list(tables_of(tiny_tumor(tmp_path), outcomes, {**fixed, "logging policy": [50.0, 0.1]}))
    assert [table.key for table in tables] == ["main", "weights"]
    rows = {(row["learner"], row["quantity"]): row for row in tables[0].rows}
    value = rows["POELA", "true value"]
    assert (value["ours"], value["± ours"], value["authors' code"]) == (92.0, 2.0, 83.0)
    assert rows["POELA", "SNTIS - truth"]["ours"] == 3.0
    assert rows["9 months", "true value"]["ours"] == 68.0
    assert [row["ours"] for row in tables[1].rows] == [0.25, 0.25]


def test_a_model_of_behavior_sees_the_training_log_without_its_propensities() -> None:
    task = TumorTask(episodes=20, behavior="BC")
    (train, validation), model = task.weighted_logs()
    known = task.logs()
    assert train.estimated
    assert validation.estimated
    assert np.abs(np.asarray(train.propensities) - np.asarray(known[0].propensities)).max() > 0.01
    rows = model.probabilities(validation.contexts)
    np.testing.assert_allclose(np.asarray(validation.propensities), rows, atol=1e-6)


def test_both_protocols_and_the_weights_from_one_fit(tmp_path: Path) -> None:
    report = tumor(tiny_tumor(tmp_path))
    rows = report.tables[-1].rows
    final, best = (
        {(row["contexts"], row["learner"]): row for row in rows if row["protocol"] == protocol}
        for protocol in ("final", "best")
    )
    assert {name for _, name in final} == {name for _, name in best} == {"POELA", "PO-mu", "PO-CRM", "BCQ", "PQL"}
    assert all(float(str(best[key]["SNTIS"])) >= float(str(final[key]["SNTIS"])) for key in final)
    assert all(0 <= float(str(row["weight on low returns"])) <= 1 for row in rows)
    keys = [table.key for table in report.tables]
    assert keys == ["main", "checkpoint", "weights", "weights-markov", "data-sets"]


def test_a_small_version_has_no_column_of_the_paper(tmp_path: Path) -> None:
    fixed = {f"9 months, {contexts}": [68.0, 0.1] for contexts in ("Markov", "non-Markov")}
    run = tiny_tumor(tmp_path, about="one data set")
    for table in tables_of(run, [outcome("POELA", 0, 90.0, 95.0)], {**fixed, "logging policy": [50.0, 0.1]}):
        assert not {"paper", "agrees", "authors' code"} & set(table.columns)


def test_roll_outs_meet_other_patients_than_the_logs() -> None:
    """Where both policies act alike, the same patient with the same luck would have the same return."""
    task = TumorTask(episodes=40)
    logged = {part.returns()[0] for part in task.logs()}
    again = simulated(task.simulator, TumorBehavior(), 1, seed=(task.data_set, 0)).returns()[0]
    assert again in logged
    truth = task.truth(TumorBehavior(), 40).value
    assert all(abs(truth - part.returns().mean()) > 1e-9 for part in task.logs())


def test_weights_sum_to_one_and_follow_the_ratio() -> None:
    train, _ = TumorTask(episodes=50).logs()
    assert normalised_weights(TumorBehavior(), train, 0.0) == pytest.approx(np.full(50, 1 / 50))
    # By hand: the uniform policy's ratio is ½ over the logged propensity at each step, cut off at 1000.
    ratios = np.minimum(np.prod((0.5 / train.logged_propensities).reshape(50, 30), axis=1), 1000.0)
    weights = normalised_weights(Uniform(), train, 0.0)
    assert weights == pytest.approx(ratios / ratios.sum())


@pytest.mark.parametrize("data_sets", [2, 5, 20])
def test_clear_is_the_quantile_of_student(data_sets: int) -> None:
    assert clear((1.0, data_sets)) == pytest.approx(student.ppf(0.975, data_sets - 1))


def test_order_by_hand(tmp_path: Path) -> None:
    """The differences -1, 8, 8 have mean 5 and a standard error of √27 / √3 = 3: not clear with three data sets."""
    truths = {"POELA": (94.0, 96.0, 95.0), "PO-CRM": (95.0, 88.0, 87.0), "PO-mu": (40.0, 42.0, 41.0)}
    rows = [outcome(name, n, truth, 99.0).row() for name, own in truths.items() for n, truth in enumerate(own)]
    by_other = {row["POELA less"]: row for row in order_table(tiny_tumor(tmp_path), rows).rows}
    crm, mu = by_other["PO-CRM"], by_other["PO-mu"]
    assert (crm["difference"], crm["data sets above"], crm["holds"]) == (5.0, 2, "open")
    assert crm["its error"] == pytest.approx(3.0)
    assert (mu["difference"], mu["holds"], mu["the other at 50 or below"]) == (54.0, "yes", 3)
    assert (crm["lowest of POELA"], crm["lowest of the other"]) == (94.0, 87.0)


def test_equal_care_in_miniature(tmp_path: Path) -> None:
    report = tumor_order(tiny_tumor(tmp_path, "tumor-order", fewer=9, episodes=100, data_sets={"known": 2}))
    assert [table.key for table in report.tables] == ["order", "data-sets"]
    assert {row["data sets"] for row in report.tables[0].rows} == {2}
