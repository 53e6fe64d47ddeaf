"""Amounts over HTTP and in graphs: the draws of `decide`, and a density that an independent formula gives, too."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from scipy.stats import norm
from tests.serving.running import running
from tests.serving.test_serve import asked

import poela
from poela import GaussianBehavior, InputError
from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.learners.continuous import ContinuousClone, ContinuousPOELA
from poela.learners.implicit_q import IQL
from poela.policies.gaussian import GaussianPolicy
from poela.serving.application import application
from poela.serving.export import export_onnx
from poela.serving.source import PolicySource
from poela.simulators.registry import simulate

LOGS = simulate("dosing", episodes=300, seed=1)
QUICK: dict[str, Any] = {"hidden": (8,), "steps": 30}


def two_columns() -> Trajectories:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    acts = x + rng.normal(size=(200, 2))
    names = ("fluid", "pressor")
    logs = Trajectories(x, acts, -np.square(acts).sum(axis=1), np.arange(201), action_names=names)
    return logs.with_log_densities(norm.logpdf(acts - x).sum(axis=1))


def blend() -> GaussianPolicy:
    learned = ContinuousClone(hidden=(8,), clone_steps=30).fit(LOGS, seed=0)
    return GaussianPolicy(model=learned.model, behavior=GaussianBehavior(steps=20).fit(LOGS), share=0.3)


POLICIES: dict[str, Any] = {
    "continuouspoela": lambda: ContinuousPOELA(radius="q90", least_ess=30.0, clone_steps=30, **QUICK).fit(LOGS, seed=0),
    "iql": lambda: IQL(**QUICK).fit(LOGS, seed=0),
    "continuousclone": lambda: ContinuousClone(hidden=(8,), clone_steps=30).fit(LOGS, seed=0),
    "a blend": blend,
    "two columns": lambda: ContinuousPOELA(radius="q90", least_ess=30.0, clone_steps=30, **QUICK).fit(
        two_columns(), seed=0
    ),
}


def asked_contexts(policy: Any, n: int = 60) -> FloatArray:
    """Logged contexts, others near them, and some far from all."""
    logs, rng = two_columns() if len(policy.action_names) == 2 else LOGS, np.random.default_rng(7)
    rows = logs.contexts[rng.integers(logs.n_steps, size=n)]
    noise = rng.normal(size=rows.shape) * rng.choice([0.0, 0.3, 5.0], (n, 1))
    return np.asarray((rows + noise).astype(np.float32), np.float64)


def log_density(found: dict[str, Any], amounts: FloatArray) -> FloatArray:
    """Of one column kept within a union of intervals, by SciPy's distribution function."""
    mean, spread = found["mean"][:, 0], found["spread"][:, 0]
    plain = norm.logpdf(amounts, mean, spread)
    if "low" not in found:
        return np.asarray(plain)
    mass = np.zeros(len(amounts))
    for row in range(len(amounts)):
        ends = sorted(zip(found["low"][row, :, 0], found["high"][row, :, 0], found["there"][row], strict=True))
        reached = -np.inf
        for low, high, there in ends:
            if there and high > reached:
                low = max(low, reached)
                mass[row] += norm.cdf(high, mean[row], spread[row]) - norm.cdf(low, mean[row], spread[row])
                reached = high
    return np.asarray(plain - np.log(mass))


@pytest.mark.parametrize("name", POLICIES)
def test_a_graph_is_its_policy(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()
    metadata = export_onnx(policy, tmp_path / "policy.onnx")
    graph = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    contexts = asked_contexts(policy).astype(np.float32)
    found = dict(zip([one.name for one in graph.get_outputs()], graph.run(None, {"contexts": contexts}), strict=True))
    mean, spread = policy.moments(contexts)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["spread"], spread, rtol=1e-5)
    rule = policy.eligibility
    assert ("low" in found) == (rule is not None)
    assert json.loads(metadata["action_names"]) == list(policy.action_names)
    assert set(json.loads(metadata["outputs"])) == set(found)
    assert json.loads(metadata["contains_logged_contexts"]) == (rule is not None)
    if rule is None:
        assert not found["defer"].any()
        assert np.isnan(found["distance"]).all()
        return
    boxes, stranded = rule.boxes(contexts)
    distance, in_range = rule.nearness(contexts)
    assert np.array_equal(found["defer"], stranded)
    assert 0 < stranded.sum() < len(contexts)
    np.testing.assert_allclose(found["distance"], distance, rtol=1e-6)
    assert np.array_equal(found["in_range"], in_range)
    assert np.array_equal(found["there"], boxes.there)
    for part, expected in (("low", boxes.lower), ("high", boxes.upper)):
        np.testing.assert_allclose(found[part][boxes.there], expected[boxes.there], rtol=1e-12, atol=1e-12)
    odd = graph.run(["defer", "in_range"], {"contexts": np.full((1, contexts.shape[1]), np.nan, np.float32)})
    assert (odd[0].tolist(), odd[1].tolist()) == ([True], [False])


