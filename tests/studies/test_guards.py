"""Guardrails: what they read, what they bound, and what they keep from being recommended."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import poela
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.evaluation.tails import gains_of, tail_of, ways_of
from poela.report.sections.ladder import guard_blocks
from poela.report.subject import Numbers
from poela.stats.bounds import against_tail
from poela.studies.candidates import Candidate
from poela.studies.critical_values import critical_values
from poela.studies.guarded import guarded_in
from poela.studies.guards import FEW, HARM, HOLDS, Guard, GuardRecord, guards_in
from poela.studies.guards_later import guard_cell, guard_sentences
from poela.studies.held_out import Episodes
from poela.studies.selection import Point, Selection, by_gain, choose
from poela.studies.shown_gain import judged


def logged(n: int = 900, harm: float = 0.3, seed: int = 0) -> Trajectories:
    """One step: treating helps those with x > 0, and raises their rate of harm by `harm`."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    rewards = actions * np.where(x[:, 0] > 0, 1.0, -0.5) + rng.normal(size=n) * 0.5
    rates = rng.random(n) < 0.1 + harm * actions * (x[:, 0] > 0)
    names: Any = {"feature_names": ["x", "z"], "action_names": ["wait", "treat"], "outcome_names": ["harm"]}
    propensities = np.full((n, 2), 0.5)
    return Trajectories(x, actions, rewards, np.arange(n + 1), propensities, outcomes=rates[:, None] * 1.0, **names)


def learned(logs: Trajectories, **settings: Any) -> Any:
    return poela.learn(logs, candidates=[Candidate("fittedq")], backend="inline", **settings)


def test_texts_are_read() -> None:
    guards = guards_in(["kidney failure - 0.5*pain <= +0.01", "pain per step by ward>=-1e-2", "pain <= 0"])
    assert [(one.outcome, one.at_most, one.limit, one.by, one.per_step) for one in guards] == [
        ("kidney failure - 0.5*pain", True, 0.01, None, False),
        ("pain", False, -0.01, "ward", True),
        ("pain", True, 0.0, None, False),
    ]
    assert guards_in([str(one) for one in guards]) == guards


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pain", "cannot be read"),
        ("pain < +1", "cannot be read"),
        ("pain <= ++1", "cannot be read"),
        ("pain <= 0.01", "has no sign"),
        ("return >= -1", "guard it by group"),
    ],
)
def test_texts_that_say_nothing_are_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Guard.of(text)


def test_guards_need_a_gain() -> None:
    with pytest.raises(InputError, match="chosen by gain"):
        Selection("sntis", guards=("pain <= 0",))


def test_outcomes_stay_with_their_episodes() -> None:
    logs = logged(60)
    assert logs.outcomes is not None
    back = poela.read_logs(logs.to_table())
    assert back.outcome_names == ("harm",)
    assert back.feature_names == ("x", "z")
    np.testing.assert_array_equal(back.outcome("harm"), logs.outcome("harm"))
    first, second = logs.split((0.5, 0.5), seed=3)
    for part in (first, second):
        np.testing.assert_array_equal(part.outcomes, logs.outcomes[np.asarray(part.episode_ids)])
    with pytest.raises(InputError, match="carry no outcome 'pain'"):
        logs.outcome("pain")
    with pytest.raises(InputError, match="outcomes must have shape"):
        Trajectories([[0.0]], [0], [1], [0, 1], outcomes=[[1.0], [2.0]], outcome_names=["a"])


def test_a_guarded_outcome_is_no_context() -> None:
    table = logged(60).to_table().replace_schema_metadata()
    assert "harm" in poela.read_logs(table).feature_names
    assert "harm" not in poela.read_logs(table, side_outcomes=["harm"]).feature_names
    with pytest.raises(InputError, match="'harm' is named as side_outcomes and as context"):
        poela.read_logs(table, side_outcomes=["harm"], context=["harm", "x"])


