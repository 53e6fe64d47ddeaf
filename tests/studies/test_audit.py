"""The audit: each trap is found and leaves no claim, clean tables raise nothing, and its numbers agree with others."""

import json
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from benchmarks.audit import DATES, HARMLESS, KINDS, TRAPS, clean_logs, is_found, one_step, read

from poela.cli import main
from poela.core.errors import PoelaWarning
from poela.core.typed import to_plain
from poela.data.encoding import late_columns
from poela.data.layout import LogLayout
from poela.data.tables import read_and_warn, read_logs
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.studies.audit import audit, audited
from poela.studies.doubted_propensities import imbalance_of
from poela.studies.findings_of_audit import SWITCHED_OFF, Audit, context_in_words
from poela.studies.learning import learn
from poela.studies.planning import plan
from poela.studies.records import StudyRecord, fingerprint_of
from poela.studies.study import Study
from poela.studies.telling_columns import Column, variance_explained
from poela.studies.unnamed_clusters import likeness

QUICK: Any = {"learners": ["fittedq"], "folds": 2, "backend": "inline"}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("seed", range(2))
def test_each_trap_is_found_and_names_its_column(trap: str, seed: int) -> None:
    make, kinds, columns = TRAPS[trap]
    result = audit(make(np.random.default_rng(seed)))
    assert is_found(result, kinds, columns)
    assert bool(result.problem) or trap in HARMLESS
    if trap in ("an id", *DATES):
        assert not result.problem


@pytest.mark.parametrize("kind", [*list(KINDS)[::2], "tumor", "clinic", "sepsis"])
def test_clean_tables_raise_nothing(kind: str) -> None:
    found = audit(clean_logs(kind, 500))
    assert not found.problem
    assert [one.kind for one in found.findings] == ["prognosis"] * (kind == "strong prognosis")


@pytest.mark.parametrize(("share", "named"), [(0.7, False), (0.9, True)])
def test_a_strong_prognosis_is_to_be_checked_and_voids_nothing(share: float, named: bool) -> None:
    """A baseline that tells this share of the variance, given the action, of what is measured again afterwards."""
    rng = np.random.default_rng(4)
    before, treat = rng.normal(size=1500), rng.integers(0, 2, 1500)
    after = np.sqrt(share) * before + np.sqrt(1 - share) * rng.normal(size=1500) + 0.3 * treat
    table = {"before": before, "age": rng.normal(size=1500), "action": treat, "reward": after}
    found = audit(read(table | {"propensity_0": np.full(1500, 0.5), "propensity_1": np.full(1500, 0.5)}))
    assert [(one.kind, one.columns) for one in found.findings] == [("prognosis", ("before",))] * named
    assert not found.problem
    if named:
        assert "column 'before' predicts most of the outcome: check that it was known before" in found.notes[0]