@pytest.mark.parametrize("name", ["continuouspoela", "iql", "a blend"])
def test_densities_follow_from_what_a_graph_says(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()
    export_onnx(policy, tmp_path / "policy.onnx")
    graph = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    contexts = asked_contexts(policy).astype(np.float32)
    found = dict(zip([one.name for one in graph.get_outputs()], graph.run(None, {"contexts": contexts}), strict=True))
    near = ~found["defer"]  # far from all, next to nothing of the distribution is left
    found, contexts = {part: values[near] for part, values in found.items()}, contexts[near]
    amounts = policy.sample(contexts, np.random.default_rng(0))
    np.testing.assert_allclose(log_density(found, amounts[:, 0]), policy.log_density(contexts, amounts), atol=1e-3)


def cases_of(policy: Any, contexts: FloatArray) -> list[dict[str, Any]]:
    step = {} if policy.table_schema.episode is None else {"step": 0}
    return [
        {"id": f"case {row}", "features": dict(zip(policy.feature_names, map(float, one), strict=True)), **step}
        for row, one in enumerate(contexts)
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_a_case_gets_the_amount_that_decide_gives_it(name: str) -> None:
    policy = POLICIES[name]()
    contexts = asked_contexts(policy)
    columns = {feature: contexts[:, place] for place, feature in enumerate(policy.feature_names)}
    table = pa.table({"case": [f"case {row}" for row in range(len(contexts))], **columns})
    app = application(PolicySource(policy, "a policy"))
    for seed in (None, 5):
        request = {"cases": cases_of(policy, contexts), "seed": seed}
        answer = asked(app, "POST", "/v1/decide", json=request)
        assert answer.status_code == 200, answer.text
        for one, row in zip(
            answer.json()["decisions"], policy.decide(table, seed=seed, case="case").to_pylist(), strict=True
        ):
            assert (one["defer"], one["policy"], one["note"]) == (row["defer"], row["policy"], row["note"])
            assert one["similar"] == row.get("similar")
            if one["defer"]:
                assert one["action"] is one["log_density"] is None
                continue
            expected = {column: row[column] for column in map(str, policy.action_names)}
            assert one["action"] == pytest.approx(expected, rel=1e-5, abs=1e-6)
            assert one["log_density"] == pytest.approx(row["log_density"], abs=1e-5)
            assert one["spread"] == pytest.approx({n: row[f"{n}_spread"] for n in expected}, rel=1e-5)


def test_answers_of_a_real_server_are_the_next_log(tmp_path: Path) -> None:
    policy = POLICIES["continuouspoela"]()
    policy.save(tmp_path / "policy")
    contexts = asked_contexts(policy)
    cases = cases_of(policy, contexts)
    with running(tmp_path / "policy") as server:
        answers = (
            httpx.post(f"{server.address}/v1/decide", json={"cases": cases}).raise_for_status().json()["decisions"]
        )
        why = httpx.post(f"{server.address}/v1/explain", json={"cases": cases[:1]}).raise_for_status().json()
        about = httpx.get(f"{server.address}/v1/policy").json()
        counts = httpx.get(f"{server.address}/metrics").text
        bad = httpx.post(f"{server.address}/v1/decide", json={"cases": [{"id": 1}]})
    done = [(case, one) for case, one in zip(cases, answers, strict=True) if not one["defer"]]
    log = pa.table(
        {
            **{name: [case["features"][name] for case, _ in done] for name in policy.feature_names},
            "dose": [one["action"]["dose"] for _, one in done],
            "log_density": [one["log_density"] for _, one in done],
            "reward": [0.0] * len(done),
        }
    )
    logs = poela.read_logs(log, action=["dose"], log_density="log_density")
    expected = policy.log_density(logs.contexts, logs.actions)
    np.testing.assert_allclose(logs.log_propensities, expected, atol=1e-5)
    assert about["real_valued"] is True
    assert about["actions"] == ["dose"]
    assert f"poela_deferred_total {len(cases) - len(done)}" in counts
    assert bad.status_code == 422
    (column,) = why["actions"]
    mean, spread = policy.moments(contexts[:1].astype(np.float32))
    assert (column["mean"], column["spread"]) == pytest.approx((mean[0, 0], spread[0, 0]), rel=1e-5)
    assert column["low"] <= column["likeliest"] <= column["high"]
    boxes, stranded = policy.eligibility.boxes(contexts[:1])
    assert why["defer"] == bool(stranded[0])
    assert column["low"] == pytest.approx(boxes.lower[boxes.there].min())


def test_what_is_refused_is_said(tmp_path: Path) -> None:
    policy = POLICIES["continuousclone"]()
    with pytest.raises(InputError, match="without a cover"):
        export_onnx(policy, tmp_path / "policy.onnx", include_contexts="cover")
    from poela.data.receipts import Receipts

    with pytest.raises(InputError, match="real-valued decisions are the log themselves"):
        application(PolicySource(policy, "a policy"), receipts=Receipts.to_append(tmp_path / "receipts"))
