"""A policy run by ONNX Runtime inside a server decides as the policy does: the same numbers, the very same draws."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.serving.episodes import logs, random_episodes
from tests.serving.policies import GRADIENT, NEAR, POLICIES, VALUES, last
from tests.serving.test_direct import OUTCOMES, cases_of

from poela.core.arrays import FloatArray
from poela.core.policy import actions_at
from poela.data.history import StepsToFollow
from poela.data.receipts import Receipts
from poela.eligibility.rules import Eligibility
from poela.learners.policy_gradient import POCRM
from poela.learners.q_learning import BCQ
from poela.learners.safe_improvement import SoftSPIBB
from poela.policies.deciding import KnownSteps, known_of
from poela.policies.ruled import RuledPolicy
from poela.serving import compiled as compiling
from poela.serving import decisions, runtime
from poela.serving.compiled import CompiledPolicy, compiled
from poela.serving.decisions import Answering
from poela.serving.requests import Form
from poela.serving.source import PolicySource

TRAIN = logs()
RULED = [name for name in POLICIES if isinstance(POLICIES[name](TRAIN), RuledPolicy)]


def engine_of(policy: Any) -> CompiledPolicy:
    engine = compiled(policy)
    assert isinstance(engine, CompiledPolicy), engine
    return engine


def asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cases the policy itself is asked about, each time."""
    asked: list[int] = []

    def counted(policy: Any, steps: StepsToFollow) -> KnownSteps:
        asked.append(len(steps.offsets) - 1)
        return known_of(policy, steps)

    monkeypatch.setattr(compiling, "known_of", counted)
    return asked


def drawn_at_edges(expected: KnownSteps, rng: np.random.Generator) -> FloatArray:
    """Draws at the edge of some action of each case, just below and just above it, and anywhere."""
    edges = expected.probabilities.cumsum(axis=1)
    own = edges[np.arange(len(edges)), rng.integers(edges.shape[1], size=len(edges))]
    beside = np.nextafter(own, rng.choice([-1.0, 2.0], len(own)))
    drawn: FloatArray = np.clip(
        np.choose(rng.integers(3, size=len(own)), [own, beside, rng.random(len(own))]), 0, 1 - 2.0**-53
    )
    return drawn


@pytest.mark.parametrize("name", RULED)
def test_every_policy_has_its_numbers_and_its_draws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, episodes = POLICIES[name](TRAIN), random_episodes(TRAIN, 4000)
    steps = StepsToFollow(episodes.contexts, episodes.actions, episodes.offsets, policy.feature_names)
    ends = episodes.offsets[1:] - 1
    engine, expected = engine_of(policy), known_of(policy, steps).take(ends)
    usual = np.random.default_rng(2).random(len(ends))
    asked = asked_by_itself(monkeypatch)
    found = engine.known(steps, ends, usual)
    assert sum(asked) <= len(ends) / 5  # where rounding might decide
    decides = ~expected.stranded
    assert np.array_equal(found.stranded, expected.stranded)
    for part in ("mask", "distances", "bars"):
        one, other = getattr(found, part), getattr(expected, part)
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(one[decides], other[decides]), part
    np.testing.assert_allclose(found.probabilities[decides], expected.probabilities[decides], rtol=0, atol=1e-6)
    for uniform in (usual, drawn_at_edges(expected, np.random.default_rng(3))):
        found = engine.known(steps, ends, uniform)
        same = actions_at(found.probabilities, uniform) == actions_at(expected.probabilities, uniform)
        assert same[decides].all()


@pytest.mark.parametrize("name", ["poela", "fittedq", "fittedq, no history", "rules of a model", "bcq, mixed"])
def test_answers_are_those_of_the_policy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = POLICIES[name](TRAIN)
    source = PolicySource(policy, "a policy", OUTCOMES if "bcq" not in name else None)
    desk, plain = Answering(source), Answering(source)
    body = json.dumps({"cases": cases_of(desk.form, 60)}).encode()
    (found,) = desk.decided([desk.form.parsed(body)])
    assert desk.runs == "ONNX Runtime answers"
    monkeypatch.setattr(decisions, "compiled", lambda policy: "not here")
    (expected,) = plain.decided([plain.form.parsed(body)])
    assert plain.runs.endswith("not here")
    for one, other in zip(found, expected, strict=True):
        assert list(one["propensities"].values()) == pytest.approx(list(other["propensities"].values()), abs=1e-6)
        assert {**one, "propensities": 0} == {**other, "propensities": 0}


