"""Spend: costs and capacities as guardrails, prices, the curve, and batches allotted by value for money."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import poela
from poela.cli.application import app
from poela.core.errors import InputError
from poela.core.typed import to_plain
from poela.data.costs import Costs, capacities_in
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.learners.fitted_q import FittedQ
from poela.learners.value_for_money import HullWalkQ
from poela.policies.allotting import BatchLimits, allotted
from poela.policies.deciding import ALLOTTED, Deciding, decisions
from poela.report.sections.ladder import spend_blocks
from poela.report.subject import Numbers
from poela.studies.allotment import curve, spend_points
from poela.studies.candidates import Candidate
from poela.studies.fold_data import FoldData, data_hash, read_fold, write_fold
from poela.studies.guarded import guarded_in
from poela.studies.guards import FEW, HARM, HOLDS
from poela.studies.held_out import Episodes
from poela.studies.priced_candidates import of_these_cases, with_spending
from poela.studies.records import StudyRecord
from poela.studies.requests import parse_settings
from poela.studies.selection import DEFAULT_SELECTION, Selection
from poela.studies.shown_gain import judged
from poela.studies.study import Study

NAMES = ("none", "small", "large")
WALK = Candidate("hullwalk", {"cost": "large=1", "limit": 0.25})


def logged(n: int = 500, seed: int = 0) -> Trajectories:
    """One step: the small one helps many a little, the large one helps some much."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(0, 3, n)
    effects = np.stack([np.zeros(n), 0.5 * (x[:, 0] > 0), 2.0 * (x[:, 0] > 0.5) - 0.2], axis=1)
    rewards = effects[np.arange(n), actions] + 0.3 * rng.normal(size=n)
    paid = np.array([0.0, 1.0, 3.0])[actions] + 0.1 * rng.random(n)
    fields: Any = {"feature_names": ["x", "z"], "action_names": NAMES, "outcomes": paid[:, None]}
    return Trajectories(x, actions, rewards, np.arange(n + 1), np.full((n, 3), 1 / 3), outcome_names=["paid"], **fields)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("spend") / "study"
    options: Any = {"candidates": [WALK], "folds": 2, "backend": "inline", "no_audit": True}
    poela.learn(logged(), capacity="large=125", out=place, **options)
    return place


@pytest.fixture
def study(directory: Path) -> Study:
    return Study.open(directory)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"spend": 1.0}, "needs to know what decisions cost"),
        ({"cost": "large=x"}, "no number from 0 on"),
        ({"cost": "large=1,large=2"}, "cannot be read"),
        ({"cost": "large=-1"}, "no number from 0 on"),
        ({"capacity": "large"}, "cannot be read"),
        ({"capacity": "large=1.5"}, "a whole number of cases"),
        ({"capacity": "large=1/0"}, "a whole number of cases"),
        ({"cost": "large=1", "by": "sntis"}, "chosen by gain"),
    ],
)
def test_what_cannot_be_read_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        dataclasses.replace(DEFAULT_SELECTION, **settings)


def test_actions_that_are_not_there_are_refused() -> None:
    for settings, told in (
        ({"capacity": "huge=3"}, "no action 'huge'"),
        ({"cost": "huge=3"}, "no action 'huge'"),
        ({"cost": "price"}, "carry no outcome 'price'"),
    ):
        with pytest.raises(InputError, match=told):
            poela.learn(logged(60), backend="inline", learners=["fittedq"], **settings)  # type: ignore[arg-type]


