"""Explanations: the right reason for each action, and the logged cases behind it."""

import json

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import ArrayLike

from poela import read_logs
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.decision_rows import loose_contexts
from poela.data.trajectories import Trajectories
from poela.eligibility.explanation import Likeness
from poela.eligibility.rules import AnyAction, Eligibility, MinimumProbability, Radius


class Fixed:
    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.tile([0.68, 0.3, 0.02, 0.0], (len(np.asarray(contexts)), 1))


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return Trajectories(
        contexts=[[0.0], [0.1], [0.3], [2.0]],
        actions=[0, 0, 0, 1],
        rewards=[0, 0, 0, 0],
        offsets=[0, 3, 4],
        n_actions=4,
        action_names=["wait", "treat", "stop", "other"],
        episode_ids=["anna", "bert"],
    )


def test_reasons_of_the_radius_rule(logs: Trajectories) -> None:
    explanation = Radius(0.5).fit(logs).explain([0.1], k=2)
    assert not explanation.stranded
    wait, treat, stop, _ = explanation.actions
    assert (wait.action, wait.eligible, wait.distance) == ("wait", True, 0.0)
    assert wait.why == "logged within the radius 0.5"
    assert [(case.row, case.episode, case.step) for case in wait.cases] == [(1, "anna", 1), (0, "anna", 0)]
    assert [case.distance for case in wait.cases] == pytest.approx([0, 0.01], rel=1e-6)
    assert (treat.eligible, treat.why) == (False, "logged beyond the radius 0.5")
    assert [(case.row, case.episode, case.step) for case in treat.cases] == [(3, "bert", 0)]
    assert (stop.eligible, stop.why, stop.distance, stop.cases) == (False, "never logged", None, ())


def test_reasons_of_the_probability_rule(logs: Trajectories) -> None:
    explanation = MinimumProbability(0.1).fit(logs, Fixed()).explain([0.1])
    assert [action.why for action in explanation.actions] == [
        "probable enough",
        "probable enough",
        "probability 0.02 is below 0.1",
        "the logging policy never takes it here",
    ]
    assert [action.probability for action in explanation.actions] == [0.68, 0.3, 0.02, 0.0]


def test_reasons_of_the_relative_rule(logs: Trajectories) -> None:
    explanation = Eligibility(relative_probability=0.3).fit(logs, Fixed()).explain([0.1])
    assert [action.eligible for action in explanation.actions] == [True, True, False, False]
    assert explanation.actions[1].why == "probable enough"
    assert explanation.actions[2].why == "probability 0.02 is not above 0.3 of the most probable action's"


def test_two_rules_give_two_reasons(logs: Trajectories) -> None:
    explanation = Eligibility(radius=0.5, minimum_probability=0.1).fit(logs, Fixed()).explain([0.1])
    assert explanation.actions[0].why == "logged within the radius 0.5 and probable enough"
    assert explanation.actions[2].why == "never logged; probability 0.02 is below 0.1"


@pytest.mark.parametrize(
    ("rule", "why", "eligible"),
    [
        (Radius(0.5), "fallback: nearest", [False, True, False, False]),
        (Radius(0.5, fallback="all"), "fallback: all", [True, True, True, True]),
        (Radius(0.5, fallback="behavior"), "fallback: as the logging policy", [True, True, True, False]),
        (MinimumProbability(0.9), "fallback: most probable", [True, False, False, False]),
        (AnyAction(), "no rule", [True, True, True, True]),
    ],
)
def test_the_fallback_is_named(logs: Trajectories, rule: Eligibility, why: str, eligible: list[bool]) -> None:
    explanation = rule.fit(logs, Fixed()).explain([9.0])
    assert explanation.stranded == (rule != AnyAction())
    assert [action.eligible for action in explanation.actions] == eligible
    assert {action.why for action in explanation.actions if action.eligible} == {why}
    assert all(action.why for action in explanation.actions)


def test_same_step(logs: Trajectories) -> None:
    explanation = Radius(0.5, neighbours="same_step").fit(logs).explain([0.1], step=1)
    assert [case.row for case in explanation.actions[0].cases] == [1]
    assert explanation.actions[1].why == "never logged at this step"


def test_thinned_cases_carry_positions_instead_of_ids(logs: Trajectories) -> None:
    explanation = Radius(0.5).fit(logs).thinned(gap=0.05).explain([2.0])
    assert [(case.row, case.episode) for case in explanation.actions[0].cases] == [(2, 0), (0, 0)]
    assert [(case.row, case.episode) for case in explanation.actions[1].cases] == [(3, 1)]


def test_it_prints_as_a_table_and_goes_to_json(logs: Trajectories) -> None:
    explanation = Radius(0.5).fit(logs).explain([0.0], k=1)
    lines = str(explanation).splitlines()
    assert [line.split()[0] for line in lines] == ["action", "wait", "treat", "stop", "other"]
    assert lines[1].endswith("row 0 (episode anna, step 0) at 0")
    assert len({line.index(word) for line, word in zip(lines[:2], ("why", "logged"), strict=True)}) == 1
    document = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    case = document["actions"][0]["cases"][0]
    assert case.pop("likeness") == {"alike": [], "differs": None}
    assert case == {"row": 0, "episode": "anna", "step": 0, "distance": 0.0, "shared": None}
    assert document["actions"][2]["distance"] is None


def test_how_a_case_is_alike_and_how_it_differs() -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "age": [*rng.normal(60, 10, 98).tolist(), 61.0, 90.0],
            "lactate": [*rng.normal(2, 0.1, 98).tolist(), 4.0, 4.0],
            "ward": [*["ICU"] * 98, "surgery", "surgery"],
            "hospital": ["A"] * 100,
            "action": ["treat", "wait"] * 50,
            "reward": [0.0] * 100,
        }
    )
    rule = Eligibility(reach="auto", scale="robust").fit(read_logs(table))
    assert rule.schema is not None
    asked = pa.table({"age": [60.0], "lactate": [4.0], "ward": ["surgery"], "hospital": ["A"]})
    treat, wait = rule.explain(loose_contexts(asked, rule.schema)[0], k=50).actions
    assert (treat.cases[0].row, str(treat.cases[0].likeness)) == (98, "alike in age, lactate and ward")
    other = next(case for case in wait.cases if case.row == 99)
    assert other.likeness == Likeness(("lactate", "ward"), "age")
    assert str(other).endswith("(alike in lactate and ward; differs most in age)")


def test_reasons_of_the_reach(logs: Trajectories) -> None:
    rule = Eligibility(reach=1.0).fit(logs)
    within, beyond = rule.explain([0.5]), rule.explain([9.0])
    assert not within.stranded
    assert {action.why for action in within.actions} == {"a case was logged within the reach 1"}
    assert beyond.stranded
    assert [action.why for action in beyond.actions[:2]] == [
        "no case was logged within the reach 1",
        "fallback: nearest",
    ]
    both = Eligibility(reach=1.0, radius=0.5).fit(logs).explain([9.0])
    assert both.actions[0].why == "logged beyond the radius 0.5; no case was logged within the reach 1"


def test_bad_questions_are_refused(logs: Trajectories) -> None:
    fitted = Radius(0.5).fit(logs)
    with pytest.raises(InputError, match="one context of 1 features"):
        fitted.explain([[0.0]])
    with pytest.raises(InputError, match=r"shape \(rows, 1\)"):
        fitted.explain([0.0, 1.0])
    with pytest.raises(InputError, match="k is -1"):
        fitted.explain([0.0], k=-1)