def test_dates_after_the_decision_are_counted_and_said_once() -> None:
    day = np.datetime64("2024-01-10T09:00:00") + np.arange(200) * np.timedelta64(1, "h")
    table = {
        "stay": np.arange(200) // 2,
        "time": day,
        "known": day - np.timedelta64(1, "D"),
        "drawn": np.where(np.arange(200) % 4 == 0, day + np.timedelta64(5, "m"), day),
        "action": np.arange(200) % 3 == 0,
        "reward": np.random.default_rng(0).normal(size=200),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        logs = read_and_warn(pa.table(table), LogLayout(episode="stay", step="time"))
        found = audited(logs, no_audit=False)
    [finding] = [one for one in found.findings if one.kind == "date"]
    assert finding.columns == ("drawn",)
    assert finding.sentence == "column 'drawn' lies after the time of the decision ('time') in 50 rows"
    assert not finding.voids_weights
    assert [str(one.message) for one in caught].count(str(finding)) == 1


def test_an_hour_of_the_day_of_the_decision_is_not_after_it() -> None:
    """Steps that are dates begin at midnight; times with a zone are not compared with those without one."""
    day = np.datetime64("2024-01-10") + np.arange(120)
    table = {"stay": np.arange(120) // 2, "time": day, "action": np.arange(120) % 2, "reward": np.zeros(120)}
    layout = LogLayout(episode="stay", step="time")
    hour = day + np.timedelta64(36_000, "s")
    assert late_columns(read_logs(pa.table(table | {"drawn": hour}), layout=layout)) == []
    zoned = pa.array(hour + np.timedelta64(3, "D")).cast(pa.timestamp("s")).cast(pa.timestamp("s", "UTC"))
    assert late_columns(read_logs(pa.table(table | {"drawn": zoned}), layout=layout)) == []
    later = late_columns(read_logs(pa.table(table | {"drawn": hour + np.timedelta64(1, "D")}), layout=layout))
    assert [name for name, _ in later] == ["drawn"]


def test_a_named_cluster_is_no_finding_and_a_quantity_with_repeated_values_is_none() -> None:
    rng = np.random.default_rng(2)
    score = rng.integers(0, 60, 2000)
    chance = 0.1 + 0.8 * score / 60
    treat = (rng.random(2000) < chance).astype(int)
    table = {"score": score, "action": treat, "reward": -0.1 * score + rng.normal(size=2000)}
    assert audit(read(table)).findings == ()
    assert audit(read(table | {"propensity_0": 1 - chance, "propensity_1": chance})).findings == ()


def treated_by_patient() -> Trajectories:
    """Sixty patients with fifteen rows each, an action for each patient, and no effect; the patient is no cluster."""
    rng = np.random.default_rng(2)
    patient = np.repeat(np.arange(60), 15)
    treated = rng.random(60) < 0.5
    table = {
        "patient": patient,
        "x": rng.normal(size=900),
        "age": rng.normal(size=60).round(2)[patient],
        "action": treated[patient].astype(int),
        "reward": 2 * rng.normal(size=60)[patient] + rng.normal(size=900),
    }
    logs = read(table | {f"propensity_{action}": np.full(900, 0.5) for action in (0, 1)})
    assert isinstance(logs, Trajectories)
    return logs


def test_a_cluster_that_nobody_named_gives_a_false_claim_that_the_audit_takes_away() -> None:
    logs = treated_by_patient()
    unlooked = learn(logs, no_audit=True, **QUICK)
    assert unlooked.answer.change  # though no action changes anything
    assert unlooked.record.audit == Audit(skipped=SWITCHED_OFF)
    said = "rows with the same value of column 'patient' have almost always the same action"
    with pytest.warns(PoelaWarning, match=said):
        study = learn(logs, **QUICK)
    assert study.keeps_logging_policy
    assert study.result is not None
    assert study.result.promising is None
    assert {point.verdict for point in study.points} == {"do not trust"}
    assert said in study.choice.reason
    assert study.record.audit is not None
    assert [finding.columns for finding in study.record.audit.findings] == [("patient",)]  # and not its age, too
    judged = evaluate(unlooked.policy, logs, wrong=study.record.audit.problem)
    assert judged.verdict == "do not trust"
    assert said in judged.reasons[0]


def test_a_plan_says_what_keeps_it_from_telling() -> None:
    with pytest.warns(PoelaWarning, match="'patient'"):
        found = plan(treated_by_patient(), 0.1, **QUICK)
    assert "would show a gain of 0.100: rows with the same value of column 'patient'" in str(found)
    assert found.needs == ()


def test_on_the_command_line_and_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = one_step(np.random.default_rng(5), 600)
    table["amount"] = np.where(table["action"] == "treat", 100.0, 0.0)
    file, study, quick = tmp_path / "trial.csv", tmp_path / "study", ("--learners", "fittedq", "--folds", "2")
    pyarrow.csv.write_csv(pa.table(table), file)
    assert main(["learn", str(file), "--out", str(study), *quick, "--backend", "inline"]) == 0
    out, err = capsys.readouterr()
    assert "amount" in next(line for line in out.splitlines() if line.startswith("Context: x0, x1"))
    assert out.startswith("Keep what you do")
    assert "note: column 'amount' is filled in (or not) only where certain actions were taken" in err
    assert main(["studies", "show", str(study), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["audit"]["findings"][0] | {"sentence": "", "advice": ""} == {
        "kind": "filled", "columns": ["amount"], "sentence": "", "advice": "", "voids_weights": True
    }  # fmt: skip
    assert "amount" in document["context"]
    assert main(["report", str(study), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Audit: column" in page
    capsys.readouterr()
    assert main(["evaluate", str(study), "--logs", str(file), "--json", "--no-audit"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"] == {"findings": [], "skipped": SWITCHED_OFF}
    assert main(["plan", str(file), "--gain", "0.1", "--no-audit", "--backend", "inline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"] == {"findings": [], "skipped": SWITCHED_OFF}


def test_records_from_before_audits_keep_their_fingerprint(tmp_path: Path) -> None:
    logs = clean_logs("few rows", 1)
    study = learn(logs, out=tmp_path / "study", **QUICK)
    record = study.record
    assert record.audit == Audit()
    old = StudyRecord(record.settings, record.data, record.logging_policy, record.sessions)
    stored = {
        name: value for name, value in vars(old).items() if name not in ("audit", "outcome", "sessions", "rounds")
    }
    plain = to_plain({**stored, "sessions": ()})  # which knows no audit
    del plain["settings"]["selection"]["simplest"]  # nor plain policies
    del plain["data"]["source"]  # nor names of files
    del plain["data"]["lost"]  # nor outcomes that were not seen
    del plain["logging_policy"]["ess"]  # nor that cases may count differently
    for limit in ("guards", "cost", "spend", "capacity"):
        del plain["settings"]["selection"][limit]  # nor limits of what may be done
    assert old.fingerprint == fingerprint_of(plain)
    assert old.fingerprint != record.fingerprint
    assert Study.open(tmp_path / "study").record == record


def test_context_in_one_line() -> None:
    assert context_in_words([f"x{place}" for place in range(40)]).endswith("x10, x11, … (40 columns)")


def test_explained_is_one_less_the_share_of_noise() -> None:
    rng = np.random.default_rng(0)
    trend, noise = np.sin(np.linspace(0, 3, 50_000)), rng.normal(scale=0.1, size=50_000)
    assert variance_explained(trend + noise) == pytest.approx(1 - 0.01 / (trend.var() + 0.01), abs=0.003)


def test_likeness_counts_pairs_of_different_units() -> None:
    rng = np.random.default_rng(1)
    levels, units = rng.integers(0, 5, 40), rng.integers(0, 30, 40)
    residuals = rng.normal(size=(40, 2))
    scale = np.square(residuals).mean(axis=0).sum()

    def mean_product(pairs: list[tuple[int, int]]) -> float:
        return float(np.mean([residuals[i] @ residuals[j] for i, j in pairs]) / scale)

    every = list(combinations(range(40), 2))
    same = [(i, j) for i, j in every if levels[i] == levels[j] and units[i] != units[j]]
    beside = [(i, j) for i, j in every if abs(levels[i] - levels[j]) == 1]
    found = likeness(residuals, levels, units)
    assert (found.within, found.beside) == pytest.approx((mean_product(same), mean_product(beside)))


def test_right_propensities_are_hardly_ever_out_of_balance() -> None:
    """Two hundred trials with twenty columns: at a chance of 2 in 10,000, hardly one is held against."""
    doubted = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, 20))
        chance = 1 / (1 + np.exp(-x[:, 0]))
        known = np.column_stack([1 - chance, chance])
        logs = Trajectories(x, rng.random(300) < chance, np.zeros(300), np.arange(301), propensities=known)
        columns = [Column(str(place), column, np.zeros(300, bool)) for place, column in enumerate(x.T)]
        found = imbalance_of(logs, known, columns)
        doubted += bool(found.columns) or found.overall
    assert doubted <= 1


@pytest.mark.parametrize("seed", range(40))
def test_any_logs_at_all_can_be_audited(seed: int) -> None:
    """Few rows, one action, constants, huge and tiny numbers, unlikely propensities: no error, and no warning."""
    rng = np.random.default_rng(seed)
    episodes, steps, actions = int(rng.choice([1, 20, 60, 200])), int(rng.choice([1, 3])), int(rng.choice([1, 2, 40]))
    n = episodes * steps
    columns = [
        rng.normal(size=n) * rng.choice([1e-30, 1.0, 1e30]),
        np.zeros(n),
        np.arange(n),
        rng.integers(0, max(episodes // 3, 1), n),
    ]
    rewards = rng.normal(size=n) * rng.choice([0.0, 1.0, 1e200])
    taken = rng.integers(0, actions, n)
    chances = rng.dirichlet(np.ones(actions), size=n) * 0.99 + 0.01 / actions
    known = (None, chances, chances[np.arange(n), taken])[seed % 3]
    clusters = rng.integers(0, max(episodes // 2, 1), episodes) if rng.random() < 0.5 else None
    logs = Trajectories(
        np.column_stack(columns),
        taken,
        rewards,
        np.arange(0, n + 1, steps),
        propensities=known,
        n_actions=actions,
        clusters=clusters,
    )
    assert isinstance(audit(logs, seed), Audit)