def test_spend_is_the_weighted_mean_of_costs_with_a_bound_of_its_own() -> None:
    logs = logged(400)
    episodes, scoring = Episodes.of([logs], 1.0), Scoring()
    log_weights = np.log(np.where(logs.actions == 2, 0.6, 1.2))
    evidence = episodes.evidence(log_weights, scoring, None)
    drawn, weights = np.tile(log_weights, (4, 1)).astype(np.float32), np.exp(log_weights)
    for cost, paid in (("large=3,small=1", np.array([0.0, 1, 3])[logs.actions]), ("paid", logs.outcome("paid"))):
        spend = float(weights @ paid / weights.sum())
        error = float(np.sqrt(np.square(weights * (paid - spend)).sum())) / weights.sum()
        for limit, state in ((spend - 0.01, HARM), (spend + 0.01, FEW), (spend + 5 * error, HOLDS), (None, HOLDS)):
            rails = Selection("gain", confidence=0.95, cost=cost, spend=limit).rails
            [guard] = guarded_in(rails, [logs], logs.rewards + (logs.actions < 2), lambda column: None)  # type: ignore[arg-type, return-value]
            better = dataclasses.replace(episodes, logs=dataclasses.replace(episodes.logs, rewards=1.0 - paid))
            on = dataclasses.replace(evidence, logs=better.logs)
            [one] = judged(better, [(on, drawn)], scoring, 0.95, guards=[guard])
            assert one.guards[0].value == pytest.approx(-spend)
            assert one.guards[0].state == state
            bound = one.guards[0].bound
            assert bound is not None
            assert 1.5 * error < -bound - spend < 2.6 * error  # normal: 1.645, and more for two at once


def test_a_price_is_a_reward_less_its_cost() -> None:
    logs = logged(200)
    paid = np.array([0.0, 1.0, 3.0])[logs.actions]
    by_hand = dataclasses.replace(logs, rewards=logs.rewards - 0.4 * paid)
    own: Any = {"temperature": 0.5, "regressor": "ridge", "history": 0}
    priced = FittedQ(price=0.4, cost="small=1,large=3", **own).fit(logs)
    np.testing.assert_array_equal(priced.along(logs), FittedQ(**own).fit(by_hand).along(logs))
    with pytest.raises(InputError, match="give cost"):
        FittedQ(price=0.4)


@pytest.mark.parametrize("cost", ["large=3,small=1", "paid"])
def test_the_walk_spends_what_it_says_on_those_who_taught_it(cost: str) -> None:
    logs = logged(400)
    path = list(HullWalkQ(cost=cost, limit=0.8, history=0).fit_path(logs))
    spends = [0.8 * share for share in (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0)]
    values, last = [], path[-1].policy
    q = last.q_along(logs)
    amounts = np.array([0.0, 1.0, 3.0])
    for point, spend in zip(path, spends, strict=False):
        chosen = point.policy.along(logs).argmax(axis=1)
        assert spend - 0.06 < amounts[chosen].mean() <= spend + (0.0 if "=" in cost else 0.06)
        values.append(q[np.arange(400), chosen].mean())
    assert (np.diff(values) > 0).all()  # each spends more, and is worth more by what was learned
    with pytest.raises(InputError, match="single decisions"):
        HullWalkQ(cost=cost).fit(dataclasses.replace(logs, offsets=np.arange(0, 401, 2), episode_ids=None))


def test_candidates_have_prices_and_single_decisions_a_walk() -> None:
    logs = logged(100)
    options, _, settings = parse_settings({"learners": ["fittedq"], "capacity": "large=25"}, None, None)
    found = with_spending(of_these_cases(settings, logs), options, logs)
    assert found.selection.capacity == "large=25/100"
    walk = [one for one in found.candidates if one.learner == "hullwalk"]
    assert [one.settings["limit"] for one in walk] == [0.25]
    assert sum("price" in one.settings for one in found.candidates) >= 2
    longer = dataclasses.replace(logs, offsets=np.arange(0, 101, 2), episode_ids=None)
    assert not any(one.learner == "hullwalk" for one in with_spending(settings, options, longer).candidates)
    plain = parse_settings({"learners": ["fittedq"]}, None, None)[2]
    assert with_spending(of_these_cases(plain, logs), options, logs) == plain


def test_records_without_spend_keep_their_fingerprint(study: Study) -> None:
    record = study.record
    plain = to_plain(dataclasses.replace(record.settings.selection, capacity=""))
    assert {name: plain[name] for name in ("cost", "spend", "capacity")} == {"cost": "", "spend": None, "capacity": ""}
    free = dataclasses.replace(record.settings, selection=dataclasses.replace(record.settings.selection, capacity=""))
    assert dataclasses.replace(record, settings=free).fingerprint != record.fingerprint
    assert isinstance(record, StudyRecord)
    assert record.settings.selection.capacity == "large=125/500"


