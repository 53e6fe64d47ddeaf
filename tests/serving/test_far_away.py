"""A case unlike anything logged is deferred by decide, by the server and by an exported graph, by the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist
from tests.serving.episodes import graph_inputs, logs, random_episodes
from tests.serving.policies import KNN, POLICIES, last, under
from tests.serving.test_serve import asked, served

from poela import read_logs
from poela.data.history import StepsToFollow
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.consensus import Consensus
from poela.policies.ruled import RuledPolicy
from poela.serving.export import export_onnx

PEOPLE, GAPS, FAR = 2830, 5, 40.0
INCENTIVES = ("none", "small", "large")
ROBUST = Eligibility(radius="q100", scale="robust", reach="auto")


def trial(gaps: int) -> pa.Table:
    """A randomised trial of incentives, with some cells of one column missing."""
    rng = np.random.default_rng(7)
    missing = np.zeros(PEOPLE, bool)
    missing[rng.permutation(PEOPLE)[:gaps]] = True
    return pa.table(
        {
            "age": rng.normal(50, 12, PEOPLE).round(1),
            "income": pa.array(rng.lognormal(3, 0.6, PEOPLE).round(2), mask=missing),
            "distance_km": rng.gamma(2.0, 4.0, PEOPLE).round(2),
            "visits": rng.poisson(2, PEOPLE),
            "sex": rng.choice(["f", "m"], PEOPLE),
            "action": rng.choice(INCENTIVES, PEOPLE),
            "reward": rng.normal(size=PEOPLE),
            "propensity": np.full(PEOPLE, 1 / 3),
        }
    )


def logs_of(table: pa.Table) -> Trajectories:
    read: Trajectories = read_logs(table)
    return read.with_propensities(np.full((PEOPLE, 3), 1 / 3))


def new_people() -> dict[str, list[Any]]:
    """Two like many; one whose age is 40 standard deviations off."""
    return {
        "age": [50.0, 31.5, 50.0 + FAR * 12],
        "income": [20.0, 33.0, 20.0],
        "distance_km": [8.0, 2.5, 8.0],
        "visits": [2, 1, 2],
        "sex": ["f", "m", "m"],
    }


def outputs(policy: Any, given: dict[str, Any], path: Path) -> dict[str, Any]:
    export_onnx(policy, path, overwrite=True)
    graph = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in graph.get_outputs()]
    assert names == ["probabilities", "defer", "distance", "in_range"]
    wanted = {one.name: one.shape for one in graph.get_inputs()}
    lags = wanted.get("previous_actions", [0, 0])[1]
    cut = {name: array[:, :lags] if name.startswith("previous") else array for name, array in given.items()}
    parts = [
        graph.run(None, {name: cut[name][start : start + 1000] for name in wanted})
        for start in range(0, len(given["contexts"]), 1000)
    ]
    return dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))


@pytest.mark.parametrize("gaps", [0, GAPS])
def test_the_person_far_out_is_deferred_everywhere(gaps: int, tmp_path: Path) -> None:
    train = logs_of(trial(gaps))
    policy, people = last(Consensus(rule=ROBUST), train), new_people()
    decided = policy.decide(people)
    assert decided["defer"].to_pylist() == [False, False, True]
    assert decided["in_range"].to_pylist() == [True, True, False]
    distance = decided["distance"].to_numpy()
    assert distance[:2].max() < policy.eligibility.reach < distance[2] / 20

    # Without a name of cases `decide` knows them by the numbers of rows, from 1.
    cases = [{"id": row + 1, "features": {name: values[row] for name, values in people.items()}} for row in range(3)]
    answer = asked(served(policy), "POST", "/v1/decide", json={"cases": cases}).json()["decisions"]
    for name in ("defer", "in_range", "distance", "action"):
        assert [one[name] for one in answer] == decided[name].to_pylist()
    told = asked(served(policy), "POST", "/v1/explain", json={"cases": cases[2:]}).json()
    assert (told["defer"], told["in_range"], told["distance"]) == (True, False, distance[2])

    contexts = policy.checked(pa.table(people))
    found = outputs(policy, {"contexts": contexts, "steps": np.zeros(3, np.int64)}, tmp_path / "policy.onnx")
    assert found["defer"].tolist() == decided["defer"].to_pylist()
    assert found["in_range"].tolist() == decided["in_range"].to_pylist()
    np.testing.assert_allclose(found["distance"], distance, rtol=1e-6)


def test_five_gaps_move_nothing_by_a_tenth() -> None:
    rules = [ROBUST.fit(logs_of(trial(gaps))) for gaps in (0, GAPS)]
    without, with_gaps = rules
    assert with_gaps.n_features == without.n_features + 1
    assert with_gaps.radius == pytest.approx(without.radius, rel=0.1)
    assert with_gaps.reach == pytest.approx(without.reach, rel=0.1)
    # Other people of the same kind, and some far out; nobody has a gap.
    fresh = trial(0)
    rng = np.random.default_rng(1)
    columns = {name: fresh[name].to_numpy()[rng.permutation(PEOPLE)[:300]] for name in fresh.column_names[:5]}
    columns["age"] = columns["age"] * rng.choice([1.0, 3.0], 300)
    near, nearby = (rule.distances(pa.table(columns)) for rule in rules)
    same = np.abs(nearby / near - 1) < 0.1
    assert same.mean() > 0.99
    np.testing.assert_allclose(nearby.mean(), near.mean(), rtol=0.1)
    eligible = [rule.resolve(pa.table(columns)) for rule in rules]
    assert (eligible[0].stranded == eligible[1].stranded).mean() > 0.99
    # On the usual scale they move it tenfold.
    usual = [Eligibility(radius="q100", scale="standard").fit(logs_of(trial(gaps))).radius for gaps in (0, GAPS)]
    assert usual[1] > 10 * usual[0]  # type: ignore[operator]


@pytest.mark.parametrize(("column", "value"), [("age", 530.0), ("income", 1e9), ("visits", 99)])
def test_one_odd_value_in_the_log_moves_nothing_by_a_tenth(column: str, value: float) -> None:
    table = trial(0)
    values = table[column].to_numpy().copy()
    values[17] = value
    odd = table.set_column(table.column_names.index(column), column, pa.array(values))
    before, after = (ROBUST.fit(logs_of(one)) for one in (table, odd))
    assert after.radius == pytest.approx(before.radius, rel=0.1)
    assert after.reach == pytest.approx(before.reach, rel=0.1)


def test_similar_cases_are_those_within_reach_where_there_is_no_radius() -> None:
    train = logs()
    policy = under(Eligibility(scale="robust", reach=0.05), train)
    rows = random_episodes(train, 300)
    table = {name: rows.contexts[:, place] for place, name in enumerate(train.feature_names)}
    decided = policy.decide(pa.table(table), outcomes=train.rewards)
    scale = policy.eligibility.logged.scale
    within = cdist(scale(rows.contexts), scale(train.contexts), "sqeuclidean") / 3 <= 0.05
    names = np.array(train.action_names)
    defer = ~within.any(axis=1)
    assert decided["defer"].to_pylist() == defer.tolist()
    assert 10 < defer.sum() < 290
    assert {"distance", "in_range", "similar", "outcome"} < set(decided.column_names)
    for row, one in enumerate(decided.select(["action", "similar"]).to_pylist()):
        alike = within[row] & (names[train.actions] == one["action"])
        assert one["similar"] == (None if defer[row] else alike.sum())


def test_gaps_new_categories_and_edges_are_the_same_in_tables_and_graphs(tmp_path: Path) -> None:
    train, rng = logs_of(trial(GAPS)), np.random.default_rng(3)
    policy, n = last(Consensus(rule=ROBUST), train), 400
    old = {name: trial(GAPS)[name].to_numpy(zero_copy_only=False) for name in new_people()}
    picked = {name: values[rng.permutation(PEOPLE)[:n]] for name, values in old.items()}
    away = rng.choice([0.0, 1.0, 8.0, 60.0], n)
    table = pa.table(
        {
            "age": np.where(rng.random(n) < 0.2, old["age"].max(), picked["age"] + 12 * away),
            "income": pa.array(picked["income"], mask=rng.random(n) < 0.3),
            "distance_km": np.where(rng.random(n) < 0.2, old["distance_km"].min(), picked["distance_km"]),
            "visits": picked["visits"] * rng.choice([1, 10], n),
            "sex": rng.choice(["f", "m", "never logged"], n),
        }
    )
    decided = policy.decide(table)
    given = {"contexts": policy.checked(table), "steps": np.zeros(n, np.int64)}
    found = outputs(policy, given, tmp_path / "policy.onnx")
    assert found["defer"].tolist() == decided["defer"].to_pylist()
    assert found["in_range"].tolist() == decided["in_range"].to_pylist()
    np.testing.assert_allclose(found["distance"], decided["distance"].to_numpy(), rtol=1e-5)
    assert 20 < found["defer"].sum() < n - 20
    assert 20 < found["in_range"].sum() < n - 20
    acts = ~found["defer"]
    columns = [decided[f"propensity_{name}"].to_numpy(zero_copy_only=False) for name in policy.action_names]
    np.testing.assert_allclose(found["probabilities"][acts], np.stack(columns, axis=1)[acts], atol=1e-5)


RULES = {
    "radius and reach": lambda train: under(Eligibility(radius="q90", scale="robust", reach="auto"), train),
    "reach alone": lambda train: under(Eligibility(scale="robust", reach="auto"), train),
    "reach, euclidean": lambda train: under(
        Eligibility(reach=0.5, scale="robust", metric="euclidean", fallback="all"), train
    ),
    "reach, plain features": lambda train: under(Eligibility(reach="auto"), train),
    "reach, same step": lambda train: under(Eligibility(reach="auto", scale="robust", neighbours="same_step"), train),
    "reach, falling back on a model": lambda train: under(
        Eligibility(reach=0.02, scale="robust", fallback="behavior"), train, KNN
    ),
    "reach and probable": lambda train: under(
        Eligibility(reach="auto", scale="robust", minimum_probability=0.3), train, KNN
    ),
    "near and probable as logged": lambda train: under(
        Eligibility(radius=0.3, scale="robust", minimum_probability=0.3), train
    ),
    **{name: POLICIES[name] for name in ("poela", "fittedq", "bcq", "pocrm", "spibb", "history")},
}


@pytest.mark.parametrize("name", RULES)
def test_a_graph_defers_as_decide_does(name: str, tmp_path: Path) -> None:
    train = logs()
    policy, episodes = RULES[name](train), random_episodes(train, 6000)
    shares = [0.9, 0.04, 0.03, 0.03]
    far = np.random.default_rng(2).choice([1.0, 30.0, 1e6, 1e20], size=(episodes.n_episodes, 1), p=shares)
    far = far[episodes.episode_of_step]
    episodes = Trajectories(
        (episodes.contexts * far).astype(np.float32),
        episodes.actions,
        episodes.rewards,
        episodes.offsets,
        n_actions=3,
        feature_names=episodes.feature_names,
        action_names=episodes.action_names,
    )
    found = outputs(policy, graph_inputs(episodes), tmp_path / "policy.onnx")
    if not isinstance(policy, RuledPolicy):  # rules over features with history
        rule = policy.policy.eligibility
        features = policy.features.of(episodes.contexts, episodes.actions, episodes.offsets)
        steps: Any = StepsToFollow(features, episodes.actions, episodes.offsets, rule.feature_names)
    else:
        rule, steps = policy.eligibility, episodes
    eligible = rule.along(steps)
    np.testing.assert_array_equal(found["defer"], eligible.stranded)
    measures = rule.settings.measures
    if measures:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
            distance = rule.distances_along(steps).min(axis=1).astype(np.float32)
        np.testing.assert_allclose(found["distance"], distance, rtol=1e-4)
        np.testing.assert_array_equal(found["in_range"], rule.in_range(steps.contexts))
        assert 100 < found["defer"].sum() < 5900
        assert 100 < found["in_range"].sum() < 5900
    else:
        assert np.isnan(found["distance"]).all()
        assert not found["in_range"].any()
        assert not found["defer"].any()
    near = far[:, 0] == 1  # far outside, models of the logging policy may take another of the nearest cases
    np.testing.assert_allclose(found["probabilities"][near], policy.along(episodes)[near], rtol=0, atol=1e-5)


def test_at_the_edge_of_the_reach(tmp_path: Path) -> None:
    """The reach is one context's own distance, to the last bit; others are moved by as little as float32 can."""
    train, rng = logs(), np.random.default_rng(3)
    rows = (train.contexts[:200] + rng.normal(size=(200, 3))).astype(np.float32)
    sides = []
    for row in range(20):
        metric = ("mean_squared", "euclidean")[row % 2]
        nearest = Eligibility(reach=1.0, scale="robust", metric=metric).fit(train).distances(rows).min(axis=1)
        policy = under(Eligibility(reach=float(nearest[row]), scale="robust", metric=metric), train)
        moved = np.nextafter(rows[row], rng.choice(np.array([-np.inf, np.inf], np.float32), size=(100, 3)))
        contexts = np.vstack([rows, moved])
        found = outputs(policy, {"contexts": contexts}, tmp_path / "policy.onnx")
        expected = policy.eligibility.resolve(contexts).stranded
        np.testing.assert_array_equal(found["defer"], expected)
        assert not expected[row]
        sides.append(expected[200:].mean())
    assert 0.1 < np.mean(sides) < 0.9


