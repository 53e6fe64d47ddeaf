"""Rules and distances of one's own: functions and objects in the place of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import poela
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

QUICK: dict[str, Any] = {"folds": 2, "no_audit": True, "backend": "inline"}
Mask = NDArray[np.bool_]


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    propensities = np.full((300, 3), 1 / 3)
    return Trajectories(contexts, actions, (actions == 2) * 1.0, np.arange(301), propensities)


def no_third_below_zero(contexts: Any) -> Mask:
    """The third action only where the first feature is above 0."""
    mask = np.ones((len(contexts), 3), bool)
    mask[:, 2] = np.asarray(contexts)[:, 0] > 0
    return mask


class WhatWasDone:
    """Allows an action that was logged at all; it learns which."""

    def fit(self, train: Trajectories, behavior: Any = None) -> "WhatWasDone":
        self.done = np.bincount(train.actions, minlength=train.n_actions) > 0
        return self

    def mask(self, contexts: Any) -> Mask:
        return np.tile(self.done, (len(contexts), 1))


@pytest.mark.parametrize(
    "learner",
    [
        poela.FittedQ(rule=no_third_below_zero),
        poela.Consensus(rule=no_third_below_zero),
        poela.Rules(rule=no_third_below_zero),
        poela.SPIBB(rule=no_third_below_zero),
        poela.Clone(rule=no_third_below_zero, steps=5),
        poela.BCQ(rule=no_third_below_zero, steps=5),
        poela.POELA(allows=no_third_below_zero, support=None, steps=5, warm_start_steps=5),
        poela.FittedQ(rule=poela.Eligibility(allows=no_third_below_zero, relative_probability=0.5)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_learner_takes_a_function_for_a_rule(learner: poela.Learner, logs: Trajectories) -> None:
    policy = learner.fit(logs)
    below, third = logs.contexts[:, 0] <= 0, policy.along(logs)[:, 2]
    assert (third[below] == 0).all()
    assert (third[~below] > 0).any()
    np.testing.assert_array_equal(policy.probabilities(logs.contexts)[:, 2], third)
    assert (policy.actor(300).probabilities(logs.contexts)[below, 2] == 0).all()


def test_a_rule_that_learns_is_fitted_on_a_copy(logs: Trajectories) -> None:
    rule = WhatWasDone()
    two = logs.take(np.arange(30))
    known = np.tile([0.4, 0.4, 0.2], (30, 1))
    first = Trajectories(two.contexts, np.minimum(two.actions, 1), two.rewards, two.offsets, known)
    fitted = poela.Eligibility(allows=rule).fit(first)
    assert fitted.mask(logs.contexts).all(axis=0).tolist() == [True, True, False]
    assert not hasattr(rule, "done")
    assert poela.FittedQ(rule=rule, temperatures=()).fit(first).along(first)[:, 2].max() == 0


def test_where_a_rule_allows_nothing_the_fallback_acts(logs: Trajectories) -> None:
    def nothing_far(contexts: Any) -> Mask:
        return np.repeat(np.abs(np.asarray(contexts)[:, :1]) < 1, 3, axis=1)

    far = np.abs(logs.contexts[:, 0]) >= 1
    for fallback, row in (("all", [True] * 3), ("behavior", [True] * 3)):
        fitted = poela.Eligibility(allows=nothing_far, fallback=fallback).fit(logs)
        eligible = fitted.along(logs)
        np.testing.assert_array_equal(eligible.stranded, far)
        assert (eligible.mask[far] == row).all()
    decided = poela.FittedQ(rule=nothing_far, temperatures=()).fit(logs).decide({"x0": [0.5, 5.0], "x1": [0.0, 0.0]})
    assert decided["defer"].to_pylist() == [False, True]


def test_a_rule_says_why_and_is_named(logs: Trajectories) -> None:
    fitted = poela.Eligibility(allows=no_third_below_zero).fit(logs)
    why = [action.why for action in fitted.explain([-1.0, 0.0]).actions]
    assert why == ["allowed by no_third_below_zero"] * 2 + ["not allowed by no_third_below_zero"]
    rule = clone(poela.FittedQ(rule=poela.Eligibility(radius=0.1, allows=no_third_below_zero))).rule
    assert isinstance(rule, poela.Eligibility)
    assert (rule.radius, rule.allows) == (0.1, no_third_below_zero)


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_study_under_a_rule_of_ones_own_cannot_be_saved_and_says_so(
    logs: Trajectories, backend: str, tmp_path: Path
) -> None:
    learners = [poela.FittedQ(rule=no_third_below_zero, temperatures=(4.0,)), "consensus"]
    study = poela.learn(logs, learners=learners, **{**QUICK, "backend": backend, "jobs": 1})
    assert {run.status for run in study.runs.values()} == {"done"}
    own = next(point for point in study.points if "no_third" in str(study.origin(point)[0].candidate))
    policy = study.policy_of(own)
    assert policy.along(logs)[logs.contexts[:, 0] <= 0, 2].max() == 0
    assert "rule=no_third_below_zero" in str(study.origin(own)[0].candidate)
    with pytest.raises(InputError, match="made of no_third_below_zero, an object of this Python session"):
        policy.save(tmp_path / "policy")
    assert not (tmp_path / "policy").exists()


@pytest.mark.parametrize("search", ["exact", "sample", "approximate"])
def test_a_metric_of_ones_own_is_a_function_to_features(search: str, logs: Trajectories) -> None:
    def by_angle(contexts: Any) -> NDArray[np.float64]:
        rows = np.asarray(contexts, np.float64)
        angle = np.arctan2(rows[:, 0], rows[:, 1])
        return np.column_stack([np.cos(angle), np.sin(angle), 0 * angle])

    fitted = poela.Eligibility(radius="q50", scale=by_angle, search=search).fit(logs)
    rows = np.array([[1.0, 2.0], [-3.0, 0.5]])
    apart = np.square(by_angle(rows)[:, None] - by_angle(logs.contexts)[None]).mean(axis=2)  # every pair
    nearest = [[apart[row, logs.actions == action].min() for action in range(3)] for row in range(2)]
    np.testing.assert_allclose(fitted.distances(rows), nearest, atol=1e-6)
    np.testing.assert_allclose(fitted.distances(100 * rows), nearest, atol=1e-6)  # angles alone count
    policy = poela.POELA(radius=0.1, scale=by_angle, search=search, steps=5, warm_start_steps=5).fit(logs)
    with pytest.raises(InputError, match="made of by_angle"):
        policy.save("nowhere")
    explained = fitted.explain([1.0, 2.0])
    assert explained.actions[0].cases


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda contexts: np.ones(len(contexts), bool), r"shape \(300,\) and type bool for 300 contexts and 3 actions"),
        (lambda contexts: np.ones((len(contexts), 3)), "type float64"),
    ],
)
def test_what_a_rule_answers_is_checked(wrong: Any, sentence: str, logs: Trajectories) -> None:
    with pytest.raises(InputError, match=sentence):
        poela.FittedQ(rule=wrong).fit(logs)


def test_what_is_no_rule_is_refused(logs: Trajectories) -> None:
    for wrong in (3, "near"):
        with pytest.raises(InputError, match="give a function from contexts"):
            poela.FittedQ(rule=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="it is a class: give an object, WhatWasDone"):
        poela.FittedQ(rule=WhatWasDone)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must return finite numbers"):
        poela.Eligibility(radius=1.0, scale=lambda contexts: np.zeros(3)).fit(logs)
    with pytest.raises(InputError, match="where scale is a function, let it weigh them"):
        poela.Eligibility(radius=1.0, scale=no_third_below_zero, weights=(1.0, 1.0)).fit(logs)