def test_outcomes_reach_workers_and_leave_hashes_alone(tmp_path: Path) -> None:
    logs = logged(30)
    assert data_hash(logs) == data_hash(dataclasses.replace(logs, outcomes=None, outcome_names=()))
    write_fold(tmp_path / "0", FoldData(logs, logs))
    np.testing.assert_array_equal(read_fold(tmp_path / "0").train.outcome("paid"), logs.outcome("paid"))


def test_the_curve_has_what_no_cheaper_policy_shows(study: Study) -> None:
    points = spend_points(study)
    assert len(points) == 9
    assert all(one.walk for one in points)
    best = curve(points)
    shown = [one.shown for one in best]
    assert shown == sorted(shown, key=lambda one: one or 0.0)
    for one in points:
        assert one.shown is None or (one.shown or 0.0) <= max(
            (other.shown or -np.inf) for other in best if other.spend <= one.spend
        )
    axes = study.plot.spend()
    assert axes.get_xlabel() == "large per case"
    blocks = spend_blocks(study, Numbers.of(study))
    assert len(blocks) == 2


def test_what_may_break_another_guardrail_is_not_on_the_curve(study: Study) -> None:
    one = spend_points(study)[0]
    rows = [(0.1, -0.2, False), (0.2, 0.5, False), (0.3, 0.4, True), (0.4, 0.3, True)]
    points = [dataclasses.replace(one, spend=spend, shown=shown, keeps=keeps) for spend, shown, keeps in rows]
    assert [found.spend for found in curve(points)] == [0.1, 0.3]


def test_a_batch_stays_within_its_capacity_and_says_what_was_shown(study: Study) -> None:
    rows = logged(80, seed=5).to_table().select(["episode", "step", "x", "z"])
    whole = study.decide(rows, spend=10.0, unproven=True).to_pylist()
    for capacity, most in (("large=20", 20), ("large=1/8", 10), ("large=0", 0)):
        found = study.decide(rows, capacity=capacity, unproven=True).to_pylist()
        given = sum(row["action"] == "large" for row in found)
        assert given == min(most, sum(row["action"] == "large" for row in whole))
        assert all(row[f"propensity_{row['action']}"] == 1.0 for row in found if not row["defer"])
        assert all(str(row["policy"]).endswith(ALLOTTED) for row in found)
        left_out = sum("used up" in (row["note"] or "") for row in found)
        assert left_out == sum(row["action"] == "large" for row in whole) - given
    with pytest.raises(InputError, match="not judged at so small a spend"):
        study.decide(rows, capacity="large=0")
    with pytest.raises(InputError, match="no action 'huge'"):
        study.decide(rows, capacity="huge=3")
    with pytest.raises(InputError, match="say one of them"):
        study.decide(rows, capacity="large=3", spend=1.0)


@pytest.mark.parametrize(
    ("walk", "asked", "told"),
    [
        (WALK, {"cost": "large=3,small=1"}, "not asked what large=1 comes to"),
        (Candidate("hullwalk", {"history": 0}), {"capacity": "large=30"}, "has no values to allot by"),
    ],
)
def test_what_was_not_judged_in_its_units_says_nothing_of_a_batch(walk: Candidate, asked: Any, told: str) -> None:
    study = poela.learn(logged(120), candidates=[walk], folds=2, backend="inline", no_audit=True, **asked)
    with pytest.raises(InputError, match=told):
        study.decide(logged(9, seed=5).to_table().select(["episode", "step", "x", "z"]), capacity="large=8")


def test_a_study_is_not_resumed_with_other_costs(tmp_path: Path) -> None:
    logs, walk = logged(80), Candidate("hullwalk", {"cost": "paid", "history": 0})
    options: Any = {"candidates": [walk], "cost": "paid", "folds": 2, "backend": "inline", "no_audit": True}
    first = poela.learn(logs, out=tmp_path / "study", **options)
    assert [one.spend for one in spend_points(poela.learn(logs, out=tmp_path / "study", resume=True, **options))] == [
        one.spend for one in spend_points(first)
    ]
    assert logs.outcomes is not None
    dearer = dataclasses.replace(logs, outcomes=logs.outcomes * 2)
    with pytest.raises(InputError, match="the cost logs are not those"):
        poela.learn(dearer, out=tmp_path / "study", resume=True, **options)


