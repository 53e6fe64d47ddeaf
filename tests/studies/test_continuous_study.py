"""The whole product on real-valued actions: from a table to a gain that is shown, and decisions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import poela
from poela import Candidate, GaussianBehavior, InputError
from poela.cli import main
from poela.evaluation.rollouts import true_value
from poela.simulators.doses import Dosing
from poela.simulators.registry import simulate

QUICK = {"hidden": (16,), "steps": 150, "radius": "q100", "least_ess": 60.0, "clone_steps": 300}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    logs = simulate("dosing", episodes=500, seed=1)
    out = tmp_path_factory.mktemp("continuous") / "study"
    return poela.learn(logs, candidates=[Candidate("continuouspoela", QUICK)], out=out, folds=3, backend="inline")


def test_a_gain_is_shown_and_the_true_gain_lies_above_it(study: Any) -> None:
    simulator = Dosing()
    assert not study.keeps_logging_policy
    truth = true_value(study.policy, simulator, episodes=5000).value - simulator.value(simulator.behavior)
    assert 0.3 < study.gain.low < truth < study.gain.high + 0.1
    assert study.estimate.verdict == "trust"
    assert str(study.answer).startswith("Change: at least")
    assert study.answer.next.endswith("and keep logging log densities.")
    # At equal folds, path points are the same blends.
    assert [row["note"] for row in study.table().to_pylist()][:2] == ["blend 0.05", "blend 0.1"]


def test_what_is_handed_back_rests_on_the_same_share_of_episodes(study: Any) -> None:
    logs, path = simulate("dosing", episodes=500, seed=1), study.choice.chosen.path_id
    boldest = study._policy(f"{path}-all", 9)
    assert boldest.share == 1.0  # it is no blend
    weights = np.exp(boldest.log_density(logs.contexts, logs.actions) - logs.log_propensities)
    assert weights.sum() ** 2 / np.square(weights).sum() > 0.95 * 60 * 3 / 2  # of two thirds it was 60


def test_a_study_on_disk_decides_evaluates_and_reports(
    study: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    opened = poela.Study.open(study.directory)
    rows = simulate("dosing", episodes=5, seed=2)
    contexts = rows.contexts
    np.testing.assert_array_equal(opened.policy.moments(contexts), study.policy.moments(contexts))
    pyarrow.csv.write_csv(rows.to_table(), tmp_path / "rows.csv")
    assert (
        main(["decide", str(study.directory), "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "d.csv")])
        == 0
    )
    decided = pyarrow.csv.read_csv(tmp_path / "d.csv")
    mean, spread = study.policy.moments(contexts)
    off = (decided["dose"].to_numpy() - mean[:, 0]) / spread[:, 0]
    assert np.abs(off).min() > 0  # drawn
    assert np.abs(off).max() < 4
    # The mean outcome of the ten nearest of the 32 nearest cases whose dose is within the rule, by hand.
    logs, rule = simulate("dosing", episodes=500, seed=1), study.policy.eligibility
    scaled = (logs.contexts - logs.contexts.mean(axis=0)) / logs.contexts.std(axis=0)
    asked = (contexts - logs.contexts.mean(axis=0)) / logs.contexts.std(axis=0)
    for row, (similar, outcome) in enumerate(
        zip(*decided.select(["similar", "outcome"]).to_pydict().values(), strict=True)
    ):
        far = np.square(scaled - asked[row]).mean(axis=1)
        nearest = np.argsort(far)[:32]
        off = np.square((decided["dose"][row].as_py() - logs.actions[nearest, 0]) / logs.actions.std())
        alike = nearest[far[nearest] + off <= rule.settings.radius * (1 + 1e-9)]
        assert len(alike) == similar >= 5
        assert outcome == pytest.approx(logs.rewards[alike[:10]].mean(), rel=1e-6)
    later = tmp_path / "later.parquet"
    assert main(["simulate", "dosing", "--episodes", "200", "--seed", "7", "--out", str(later)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(study.directory), "--logs", str(later), "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert estimate["gain"]["value"] > 0
    assert main(["evaluate", str(study.directory / "policy"), "--logs", str(later), "--json"]) == 0
    page = opened.report(tmp_path / "report.html")
    assert "at least" in page.read_text()
    assert "Columns of doses" in page.read_text()
    assert "Doses, before and after" not in page.read_text()
    beside = opened.report(tmp_path / "report.html", logs=simulate("dosing", episodes=500, seed=1), by=["severity:2"])
    assert "Doses, before and after" in beside.read_text()
    assert "severity: above" in beside.read_text()
    metrics = study.choice.chosen.metrics
    assert f"{metrics['change_sd']:.2f} SD)" in page.read_text()
    means = [study.fold_policy(study.choice.chosen, fold) for fold in range(3)]
    by_hand = [np.abs(one.moments(contexts)[0] - one.behavior.moments(contexts)[0]).mean() for one in means]
    assert 0.5 < metrics["change"] / np.mean(by_hand) < 2  # on other cases
    assert metrics["change_sd"] == pytest.approx(metrics["change"] / logs.actions.std(), rel=0.1)
    assert main(["studies", "show", str(study.directory)]) == 0
    assert f"({metrics['change_sd']:.2f} SD)" in capsys.readouterr().out


def test_decisions_with_outcomes_are_the_next_log(study: Any, tmp_path: Path, capsys: Any) -> None:
    later = simulate("dosing", episodes=400, seed=3).to_table()
    rows = later.drop_columns(["dose", "log_density", "reward"])
    for name in ("d.parquet", "d.csv"):
        pq.write_table(rows, tmp_path / "rows.parquet")
        given = ["--rows", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / name)]
        assert main(["decide", str(study.directory), *given]) == 0
        decided = pq.read_table(tmp_path / name) if name.endswith("parquet") else pyarrow.csv.read_csv(tmp_path / name)
        done = decided.filter(pa.array(~np.asarray(decided["defer"])))
        done = done.append_column("reward", pa.array(np.zeros(done.num_rows)))
        logs = poela.read_logs(done) if name.endswith("parquet") else poela.read_logs(done, action="dose")
        assert logs.feature_names == study.policy.feature_names
        expected = study.policy.log_density(logs.contexts, logs.actions)
        np.testing.assert_allclose(logs.log_propensities, expected, atol=1e-9)
    given = ["--rows", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "l.csv"), "--likeliest"]
    assert main(["decide", str(study.directory), *given]) == 2
    assert "its gain was not judged" in capsys.readouterr().err
    assert main(["decide", str(study.directory), *given, "--unproven"]) == 0
    alone = pyarrow.csv.read_csv(tmp_path / "l.csv")
    assert alone["log_density"].null_count == alone.num_rows


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["report", "STUDY", "--by", "step", "--out", "OUT/r.html"],
            "--by step: single decisions are not shown for real-valued actions",
        ),
        (["export", "STUDY", "--onnx", "OUT/policy.onnx", "--cover"], "export it without a cover"),
        (["serve", "STUDY", "--receipts", "OUT/receipts"], "real-valued decisions are the log themselves"),
    ],
)
def test_what_cannot_be_done_is_said(study: Any, tmp_path: Path, capsys: Any, command: list[str], words: str) -> None:
    given = [part.replace("STUDY", str(study.directory)).replace("OUT", str(tmp_path)) for part in command]
    assert main(given) == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learners": ["fittedq"]}, "learner 'fittedq' needs a finite set of actions, and these logs have real-valued"),
        ({"choose_by": "wdr"}, "choosing by wdr needs a model of values"),
        ({"behavior": "knn"}, "behavior 'knn' is a model of a finite set of actions"),
    ],
)
def test_settings_for_a_finite_set_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        poela.learn(simulate("dosing", episodes=30), **settings)
    with pytest.raises(InputError, match="learner 'iql' needs real-valued actions, and these logs have a finite set"):
        poela.learn(simulate("tumor", episodes=30), learners=["iql"])


@pytest.mark.parametrize("unit", [1.0, 0.05])
def test_plain_densities_are_refused_where_logarithms_are_due(unit: float) -> None:
    logs = simulate("dosing", episodes=200)
    logs = replace(logs, actions=unit * logs.actions, log_densities=logs.log_propensities - np.log(unit))
    words = "are positive and would be right as plain densities .* log their logarithms"
    plain = logs.with_log_densities(np.exp(logs.log_propensities))
    with pytest.raises(InputError, match=words):
        poela.learn(plain)
    with pytest.raises(InputError, match=words):
        poela.evaluate(GaussianBehavior(hidden=()).fit(logs), plain)
    # With the smaller unit most logarithms are positive as well: these alone are no plain densities.
    right = logs.take(logs.log_propensities > 0.1) if unit < 1 else logs
    assert poela.evaluate(GaussianBehavior(hidden=()).fit(logs), right).n_episodes > 150


def test_the_help_of_plan_names_the_learner_of_real_valued_actions(capsys: Any) -> None:
    assert main(["plan", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "fitted Q, or continuouspoela for real-valued actions" in said


def test_the_help_names_what_serves_real_valued_actions(capsys: Any) -> None:
    assert main(["learn", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "continuouspoela,iql by default, and continuousclone" in said
    assert "Real-valued actions (doses): auto, a Gaussian model" in said


def test_densities_are_estimated_where_none_are_logged(tmp_path: Path) -> None:
    logs = simulate("dosing", episodes=150, seed=1, densities=False)
    how: Any = {"candidates": [Candidate("continuouspoela", {**QUICK, "steps": 20})], "folds": 2, "backend": "inline"}
    study = poela.learn(logs, out=tmp_path / "s", **how)
    assert study.record.data.estimated
    assert "log densities: estimated, since the logs carry none" in study.record.data.propensities
    again = poela.learn(logs, out=tmp_path / "s", resume=True, **how)
    assert again.gain == study.gain


def test_columns_are_named_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    table = (
        simulate("dosing", episodes=60)
        .to_table()
        .rename_columns(["episode", "step", "severity", "clearance", "mg", "benefit", "lp"])
    )
    pyarrow.csv.write_csv(table, tmp_path / "doses.csv")
    (tmp_path / "try.toml").write_text('[[grid]]\nlearner = "continuousclone"\nhidden = [[4]]\nclone_steps = [20]\n')
    flags = ["--action", "mg", "--log-density", "lp", "--reward", "benefit", "--candidates", str(tmp_path / "try.toml")]
    assert main(["learn", str(tmp_path / "doses.csv"), "--out", str(tmp_path / "study"), "--folds", "2", *flags]) == 0
    assert "Log densities: as logged" in " ".join(capsys.readouterr().out.split())
