"""Studies of logs in which some outcomes were not seen: what they say of what is done now."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import poela
from poela.behavior.staying import with_staying
from poela.cli.study_output import print_study
from poela.data.trajectories import Trajectories
from poela.report.numbers.judged import frontier_of
from poela.studies.candidates import Candidate


def lossy(n: int = 700, seed: int = 0) -> Trajectories:
    """One step: nothing gains, and the treated go more often."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    lost = rng.random(n) < np.where(actions == 1, 0.5, 0.1)
    outcomes = rng.normal(size=n)
    names: Any = {"feature_names": ["x0", "x1"]}
    return Trajectories(x, actions, outcomes, np.arange(n + 1), np.full((n, 2), 0.5), lost=lost, **names)


def kish(weights: NDArray[Any]) -> float:
    return float(weights.sum() ** 2 / np.square(weights).sum())


@pytest.mark.parametrize("folds", [2, 3])
def test_what_is_done_now_has_the_effective_cases_of_its_estimate(folds: int, capsys: Any) -> None:
    study: Any = poela.learn(lossy(), candidates=[Candidate("fittedq")], folds=folds, backend="inline")
    assert study.keeps_logging_policy
    estimate, ess = study.result.estimate, study.record.logging_policy.ess
    known = with_staying(lossy(), study.settings.seed)
    lost = known.lost
    assert known.staying is not None
    assert lost is not None
    assert ess == pytest.approx(kish(np.exp(known.staying)))
    assert estimate.ess == pytest.approx(ess)
    assert frontier_of(study).units == pytest.approx(ess)
    assert (estimate.verdict, estimate.reasons[0].split("%")[0]) == ("caution", f"{100 * lost.mean():.0f}")
    print_study(study, as_json=False)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("* what is done now")]
    assert row.split()[-3] == f"{ess:.0f}"


def test_effective_cases_of_clusters_are_clusters() -> None:
    logs = lossy(400)
    clustered = Trajectories(
        logs.contexts, logs.actions, logs.rewards, logs.offsets, logs.propensities, lost=logs.lost,
        clusters=np.repeat(np.arange(200), 2),
    )  # fmt: skip
    study: Any = poela.learn(clustered, candidates=[Candidate("fittedq")], folds=2, backend="inline")
    assert study.record.logging_policy.ess == pytest.approx(study.result.estimate.ess)
    assert study.record.logging_policy.ess < 200


def guarded_and_lossy(n: int, seed: int) -> Trajectories:
    """Treating raises harm by 0.2; of the treated, those who will be harmed go more often, as x tells."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=n), rng.integers(0, 2, n)
    harmed = rng.random(n) < np.where(actions == 1, np.where(x > 0, 0.4, 0.2), 0.1)
    rewards = actions + 0.3 * rng.normal(size=n)
    lost = rng.random(n) < np.where((actions == 1) & (x > 0), 0.7, 0.1)
    names: Any = {"outcomes": np.where(lost, 0.0, harmed)[:, None], "outcome_names": ["harm"]}
    rewards = np.where(lost, 0.0, rewards)
    return Trajectories(x[:, None], actions, rewards, np.arange(n + 1), np.full((n, 2), 0.5), lost=lost, **names)


def test_guardrails_make_up_for_loss() -> None:
    """What treating everybody does to harm, by weights of having been seen; among those seen it looks smaller."""
    logs = guarded_and_lossy(6000, seed=1)
    study: Any = poela.learn(logs, candidates=[Candidate("fittedq")], guards="harm <= +0.05", folds=2, backend="inline")
    bold = max(study.points, key=lambda point: point.metrics["departure"])
    known = with_staying(logs, study.settings.seed)
    assert known.staying is not None
    assert known.lost is not None
    weights, harm, treated = np.exp(known.staying), logs.outcome("harm"), logs.actions == 1
    change = np.average(harm[treated], weights=weights[treated]) - np.average(harm, weights=weights)
    assert bold.metrics["guard_1"] == pytest.approx(change, abs=0.01)
    assert bold.metrics["guard_1"] == pytest.approx(0.1, abs=0.02)
    seen = ~known.lost
    among_seen = harm[seen & treated].mean() - harm[seen].mean()
    assert among_seen < 0.09
    assert study.keeps_logging_policy
    assert "guardrail" in study.answer.headline


def test_loss_is_told_by_group() -> None:
    logs = lossy()
    assert logs.lost is not None
    left = logs.contexts[:, 0] <= np.median(logs.contexts[:, 0])
    shares = [logs.lost[left].mean(), logs.lost[~left].mean()]
    with pytest.warns(poela.PoelaWarning, match="outcomes not seen, by x0") as told:
        poela.learn(logs, candidates=[Candidate("fittedq")], by=["x0:2"], folds=2, backend="inline")
    (text,) = [str(one.message) for one in told if "outcomes not seen, by" in str(one.message)]
    assert f"{shares[0]:.0%} of up to" in text
    assert f"{shares[1]:.0%} of above" in text


def test_the_plan_of_a_study_says_what_holds_if_unconfounded(tmp_path: Any, capsys: Any) -> None:
    from poela.cli import main

    rng = np.random.default_rng(0)
    x, actions = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    logs = Trajectories(x, actions, actions + rng.normal(size=300), np.arange(301))
    study: Any = poela.learn(logs, candidates=[Candidate("fittedq")], folds=2, backend="inline", out=tmp_path / "study")
    assert study.result.unconfounded is not None
    assert main(["plan", str(tmp_path / "study"), "--cases", "300"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "If unconfounded (everything that mattered was recorded)" in told
