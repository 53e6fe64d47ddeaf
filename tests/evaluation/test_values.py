"""Values of Q models: cross-fitting never looks at an episode's own rewards, and finds the exact value."""

from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.history import with_history
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.values import cross_fitted_values, given_values
from poela.simulators.episodes import run
from poela.simulators.tabular import TablePolicy, TabularMDP

PROBLEM = TabularMDP(
    transitions=[[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.4]]],
    rewards=[[1.0, -0.5], [0.3, 2.0]],
    initial=[0.6, 0.4],
    horizon=3,
)
BEHAVIOR = TablePolicy(PROBLEM, [[0.4, 0.6], [0.6, 0.4]])
TARGET = TablePolicy(PROBLEM, [[0.9, 0.1], [0.25, 0.75]])


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(PROBLEM, BEHAVIOR, episodes=2000, seed=0)


class ExactQ:
    def q(self, trajectories: Trajectories) -> Any:
        return PROBLEM.q_values(TARGET.table)[trajectories.step_numbers, trajectories.contexts.argmax(axis=1)]


@pytest.mark.parametrize("estimator", ["dr", "wdr", "magic", "fqe"])
def test_cross_fitted_estimates_find_the_exact_value(logs: Trajectories, estimator: str) -> None:
    estimate = evaluate(TARGET, logs, estimator=estimator, interval=None)
    assert estimate.value == pytest.approx(PROBLEM.value(TARGET), abs=0.1)


def test_a_given_model_is_used_as_it_is(logs: Trajectories) -> None:
    starts = np.bincount(logs.initial_contexts.argmax(axis=1), minlength=2) / logs.n_episodes
    exact = float(starts @ (TARGET.table * PROBLEM.q_values(TARGET.table)[0]).sum(axis=1))
    assert evaluate(TARGET, logs, estimator="direct", q=ExactQ(), interval=None).value == pytest.approx(
        exact, abs=1e-12
    )


def test_the_exact_model_leaves_weighted_doubly_robust_a_smaller_error(logs: Trajectories) -> None:
    plain = evaluate(TARGET, logs, estimator="cwpdis", interval=None)
    helped = evaluate(TARGET, logs, estimator="wdr", q=ExactQ(), interval=None)
    assert helped.standard_error < plain.standard_error


def test_an_episode_never_sees_its_own_rewards(logs: Trajectories) -> None:
    few = logs.take(np.arange(60))
    rows = TARGET.along(few)
    changed = np.array(few.rewards)
    changed[: few.lengths[0]] += 100
    other = Trajectories(few.contexts, few.actions, changed, few.offsets)
    own = slice(0, int(few.lengths[0]))
    before, after = cross_fitted_values(rows, few), cross_fitted_values(rows, other)
    np.testing.assert_array_equal(before.expected[own], after.expected[own])
    assert not np.allclose(before.expected, after.expected)


def test_nor_the_rewards_of_its_cluster(logs: Trajectories) -> None:
    few = logs.take(np.arange(60))
    rows, clusters = TARGET.along(few), np.arange(60) // 3
    changed = np.array(few.rewards)
    changed[: few.offsets[3]] += 100
    other = Trajectories(few.contexts, few.actions, changed, few.offsets)
    own = slice(0, int(few.offsets[3]))
    before = cross_fitted_values(rows, few, clusters=clusters)
    after = cross_fitted_values(rows, other, clusters=clusters)
    np.testing.assert_array_equal(before.taken[own], after.taken[own])


def test_history_is_not_added_twice(logs: Trajectories) -> None:
    few = logs.take(np.arange(60))
    rows = TARGET.along(few)
    once = cross_fitted_values(rows, few, history=1)
    already = cross_fitted_values(rows, with_history(few, steps=1, initial=True), history=1)
    np.testing.assert_array_equal(once.expected, already.expected)


def test_boosted_trees_serve_too(logs: Trajectories) -> None:
    estimate = evaluate(TARGET, logs.take(np.arange(200)), estimator="wdr", q="boosted", folds=2, interval=None)
    assert estimate.value == pytest.approx(PROBLEM.value(TARGET), abs=0.3)


@pytest.mark.parametrize("folds", [1, 61])
def test_folds_must_fit_the_episodes(logs: Trajectories, folds: int) -> None:
    few = logs.take(np.arange(60))
    with pytest.raises(InputError, match=f"folds is {folds}"):
        cross_fitted_values(TARGET.along(few), few, folds=folds)


class Fixed:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def q(self, trajectories: Trajectories) -> Any:
        return self.rows


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (object(), "object is no Q model"),
        (Fixed(np.zeros((2, 3))), r"shape \(2, 3\) where the logs need \(2, 2\)"),
        (Fixed(np.array([[0.0, 0.0], [np.nan, 0.0]])), "1 rows of the Q model are NaN or infinite, first at step 1"),
    ],
)
def test_bad_models_are_refused(model: Any, message: str) -> None:
    logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    with pytest.raises(InputError, match=message):
        given_values(model, np.full((2, 2), 0.5), logs)
