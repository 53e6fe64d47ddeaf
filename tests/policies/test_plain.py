"""Plain policies: what they say in the log's own words, what they do, and that files keep both."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from poela import InputError, MultinomialBehavior, Rules, load_policy, read_logs
from poela.core.storage import Stored
from poela.policies.plain import Case, Condition
from poela.policies.storage import load_object

N = 300


def log() -> pa.Table:
    rng = np.random.default_rng(0)
    lactate = np.round(rng.uniform(0.5, 4.0, N), 1)
    return pa.table(
        {
            "lactate": pa.array(np.where(rng.random(N) < 0.1, np.nan, lactate), from_pandas=True),
            "ward": rng.choice(["ICU", "surgery", "other"], N),
            "pain": rng.choice(["none", "some", "much"], N),
            "stay": pa.array(rng.integers(1, 20, N) * 86_400, pa.duration("s")),
            "action": rng.choice(["wait", "treat", "refer"], N),
            "reward": rng.normal(size=N),
            "propensity_wait": np.full(N, 1 / 3),
            "propensity_treat": np.full(N, 1 / 3),
            "propensity_refer": np.full(N, 1 / 3),
        }
    )


@pytest.fixture(scope="module")
def policy() -> Any:
    logs = read_logs(log(), ordinal={"pain": ["none", "some", "much"]}, missing="indicator")
    return Rules().fit(logs, behavior=MultinomialBehavior().fit(logs))


def single(number: float) -> float:
    return float(np.float32(number))


def test_a_rule_is_said_in_columns_categories_and_units(policy: Any) -> None:
    wait, treat, refer = (policy.action_names.index(name) for name in ("wait", "treat", "refer"))
    said = (
        Case("never", wait, where=(Condition("lactate", single(2.1)), Condition("ward=ICU", 0.5)), share=0.12),
        Case(
            "instead",
            treat,
            other=refer,
            where=(Condition("pain", 0.0), Condition("stay days", 3.0, above=False)),
            share=0.4,
        ),
        Case(
            "always",
            refer,
            where=(Condition("lactate missing", 0.5), Condition("ward=other", 0.5, above=False)),
            share=0.003,
        ),
        Case("odds", treat, odds=0.5, where=(Condition("pain", 1.0, above=False),), share=0.2),
    )
    assert replace(policy, cases=said).rule == (
        "If lactate > 2.1 and ward is ICU: never wait (12% of decisions). "
        "If pain is some or more and stay ≤ 3 days: treat instead of refer (40% of decisions). "
        "If lactate is missing and ward is not other: always refer (0.3% of decisions). "
        "If pain is some or less: treat less often (the odds divided by 2: 50% becomes 33%) (20% of decisions). "
        "Otherwise as before."
    )


def test_the_first_case_that_holds_is_done(policy: Any) -> None:
    wait, treat, refer = (policy.action_names.index(name) for name in ("wait", "treat", "refer"))
    there = Condition("ward=ICU", 0.5)
    said = replace(policy, cases=(Case("never", wait, where=(there,)), Case("always", refer)))
    cases = {"lactate": [3.0, 1.0], "ward": ["ICU", "surgery"], "pain": ["none", "much"]}
    table = pa.table({**cases, "stay": pa.array([86_400, 86_400], pa.duration("s"))})
    first, second = said.probabilities(table)
    assert first[wait] == 0
    assert 0 < first[treat] < 1
    assert second[refer] == 1
    decided = said.decide(table)
    assert decided["barred"].to_pylist() == ["wait", ""]
    assert decided["action"].to_pylist()[1] == "refer"


def test_files_keep_the_rule_exactly(policy: Any, tmp_path: Path) -> None:
    treat = policy.action_names.index("treat")
    said = replace(policy, cases=(Case("never", treat, where=(Condition("lactate", single(2.3)),), share=0.31),))
    said.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert (loaded.rule, loaded.cases) == (said.rule, said.cases)
    rows = read_logs(log(), ordinal={"pain": ["none", "some", "much"]}, missing="indicator").contexts
    np.testing.assert_array_equal(loaded.probabilities(rows), said.probabilities(rows))
    np.testing.assert_array_equal(loaded.barred(rows), said.barred(rows))


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"do": "never", "action": 3}, "names an action beyond the 3"),
        ({"do": "sometimes", "action": 0}, "choose 'always', 'never'"),
        ({"do": "instead", "action": 1}, "wrong number of actions"),
        ({"do": "odds", "action": 1}, "multiplies odds by 1"),
        ({"do": "never", "action": 0, "where": [{"feature": "sofa", "threshold": 1.0}]}, "a feature that there is not"),
        ({"do": "never", "action": 0, "where": [{"feature": "lactate", "threshold": 0.1}]}, "single precision"),
        ({"do": "never", "action": 0, "share": 1.5}, "share"),
    ],
)
def test_cases_that_cannot_be_are_refused(policy: Any, case: dict[str, Any], says: str) -> None:
    stored = policy.stored()
    forged = Stored(stored.kind, {**stored.settings, "cases": [case]}, stored.arrays, stored.parts)
    with pytest.raises(InputError, match=says):
        load_object(forged)
