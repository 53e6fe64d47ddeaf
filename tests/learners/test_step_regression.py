"""Backward induction against exact values of finite problems and closed-form ridge regression."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.learners.step_regression import PENALTIES, Regressor, fit_backward, ridge
from poela.policies.step_values import FARTHEST, MOST_FEATURES_IN_PAIRS, quadratic_features
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
    return run(PROBLEM, BEHAVIOR, episodes=4000, seed=0)


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_fitted_q_evaluation_finds_the_exact_q(logs: Trajectories, regressor: Regressor) -> None:
    exact = PROBLEM.q_values(TARGET.table)
    fitted = fit_backward(logs, policy=TARGET, regressor=regressor)
    for step in range(PROBLEM.horizon):
        found = fitted.q_at(PROBLEM.observations, np.full(2, step))
        np.testing.assert_allclose(found, exact[step], atol=0.1)


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_fitted_q_iteration_finds_the_best_q(logs: Trajectories, regressor: Regressor) -> None:
    value, best = PROBLEM.optimal()
    exact = PROBLEM.q_values(best)
    fitted = fit_backward(logs, target="max", regressor=regressor)
    found = fitted.q_at(PROBLEM.observations, np.zeros(2, np.int64))
    np.testing.assert_allclose(found, exact[0], atol=0.1)
    assert float(PROBLEM.initial @ found.max(axis=1)) == pytest.approx(value, abs=0.1)


def test_the_mask_bars_actions_from_the_maximum(logs: Trajectories) -> None:
    only_first = np.zeros((logs.n_steps, 2), np.bool_)
    only_first[:, 0] = True
    barred = fit_backward(logs, target="max", mask=only_first)
    always_first = fit_backward(logs, policy=TablePolicy(PROBLEM, [[1.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_allclose(barred.q(logs), always_first.q(logs), atol=1e-12)


def test_discounting(logs: Trajectories) -> None:
    myopic = fit_backward(logs, policy=TARGET, discount=1e-9)
    np.testing.assert_allclose(myopic.q_at(PROBLEM.observations, np.zeros(2, np.int64)), PROBLEM.rewards, atol=1e-2)


def test_steps_beyond_the_horizon_use_the_last_regression(logs: Trajectories) -> None:
    fitted = fit_backward(logs, policy=TARGET)
    late = fitted.q_at(PROBLEM.observations, np.array([99, 99]))
    np.testing.assert_array_equal(late, fitted.q_at(PROBLEM.observations, np.array([2, 2])))


def test_a_step_that_few_reach_borrows_rows() -> None:
    # One episode goes on for five steps; its own reward of 100 must not be all that step 1 knows.
    rng = np.random.default_rng(0)
    lengths = np.r_[np.full(200, 2), 5]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rewards = np.where(np.arange(offsets[-1]) >= 400, 100.0, 1.0)
    logs = Trajectories(rng.normal(size=(405, 1)), rng.integers(2, size=405), rewards, offsets)
    fitted = fit_backward(logs, target="max")
    assert len(fitted.models) == 5
    assert abs(fitted.q_at(np.zeros((1, 1), np.float32), np.array([1])).mean() - 1) < 5


def test_an_action_never_seen_is_average() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 1))
    logs = Trajectories(contexts, np.zeros(300, int), 2 * contexts[:, 0], np.arange(301), n_actions=2)
    q = fit_backward(logs, target="max").q(logs)
    np.testing.assert_allclose(q[:, 1], 2 * logs.contexts[:, 0], atol=0.01)


def test_the_values_do_not_depend_on_the_order_of_episodes(logs: Trajectories) -> None:
    few = logs.take(np.arange(200))
    shuffled = few.take(np.random.default_rng(1).permutation(200))
    here = PROBLEM.observations, np.zeros(2, np.int64)
    one, other = fit_backward(few, policy=TARGET).q_at(*here), fit_backward(shuffled, policy=TARGET).q_at(*here)
    np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize(("rows", "width"), [(40, 6), (6, 15)])
def test_ridge_is_scikit_learns_with_the_best_penalty_left_out(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    features, noise = rng.normal(size=(rows, width)), rng.normal(size=rows)
    targets = features @ rng.normal(size=width) + noise
    candidates = [Ridge(alpha=penalty, fit_intercept=False) for penalty in PENALTIES]
    errors = [
        np.square(targets - cross_val_predict(model, features, targets, cv=LeaveOneOut())).sum() for model in candidates
    ]
    best = candidates[int(np.argmin(errors))].fit(features, targets)
    np.testing.assert_allclose(ridge(features, targets), best.coef_, atol=1e-8)


def test_quadratic_features_stay_near_and_narrow() -> None:
    wide = np.full((1, MOST_FEATURES_IN_PAIRS + 1), 1e9, np.float32)
    features = quadratic_features(wide, np.zeros(wide.shape[1]), np.ones(wide.shape[1]))
    assert features.shape == (1, 1 + 2 * wide.shape[1])
    assert features.max() == FARTHEST**2


def test_a_constant_feature_is_harmless() -> None:
    contexts = np.column_stack([np.full(100, 7.0), np.linspace(-1, 1, 100)])
    logs = Trajectories(contexts, np.arange(100) % 2, contexts[:, 1], np.arange(101))
    elsewhere = np.array([[8.0, 0.0]], np.float32)
    q = fit_backward(logs, target="max").q_at(elsewhere, np.array([0]))
    np.testing.assert_allclose(q, 0, atol=0.01)


def test_bad_settings_are_named(logs: Trajectories) -> None:
    with pytest.raises(InputError, match="'policy' with the policy"):
        fit_backward(logs)
    with pytest.raises(InputError, match="regressor 'forest' is unknown"):
        fit_backward(logs, target="max", regressor="forest")  # type: ignore[arg-type]
