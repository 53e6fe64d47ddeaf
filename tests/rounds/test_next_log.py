"""The next log, designed from the weights of a pilot: against enumeration, against simulated logs, and in words."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela import Candidate, InputError, Trajectories
from poela.cli import main
from poela.core.policy import sample_actions
from poela.evaluation.balanced import Logger, balanced
from poela.evaluation.weights import log_weights
from poela.rounds.next_log import ACTING, NextLog, effective_in_mixture, error_in_mixture, plan_next
from poela.stats.weights import effective_share

STEPS, OLD, MILD, BOLD = 4, 0.3, 0.5, 0.8  # the chance of the second action, of practice and two rungs

CANDIDATE = Candidate("fittedq", {"history": 0})


def chances(p: float) -> Any:
    """Of each number of second actions in an episode, in the order of enumeration."""
    episodes = np.array(list(product((0, 1), repeat=STEPS))).sum(axis=1)
    return p**episodes * (1 - p) ** (STEPS - episodes)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_a_pilot_tells_the_effective_share_of_a_mixture(share: float) -> None:
    """All episodes enumerated: 1 / Σ π²/(Σ_k ρ_k π_k), and what 20,000 episodes of practice alone say of it."""
    mixture = (1 - share) * chances(OLD) + share * chances(MILD)
    exact = 1 / (chances(BOLD) ** 2 / mixture).sum()
    rng = np.random.default_rng(0)
    drawn = rng.choice(2**STEPS, 20_000, p=chances(OLD))
    weights, acting = ((chances(p) / chances(OLD))[drawn] for p in (BOLD, MILD))
    found = effective_in_mixture(weights / weights.mean(), 1 - share + share * acting / acting.mean())
    assert found == pytest.approx(exact, rel=0.05)


def test_a_pilot_tells_the_error_of_a_gain_in_a_mixture() -> None:
    """Returns that do not depend on actions, of standard deviation 2: E[(w − v)²/m]·4, enumerated."""
    share, now = 0.2, chances(OLD)
    mixture = (1 - share) * now + share * chances(MILD)
    exact = 2 * np.sqrt(((chances(BOLD) - chances(MILD)) ** 2 / mixture).sum())
    of_pilot = 2 * np.sqrt(((chances(BOLD) - now) ** 2 / now).sum())
    drawn = np.random.default_rng(1).choice(2**STEPS, 20_000, p=now)
    weights, acting = ((chances(p) / now)[drawn] for p in (BOLD, MILD))
    found = error_in_mixture(weights, acting, 1 - share + share * acting, of_pilot)
    assert found == pytest.approx(exact, rel=0.1)


def logged(n: int, seed: int, policy: Any = None) -> Trajectories:
    """Four actions; the last one pays, and practice does it rarely."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    usual = np.tile([0.3, 0.27, 0.25, 0.18], (n, 1))
    rows = usual if policy is None else policy.probabilities(x)
    actions = sample_actions(rows, rng)
    rewards = (actions == 3) * (1 + 0.2 * x[:, 0]) + 0.3 * rng.normal(size=n)
    return Trajectories(x, actions, rewards, np.arange(n + 1), rows)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("planned") / "study"
    return poela.learn(logged(160, 0), candidates=[CANDIDATE], folds=2, backend="inline", out=folder)


@pytest.fixture(scope="module")
def plan(study: Any) -> NextLog:
    return plan_next(study, cases=160)


def test_the_next_log_has_as_many_effective_cases_as_planned(study: Any, plan: NextLog) -> None:
    """Logged as proposed, with so many cases: about the number that an estimate needs (of weights of one pilot)."""
    assert plan.chosen is not None
    assert plan.target is not None
    assert plan.by_share is not None
    point = next(point for point in study.points if study.name_of(point) == plan.target.policy)
    rung, acting = study.fold_policy(point, 0), study.policy if plan.chosen.folder == "policy" else study.promising
    found = {}
    for needed in (plan.target.alone, plan.by_share):
        size = int(needed.verified or 0)
        own = round(needed.share * size)
        parts = [(logged(size - own, 5), Logger("practice")), (logged(max(own, 1), 6, acting), Logger("study", acting))]
        parts = parts if own else parts[:1]
        logs = balanced([part[0] for part in parts], [part[1] for part in parts]).logs
        found[needed.share] = size * effective_share(log_weights(rung, logs).episodes)
    assert list(found.values()) == pytest.approx([plan.enough] * 2, rel=0.4)