@pytest.mark.parametrize("name", ["reach alone", "poela", "pocrm", "fittedq", "history"])
def test_what_is_no_number_is_deferred_by_a_graph(name: str, tmp_path: Path) -> None:
    train = logs()
    policy, episodes = RULES[name](train), random_episodes(train, 400)
    given = graph_inputs(episodes)
    bad = np.random.default_rng(0).random(400) < 0.3
    values = np.random.default_rng(1).choice(np.array([np.nan, np.inf, -np.inf], np.float32), size=bad.sum())
    contexts = given["contexts"].copy()
    contexts[bad, np.random.default_rng(2).integers(3, size=bad.sum())] = values
    found = outputs(policy, {**given, "contexts": contexts}, tmp_path / "policy.onnx")
    before = outputs(policy, given, tmp_path / "policy.onnx")
    assert found["defer"][bad].all()
    assert not found["in_range"][bad].any()
    assert not np.isfinite(found["distance"][bad]).any()
    for output in ("defer", "distance", "in_range"):
        np.testing.assert_array_equal(found[output][~bad], before[output][~bad])
    if name in ("fittedq", "history"):
        odd = np.full_like(given["previous_contexts"], np.nan)
        steps = given["steps"]
        looked_back = outputs(policy, {**given, "previous_contexts": odd}, tmp_path / "policy.onnx")
        assert looked_back["defer"][steps > 0].all()
        np.testing.assert_array_equal(looked_back["defer"][steps == 0], before["defer"][steps == 0])
