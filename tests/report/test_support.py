"""What lies outside support, in the output of `learn` and `evaluate` and on the page: where, for whom, how much."""

import csv
from pathlib import Path

import numpy as np
import pytest

from poela.cli import main
from poela.cli.study_output import print_study
from poela.core.readable import share_in_words
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.report.numbers.weights import missing_actions
from poela.report.page import study_page
from poela.report.study_logs import study_logs
from poela.studies.candidates import Candidate
from poela.studies.defaults import SUPPORTED
from poela.studies.learning import learn
from poela.studies.study import Study

N = 600
FOLDS = 3
EVERY = ["p_wait", "p_drug", "p_surgery"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases of ward 1, a fifth of all, never got surgery, which is the best for the others and bad for them."""
    rng = np.random.default_rng(0)
    folder: Path = tmp_path_factory.mktemp("hole")
    ward, age = np.arange(N) % 5 == 0, rng.normal(size=N)
    chances = np.where(ward[:, None], [0.5, 0.5, 0.0], 1 / 3)
    taken = (chances.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)
    reward = np.where(taken == 2, np.where(ward, -3.0, 1.0), 0.0) + 0.5 * rng.normal(size=N)
    with (folder / "log.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "ward", "action", "reward", "p_wait", "p_drug", "p_surgery", "p"])
        names = np.array(["wait", "drug", "surgery"])[taken]
        rows.writerows(zip(age, ward.astype(int), names, reward, *chances.T, chances[np.arange(N), taken], strict=True))
    return folder


def logs_in(folder: Path, propensity: str | list[str] = "p") -> Trajectories:
    read: Trajectories = read_logs(folder / "log.csv", propensity=propensity, context=["age", "ward"])
    return read


@pytest.fixture(scope="module")
def ruled(folder: Path) -> Study:
    return learnt(folder, "ruled", EVERY, {"rule": SUPPORTED})


@pytest.fixture(scope="module")
def free(folder: Path) -> Study:
    return learnt(folder, "free", "p", {})


def learnt(folder: Path, name: str, propensity: str | list[str], rule: dict[str, object]) -> Study:
    one = Candidate("fittedq", {"history": 0, "regressor": "ridge", **rule})
    return learn(logs_in(folder, propensity), out=folder / name, candidates=[one], folds=FOLDS, backend="inline")


def test_the_default_rule_is_told_and_stays_inside(
    ruled: Study, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_study(ruled, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "for 20% of cases action surgery is not among them" in told
    assert "never made in similar cases" not in told
    page = study_page(ruled, logs_in(folder, EVERY)).html()
    assert "for 20% of cases action surgery is not among them" in page
    assert "0% of its decisions were never made in similar cases" in page


def test_without_a_rule_the_share_outside_is_printed(
    free: Study, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_study(free, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    kept = [point for point in free.points if (point.metrics["outside"] or 0) > 0.01 and point.metrics["shown"] is None]
    assert kept
    assert f"{len(kept)} bolder polic" in told
    assert free.result is not None
    place = free.result.promising if free.result.chosen is None else free.result.chosen
    assert place is not None
    share = free.points[place].metrics["outside"]
    assert share is not None
    assert share > 0.002
    assert f"{share_in_words(share)} of its decisions were never made in similar cases." in told
    assert "Never done: share of decisions" in told
    ward = (logs_in(folder).contexts[:, 1] == 1).mean()
    boldest = max(free.points, key=lambda point: point.metrics["departure"] or 0)  # surgery for nearly all
    assert boldest.metrics["outside"] == pytest.approx(ward, abs=0.02)
    assert f"{share_in_words(boldest.metrics['outside'] or 0.0)} do not trust" in told


def test_the_page_says_which_action_is_missing_for_whom(free: Study, folder: Path) -> None:
    logs = study_logs(free, logs_in(folder))
    assert logs is not None
    surgery, *_ = missing_actions(logs)
    ward = logs.followed.contexts[:, 1] == 1
    assert logs.acting is not None
    assert (surgery.action, surgery.group) == ("surgery", "ward = 1")
    assert surgery.contexts == pytest.approx(ward.mean(), abs=0.01)
    assert surgery.policy == pytest.approx(
        (logs.acting[:, logs.followed.action_names.index("surgery")] * ward).mean(), abs=0.01
    )
    assert surgery.of_group == 1.0
    assert surgery.in_group > 0.95
    page = study_page(free, logs_in(folder)).html()
    assert "What was never done, and for whom" in page
    assert "100% of these lack it; they are" in page
    assert "never done" in page


def test_evaluate_prints_the_share(free: Study, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = folder / "free" / ("policy" if not free.keeps_logging_policy else "promising")
    asked = ["evaluate", str(policy), "--logs", str(folder / "log.csv"), "--propensity", "p"]
    asked += ["--context", "age,ward"]
    assert main(asked) == 0
    assert "of its decisions were never made in similar cases." in " ".join(capsys.readouterr().out.split())
