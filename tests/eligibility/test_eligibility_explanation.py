"""Explanations: the right reason for each action, and the logged cases behind it."""

import json

import numpy as np
import pytest
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
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
    assert document["actions"][0]["cases"][0] == {"row": 0, "episode": "anna", "step": 0, "distance": 0.0}
    assert document["actions"][2]["distance"] is None


def test_bad_questions_are_refused(logs: Trajectories) -> None:
    fitted = Radius(0.5).fit(logs)
    with pytest.raises(InputError, match="one context of 1 features"):
        fitted.explain([[0.0]])
    with pytest.raises(InputError, match=r"shape \(rows, 1\)"):
        fitted.explain([0.0, 1.0])
    with pytest.raises(InputError, match="k is -1"):
        fitted.explain([0.0], k=-1)