def test_what_is_aimed_at(study: Any, plan: NextLog) -> None:
    assert plan.chosen is not None
    assert plan.target is not None
    assert plan.by_share is not None
    known = {study.name_of(point): point for point in study.points}
    assert all(known[target.policy].metrics["shown"] is None for target in plan.chosen.targets)
    assert plan.target.gain > plan.chosen.gain > 0
    assert plan.by_share.verified is not None
    assert plan.by_share.verified <= 160
    in_time = [
        (target.gain, found.share)
        for target in plan.chosen.targets
        for found in target.shares
        if found.verified is not None and found.verified <= 160
    ]
    assert plan.target.gain == max(in_time)[0]
    assert plan.by_share.share == min(share for gain, share in in_time if gain == plan.target.gain)
    few, many = (plan_next(study, cases=size).target for size in (60, 4000))
    assert few is not None
    assert many is not None
    assert few.gain <= plan.target.gain <= many.gain


def test_a_larger_share_needs_fewer_cases_for_a_rung_beyond(plan: NextLog) -> None:
    assert plan.target is not None
    needed = [one.verified or np.inf for one in (plan.target.alone, *plan.target.shares[:3])]
    assert needed == sorted(needed, reverse=True)


def test_words_and_numbers(study: Any, plan: NextLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan.chosen is not None
    assert plan.target is not None
    folder = str(study.directory)
    assert main(["plan", folder, "--cases", "160"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"by {plan.chosen.policy}, the others as before: {plan.target.policy}" in said
    assert "can be verified after about" in said
    assert "Draw at random, for each new case, who decides" in said
    assert main(["plan", folder, "--cases", "160", "--share", "0.3", "--by", plan.chosen.folder, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["by_share"]["share"] == 0.3
    assert document["sentence"].startswith("Log 30% of cases by ")
    assert {one["folder"] for one in document["logging"]} == {plan.chosen.folder} <= set(ACTING)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gain", "2"], "leave out --gain"),
        (["--action", "drug"], "leave out --action"),
        (["--share", "1.5"], "--share is 1.5"),
        (["--cases", "0"], "--cases is 0.0"),
        (["--by", "somebody"], "somebody is not a policy that may act: choose from policy ("),
    ],
)
def test_what_cannot_be_planned(study: Any, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(study.directory), *flags]) == 2
    assert message in capsys.readouterr().err


def test_logs_need_a_gain_and_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: Any = ([[], "say which gain"], [["--gain", "1", "--share", "0.2"], "plan the log after a study"])
    for flags, message in cases:
        assert main(["plan", str(tmp_path / "logs.parquet"), *flags]) == 2
        assert message in capsys.readouterr().err


def test_what_as_before_is_after_logs_of_several_policies(plan: NextLog) -> None:
    assert "all logging policies here together" in str(replace(plan, pooled=True))
    assert not plan.pooled
    assert "all logging policies here together" not in str(plan)


def test_without_a_rung_to_act_by(plan: NextLog) -> None:
    alone = replace(plan, logging=(), chosen=None, target=None, by_share=None)
    assert str(alone).startswith("No policy is ready to act")
    assert str(replace(plan, target=None, by_share=None)).startswith("No policy bolder than ")


def test_a_study_that_chose_by_an_estimate_has_no_ladder() -> None:
    made = poela.learn(logged(60, 3), candidates=[CANDIDATE], choose_by="sntis", folds=2, backend="inline")
    with pytest.raises(InputError, match="chose by sntis"):
        plan_next(made)
