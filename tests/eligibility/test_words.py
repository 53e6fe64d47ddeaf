"""Support in words: the rule's sentence and the explanation of a case say what a log with a known hole says."""

from dataclasses import replace

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility
from poela.eligibility.support_model import SupportModel
from poela.eligibility.words import rule_in_words, strictness_in_words
from poela.policies.saving import model_card

RULE = Eligibility(support=0.02, scale="robust", reach="auto")
DEFERRED = "A case unlike any logged case is deferred to those who decide."


def holed(*, known: bool = False, names: tuple[str, ...] = ("wait", "drug", "surgery")) -> Trajectories:
    """Every fifth of 1,000 cases never gets the last action; others get it as often as each of the rest."""
    rng = np.random.default_rng(0)
    hole = np.arange(1000) % 5 == 0
    contexts = np.stack([hole + 0.2 * rng.random(1000), rng.normal(size=1000)], axis=1)
    chances = np.where(hole[:, None], [0.5, 0.5, 0.0], 1 / 3)
    actions = (chances.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1)
    propensities = chances if known else None
    return Trajectories(contexts, actions, np.zeros(1000), np.arange(1001), propensities, action_names=names)


def with_shares(*absent: float, barred: float = 0.004) -> FittedEligibility:
    """A fitted rule whose model says that actions are missing for these shares of cases."""
    rule = RULE.fit(holed())
    assert rule.support is not None
    return replace(rule, support=replace(rule.support, absent=np.array(absent), barred=barred))


@pytest.mark.parametrize("known", [False, True])
def test_the_rule_names_the_action_that_a_fifth_never_got(known: bool) -> None:
    rule = RULE.fit(holed(known=known))
    assert rule_in_words(rule).startswith(
        "It only suggests actions that similar past cases received; for 20% of cases action surgery is not among them"
    )
    assert rule_in_words(rule).endswith(DEFERRED)
    assert strictness_in_words(rule).startswith("It would bar ")
    assert not any(part in rule_in_words(rule) for part in ("radius", "reach", f"{rule.reach:.2f}"))


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        ((0.16, 0.0, 0.0), "; for 16% of cases action wait is not among them."),
        ((0.02, 0.0, 0.163), "; for 16% of cases action surgery is not among them, for 2% action wait."),
        ((0.3, 0.2, 0.1), "; for 30% of cases action wait is not among them, for 20% action drug."),
        ((0.001, 0.0, 0.0), ", which are nearly all actions in all kinds of cases."),
    ],
)
def test_at_most_two_actions_are_named(absent: tuple[float, ...], words: str) -> None:
    rule = with_shares(*absent)
    assert rule_in_words(rule) == f"It only suggests actions that similar past cases received{words} {DEFERRED}"
    assert strictness_in_words(rule) == "It would bar 0.4% of the decisions that were made."


def test_where_nothing_is_missing_nothing_is_barred() -> None:
    everywhere = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], np.full((2, 2), 0.5))
    for rule in (RULE.fit(everywhere), with_shares(0.0, 0.0, 0.0)):
        assert rule_in_words(rule) == f"Every action was taken in all kinds of cases, so nothing is barred. {DEFERRED}"
        assert strictness_in_words(rule) == ""
    assert "every action was taken in all kinds of cases" in str(RULE.fit(everywhere).explain([0.0]))


def test_a_price_bars_nothing() -> None:
    rule = replace(RULE, price=2.0).fit(holed())
    assert "others are not barred, but penalised" in rule_in_words(rule)
    assert strictness_in_words(rule) == ""
    surgery = rule.explain([1.1, 0.0]).actions[2]
    assert surgery.eligible
    assert surgery.why.endswith("not barred, but at a price")


def test_other_parts_of_a_rule_are_told_too() -> None:
    rule = replace(RULE, relative_probability=0.3).fit(holed(known=True))
    assert "only where its probability under the logging policy is above 0.3 of the most probable" in rule_in_words(
        rule
    )


@pytest.mark.parametrize("known", [False, True])
def test_an_explanation_says_how_many_similar_cases_received_each_action(known: bool) -> None:
    logs = holed(known=known)
    rule = RULE.fit(logs)
    inside, outside = rule.explain([1.1, 0.0]).actions, rule.explain([0.1, 0.0]).actions
    usual = logs.propensities.mean(axis=0) if logs.propensities is not None else np.bincount(logs.actions) / 1000
    for place in range(3):
        assert inside[place].usually == pytest.approx(usual[place])
        assert outside[place].received == pytest.approx(1 / 3, abs=0.15)
        assert outside[place].eligible
    assert [one.eligible for one in inside] == [True, True, False]
    assert inside[2].received is not None
    assert inside[2].received < 0.02
    assert f"of similar past cases, usually {usual[2]:.0%}" in inside[2].why
    far = rule.explain([99.0, 0.0])
    assert far.stranded
    assert all("similar past cases" not in one.why for one in far.actions)


def test_what_is_missing_survives_a_file_and_files_without_it_load() -> None:
    rule = RULE.fit(holed())
    support = rule.support
    assert support is not None
    stored = support.stored()
    models = dict(zip(map(id, stored.parts.values()), support.models, strict=True))
    again = SupportModel.from_stored(stored, lambda part: models[id(part)])
    np.testing.assert_array_equal(again.absent, support.absent)
    older = replace(stored, arrays={name: array for name, array in stored.arrays.items() if name != "absent"})
    without = SupportModel.from_stored(older, lambda part: models[id(part)])
    assert without.absent is None
    told = rule_in_words(replace(rule, support=without))
    assert told == f"It only suggests actions that similar past cases received. {DEFERRED}"


def test_names_of_actions_are_escaped() -> None:
    from poela.behavior.multinomial import MultinomialBehavior
    from poela.learners.consensus import Consensus

    logs = holed(names=("wait", "drug", "<b>\x1b*" + "w" * 99))
    policy = Consensus(sharpness=(2.0,), rule=RULE).fit(logs, behavior=MultinomialBehavior().fit(logs))
    assert "\x1b" not in rule_in_words(policy.eligibility)
    assert "w…" in rule_in_words(policy.eligibility)
    card = model_card(policy, {}, True)
    assert "for 20% of cases action &lt;b&gt;" in card
    assert "<b>" not in card
