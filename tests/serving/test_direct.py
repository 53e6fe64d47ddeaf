"""Cases that go from JSON straight to arrays are answered as those that go through a table, field by field."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.serving.episodes import ACTIONS, FEATURES, logs, mixed_logs, random_episodes
from tests.serving.policies import MULTINOMIAL, NEAR, POLICIES, last

from poela.core.typed import shown
from poela.learners.consensus import Consensus
from poela.policies.ruled import RuledPolicy
from poela.serving import decisions
from poela.serving.decisions import Answering
from poela.serving.direct import is_direct
from poela.serving.requests import Form
from poela.serving.source import PolicySource

TRAIN = logs()
OUTCOMES = np.random.default_rng(2).normal(size=TRAIN.n_steps)


def both(policy: Any, cases: list[dict[str, Any]], outcomes: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The answers without a table, and with one; by the policy itself."""
    monkeypatch.setattr(decisions, "compiled", lambda policy: "not here")
    desk = Answering(PolicySource(policy, "a policy", outcomes))
    assert is_direct(desk.form)
    request = desk.form.parsed(json.dumps({"cases": cases, "seed": 4}).encode())
    direct = desk.decided([request, request])
    monkeypatch.setattr(decisions, "is_direct", lambda form: False)
    return direct, desk.decided([request, request])


def cases_of(form: Form, n: int) -> list[dict[str, Any]]:
    """Cases of the last steps of random episodes, with what a policy of this form wants to know."""
    episodes, cases = random_episodes(TRAIN, 20 * n), []
    named = [dict(zip(FEATURES, row, strict=True)) for row in episodes.contexts.tolist()]
    for start, end in zip(episodes.offsets[:n], episodes.offsets[1 : n + 1], strict=True):
        case: dict[str, Any] = {"id": int(start), "features": named[end - 1]}
        if form.wants_step:
            case["step"] = int(end - start - 1)
        if form.wants_history:
            acted = [ACTIONS[action] for action in episodes.actions[start : end - 1]]
            case["history"] = [
                {"features": row, "action": action} for row, action in zip(named[start : end - 1], acted, strict=True)
            ]
        cases.append(case)
    return cases


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_answers_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = POLICIES[name](TRAIN)
    if not isinstance(policy, RuledPolicy):
        pytest.skip("a model of the logging policy is not served")
    cases = cases_of(Answering(PolicySource(policy, "a policy")).form, 40)
    outcomes = OUTCOMES if policy.eligibility.settings.measures else None
    direct, by_table = both(policy, cases, outcomes, monkeypatch)
    assert direct == by_table
    assert json.dumps(direct) == json.dumps(by_table)  # fields in the same order, whole numbers as such


def test_gaps_and_new_categories_are_noted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    train = mixed_logs()
    schema = train.schema
    assert schema is not None
    kept = tuple(v for v in schema.variables if v.kind in ("number", "category", "ordinal"))
    features = tuple(feature for variable in kept for feature in variable.features)
    columns = [train.feature_names.index(feature) for feature in features]
    train = replace(
        train,
        contexts=train.contexts[:, columns],
        feature_names=features,
        schema=replace(schema, variables=kept),
    )
    policy = last(Consensus(rule=NEAR), train, MULTINOMIAL)
    values: dict[str, list[Any]] = {
        variable.name: [*variable.categories, *([] if variable.kind == "ordinal" else ["another"])]
        if variable.categories
        else [60, 60.5, -1e15]
        for variable in kept
    }
    rng = np.random.default_rng(0)
    cases: list[dict[str, Any]] = []
    for number in range(60):
        row = {
            variable.name: None
            if variable.indicated and rng.random() < 0.3
            else values[variable.name][rng.integers(len(values[variable.name]))]
            for variable in kept
        }
        cases.append({"id": f"case {number}", "features": row, "step": 0})
    direct, by_table = both(policy, cases, None, monkeypatch)
    assert direct == by_table
    notes = {answer["note"] for answer in direct[0]}
    assert any("a category that was not logged" in str(note) for note in notes), shown(str(notes))
    assert any("missing, filled in" in str(note) for note in notes)