def test_values_that_are_equal_but_for_rounding_are_left_to_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A greedy network whose two actions differ in the last digits: which is best depends on the order of sums."""
    policy = replace(last(BCQ(threshold=0.0, **VALUES), TRAIN), eligibility=Eligibility(radius=50.0).fit(TRAIN))
    weights = {name: np.array(array) for name, array in policy.network.weights().items()}
    final = max(name for name in weights if name.endswith("weight"))
    weights[final][2] = weights[final][1] * np.float32(1 + 1e-7)
    biases = weights[final.replace("weight", "bias")]
    biases[2], biases[0] = biases[1], -1e3
    network = policy.network.shape.build(seed=0)
    network.load_weights(weights)
    policy = replace(policy, network=network)
    episodes = random_episodes(TRAIN, 2000)
    steps = StepsToFollow(episodes.contexts, episodes.actions, np.arange(2001), policy.feature_names)
    rows, asked = np.arange(2000), asked_by_itself(monkeypatch)
    found = engine_of(policy).known(steps, rows, np.full(2000, 0.5))
    expected = known_of(policy, steps)
    decides = ~expected.stranded
    assert np.array_equal(found.probabilities[decides], expected.probabilities[decides])
    assert 0 < expected.probabilities[decides, 1].mean() <= 1
    assert sum(asked) > 1900


def test_numbers_far_outside_are_left_to_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network says of 1e15 what no digit of float32 is left to tell."""
    policy, rng = last(POCRM(**GRADIENT), TRAIN), np.random.default_rng(0)
    contexts = (rng.normal(size=(50, 3)) * 1e15).astype(np.float32)
    steps = StepsToFollow(contexts, np.zeros(50, np.int64), np.arange(51), policy.feature_names)
    asked, uniform = asked_by_itself(monkeypatch), rng.random(50)
    found = engine_of(policy).known(steps, np.arange(50), uniform)
    assert sum(asked) == 50
    assert np.array_equal(found.probabilities, known_of(policy, steps).probabilities)


def test_without_the_runtime_the_policy_answers_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "find_spec", lambda name: None if name == "onnxruntime" else object())
    desk = Answering(PolicySource(POLICIES["poela"](TRAIN), "a policy"))
    desk.warm_up()
    assert "onnxruntime is not installed: pip install" in desk.runs
    body = json.dumps({"cases": cases_of(desk.form, 3)}).encode()
    assert len(desk.decided([desk.form.parsed(body)])[0]) == 3


def test_a_runtime_that_cannot_be_imported_leaves_it_to_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('of another machine')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    desk = Answering(PolicySource(POLICIES["poela"](TRAIN), "a policy"))
    desk.warm_up()
    assert "onnx or onnxruntime cannot be imported: pip install" in desk.runs


def test_what_has_no_graph_is_answered_by_the_policy() -> None:
    soft = last(SoftSPIBB(rule=NEAR), TRAIN, POLICIES["multinomial"](TRAIN).settings)
    assert "soft SPIBB" in Answering(PolicySource(soft, "a policy")).runs


def test_with_receipts_the_policy_answers_and_it_is_said(tmp_path: Path) -> None:
    desk = Answering(PolicySource(POLICIES["poela"](TRAIN), "a policy"), Receipts.to_append(tmp_path / "receipts"))
    assert desk.runs.startswith("The policy itself answers, not ONNX Runtime: receipts")


@pytest.mark.parametrize("name", ["poela", "fittedq, no history", "fittedq"])
def test_a_case_is_not_made_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From JSON to arrays to the answer: no table is made, and no question is asked twice."""
    desk = Answering(PolicySource(POLICIES[name](TRAIN), "a policy"))
    desk.warm_up()
    body = json.dumps({"cases": cases_of(desk.form, 10)}).encode()
    made: list[str] = []
    by_itself = asked_by_itself(monkeypatch)
    for owner, part in ((Form, "table"), (pa, "table"), (pa, "array")):
        monkeypatch.setattr(owner, part, lambda *given, part=part, **named: made.append(part))
    ran: list[int] = []
    engine = desk.engine
    assert isinstance(engine, CompiledPolicy)
    session = engine.session

    class Counted:
        def run(self, outputs: Any, given: dict[str, Any]) -> Any:
            ran.append(len(given["contexts"]))
            return session.run(outputs, given)

        def get_outputs(self) -> Any:
            return session.get_outputs()

    object.__setattr__(engine, "session", Counted())
    (answers,) = desk.decided([desk.form.parsed(body)])
    assert len(answers) == 10
    assert (made, ran, by_itself) == ([], [10], [])