def test_bounds_are_those_of_weighted_differences() -> None:
    """The estimate is a difference of means by weights, and all bounds have one critical value."""
    logs = logged(400)
    episodes = Episodes.of([logs], 1.0)
    log_weights = np.log(np.where(logs.actions == 1, 1.5, 0.5))
    evidence = episodes.evidence(log_weights, Scoring(), None)
    [guard] = guarded_in(guards_in(["harm <= +0.2"]), [logs], episodes.logs.rewards, lambda column: None)  # type: ignore[arg-type, return-value]
    drawn = np.tile(log_weights, (4, 1)).astype(np.float32)
    [one] = judged(episodes, [(evidence, drawn)], Scoring(), 0.95, guards=[guard])
    harm, weights = logs.outcome("harm"), np.exp(log_weights)
    change = weights @ harm / weights.sum() - harm.mean()
    assert one.guards[0].value == pytest.approx(-change)
    [alone] = judged(episodes, [(evidence, drawn)], Scoring(), 0.95)
    own = guard.episodes(episodes)
    blocks = [gains_of(evidence)[0].influence[None], gains_of(guard.evidence(evidence, own))[0].influence[None]]
    both = critical_values([(slice(None), row) for row in blocks], 400, 0.95, 0)[0] / float(ndtri(0.95))
    gain, error = alone.estimate.gain, alone.proofs[0].error
    assert gain is not None
    assert gain.low is not None
    skew = tail_of(ways_of(evidence), evidence).most
    assert one.proofs[0].reach == pytest.approx(against_tail(both * (gain.value - gain.low) / error, skew) * error)
    assert one.proofs[0].reach > alone.proofs[0].reach


def test_states() -> None:
    logs = logged(20)
    [one] = guarded_in(guards_in(["harm >= -0.1"]), [logs], np.zeros(20), lambda column: None)  # type: ignore[arg-type, return-value]
    assert (one.state(-0.05, -0.09), one.state(-0.05, -0.11), one.state(-0.05, None), one.state(-0.2, -0.3)) == (
        HOLDS,
        FEW,
        FEW,
        HARM,
    )


def test_a_point_beyond_a_guardrail_is_not_chosen() -> None:
    metrics = [{"shown": 2.0, "guard_1_state": HARM}, {"shown": 1.5, "guard_1_state": FEW}, {"shown": 1.0}]
    points = [Point(str(place), 0, True, known) for place, known in enumerate(metrics)]
    selection = Selection("gain", confidence=0.95, guards=("harm <= +0.1",))
    assert by_gain(points, selection).chosen is points[2]
    reason = choose(points[:2], selection, 100).reason
    assert "2 of 2 policies are shown to be better" in reason
    assert "in 1 the estimate is beyond it, in 1 there are too few cases" in reason


def test_a_harmful_policy_is_not_recommended_and_says_why() -> None:
    logs = logged()
    assert learned(logs).answer.kind == "change"
    study = learned(logs, guards="harm <= +0.01")
    assert study.keeps_logging_policy
    assert "may break a guardrail" in study.answer.headline
    assert study.result.promising is None
    states = study.table().to_pydict()["guard_1_state"]
    assert HARM in states
    assert HOLDS not in [state for state, gain in zip(states, study.table()["shown"].to_pylist(), strict=True) if gain]


def test_a_guardrail_that_holds_goes_with_the_claim(tmp_path: Any) -> None:
    logs = logged(harm=0.0)
    guards = ["harm <= +0.1", "return by x:2 >= -0.2"]
    study = learned(logs, guards=guards, out=tmp_path / "study")
    assert not study.keeps_logging_policy
    assert "all 3 guardrails hold" in study.answer.why
    again: Any = poela.Study.open(tmp_path / "study")
    assert again.result.guards[0].name == "harm"
    chosen = again.points[again.result.chosen].metrics
    assert [chosen[f"guard_{number}_state"] for number in (1, 2, 3)] == [HOLDS] * 3
    assert chosen["guard_1"] < chosen["guard_1_bound"] <= 0.1
    table: Any = guard_blocks(again, Numbers.of(again))[0]
    assert [column.name for column in table.columns] == ["policy", "at least", *guards]
    assert all(entry.words.endswith("holds") for row in map(table.rows.__getitem__, table.marked) for entry in row[2:])
    tight = learned(logs, guards=["harm <= +0.0001", guards[1]], out=tmp_path / "study", resume=True)
    assert tight.keeps_logging_policy  # too few cases to tell so little