def test_a_walk_alone_is_refused_for_longer_episodes() -> None:
    longer = dataclasses.replace(logged(60), offsets=np.arange(0, 61, 2), episode_ids=None)
    with pytest.raises(InputError, match="'hullwalk' is for single decisions"):
        poela.learn(longer, learners=["hullwalk"], capacity="large=9", backend="inline")


def test_the_command_allots_and_says_whom_it_left_out(directory: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows, out = tmp_path / "rows.parquet", tmp_path / "out.csv"
    pq.write_table(logged(80, seed=5).to_table().select(["episode", "step", "x", "z"]), rows)
    command = ["decide", str(directory), "--rows", str(rows), "--out", str(out), "--capacity", "large=20"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "Left out: " in words
    assert "is another policy than the recommended one" in words
    assert "at least +" in words
    told = json.loads(CliRunner().invoke(app, [*command, "--json", "--overwrite"]).stdout)
    assert told["actions"]["large"] == 20
    assert told["allotment"]["point"]["shown"] > 0
    nothing = ["--capacity", "large=0,small=0,none=0", "--unproven"]
    words = " ".join(CliRunner().invoke(app, [*command[:5], str(tmp_path / "c.csv"), *nothing]).output.split())
    assert "80 deferred, since they are unlike any logged case or no action is allowed or left" in words
    assert "80 cases have only actions that are used up" in words
    assert "Nobody" not in words
    refused = CliRunner().invoke(app, [*command[:5], str(tmp_path / "b.csv"), "--capacity", "large=3,small=3"])
    assert refused.exit_code == 2 or isinstance(refused.exception, InputError)


def test_costs_read() -> None:
    assert Costs.of("survived - 0.1*price").column == "survived - 0.1*price"
    assert Costs.of("large=1").only == "large"
    assert Costs.of("large=2").only is None
    assert [one.among(50) for one in capacities_in("a=10, b=3/10")] == [10, 15]


def test_what_is_forbidden_is_never_allotted() -> None:
    table = logged(300).to_table().replace_schema_metadata().drop_columns(["paid"]).to_pandas()
    table = table[~((table["action"] == "large") & (table["z"] > 0))]
    logs = poela.read_logs(table, forbid=["large if z > 0"])
    path = list(HullWalkQ(cost="large=1", limit=0.2, history=0).fit_path(logs))
    rows = logged(60, seed=8).to_table().select(["x", "z"])
    found = path[-1].policy
    how = Deciding(similar=False)
    batch = allotted(found, rows, how, BatchLimits.of("large=40", None), Costs.of("large=1"))  # type: ignore[arg-type]
    given = {row["action"] for row in decisions(found, rows, dataclasses.replace(how, allotted=batch)).to_pylist()}
    large = batch.chosen == list(found.action_names).index("large")
    assert large.any()
    assert not (large & (np.array(rows["z"]) > 0)).any()
    assert "large" in given


def test_rows_carry_what_each_action_would_cost_them(tmp_path: Path) -> None:
    """After a column of costs a batch is allotted by columns of its rows, and spends no more than there is."""
    walk = Candidate("hullwalk", {"cost": "paid", "history": 0})
    options: Any = {"candidates": [walk], "folds": 2, "backend": "inline", "no_audit": True}
    known = poela.learn(logged(), cost="paid", out=tmp_path / "study", **options)
    rows = logged(60, seed=5).to_table().select(["x", "z"])
    with pytest.raises(InputError, match="add columns such as 'paid_large'"):
        known.decide(rows, spend=0.5, unproven=True)
    costs = np.random.default_rng(1).uniform(0.5, 4.0, (60, 2))
    priced = rows.append_column("paid_small", [costs[:, 0]]).append_column("paid_large", [costs[:, 1]])
    chosen = known.decide(priced, spend=0.5, unproven=True)["action"].to_pylist()
    spent = [
        {"none": 0.0, "small": small, "large": large}[one] for one, (small, large) in zip(chosen, costs, strict=True)
    ]
    assert 0.35 * 60 < sum(spent) <= 0.5 * 60
    assert np.mean([cost for cost in spent if cost]) < costs.mean()  # the dear ones are left out
    below = priced.set_column(2, "paid_small", [-costs[:, 0]])
    with pytest.raises(InputError, match="below 0 in 60 rows"):
        known.decide(below, spend=0.5, unproven=True)