def test_resuming_keeps_limits_that_are_not_said_again(tmp_path: Any) -> None:
    logs, out = logged(), tmp_path / "study"
    first = learned(logs, guards=["harm <= +0.01"], capacity="treat=800", out=out)
    assert first.keeps_logging_policy
    with pytest.warns(poela.PoelaWarning, match="began with harm <= \\+0.01; capacity treat=800/900: kept"):
        again = learned(logs, out=out, resume=True)
    assert again.settings.selection.guards == ("harm <= +0.01",)
    assert again.settings.selection.capacity == "treat=800/900"
    assert again.keeps_logging_policy
    assert again.answer.headline == first.answer.headline
    with pytest.warns(poela.PoelaWarning, match="began with harm <= \\+0.01: kept"):
        wider = learned(logs, capacity="treat=850/900", out=out, resume=True)
    assert wider.settings.selection.capacity == "treat=850/900"


def test_numbers_near_a_limit_are_on_their_side_of_it() -> None:
    spend = GuardRecord(Guard("price", at_most=True, limit=1.2, level=True))
    metrics = {"guard_1": 1.2034, "guard_1_bound": 1.61, "guard_1_state": HARM}
    (told,) = guard_sentences([spend], metrics)
    assert told == "spend per case: 1.203, at most 1.6; allowed at most 1.2: too much"
    near = {"guard_1": -0.019, "guard_1_bound": -0.02004, "guard_1_state": FEW}
    (told,) = guard_sentences([GuardRecord(Guard.of("return by ward >= -0.02"), "ward: b")], near)
    assert told == "return (ward: b): -0.019, at least -0.02004; allowed at least -0.02: too few cases"


def test_cells_tell_estimates_from_bounds() -> None:
    guard = Guard.of("pain <= +0.1")
    assert guard_cell(guard, [1], {"guard_1": 0.25, "guard_1_state": FEW}) == "≈ +0.25 too few cases"
    assert guard_cell(guard, [1], {"guard_1": 0.05, "guard_1_bound": 0.25, "guard_1_state": FEW})[0] == "+"


def test_logs_without_the_outcome_are_told() -> None:
    with pytest.raises(InputError, match="carry no outcome 'pain'"):
        learned(logged(60), guards="pain <= 0")


def test_later_logs_tell_of_the_same_guardrails(tmp_path: Any, capsys: Any) -> None:
    import json

    import pyarrow.parquet as pq

    from poela.cli import main

    def run(*arguments: Any) -> str:
        assert main([str(one) for one in arguments]) == 0
        return " ".join(capsys.readouterr().out.split())

    study: Any = learned(logged(harm=0.0), guards=["harm <= +0.1", "return by x:2 >= -0.2"], out=tmp_path / "study")
    assert not study.keeps_logging_policy
    later = logged(harm=0.0, seed=2)
    table = later.to_table().replace_schema_metadata()
    pq.write_table(table, tmp_path / "later.parquet")
    told = run("evaluate", tmp_path / "study", "--logs", tmp_path / "later.parquet")
    assert "Guardrails on these logs (each with a 95% bound of its own): - harm:" in told
    assert told.count(": holds") == 3
    document = json.loads(run("evaluate", tmp_path / "study", "--logs", tmp_path / "later.parquet", "--json"))
    first = document["guards"][0]
    chances = study.policy.probabilities(later.contexts)[np.arange(900), later.actions]
    weights, harm = chances / 0.5, later.outcome("harm")
    change = weights @ harm / weights.sum() - harm.mean()
    error = np.std(weights / weights.mean() * (harm - weights @ harm / weights.sum()) - (harm - harm.mean())) / 30
    assert first["change"] == pytest.approx(change, abs=1e-9)
    assert first["bound"] == pytest.approx(change + 1.645 * error, abs=0.3 * error)
    pq.write_table(table.drop_columns(["harm"]), tmp_path / "without.parquet")
    without = run("evaluate", tmp_path / "study", "--logs", tmp_path / "without.parquet")
    assert "harm <= +0.1: not looked at: these logs have no column 'harm'" in without
