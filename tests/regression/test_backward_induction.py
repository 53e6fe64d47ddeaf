"""Backward induction against exact values of finite problems."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from tests.problems import BEHAVIOR, PROBLEM, TARGET

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.regression.backward_induction import BackwardInduction, Following, best, expected, soft
from poela.regression.ridge import PENALTIES
from poela.regression.step_features import quadratic_features
from poela.regression.step_regression import Regressor
from poela.regression.step_values import StepQ
from poela.simulators.episodes import run
from poela.simulators.tabular import TablePolicy


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(PROBLEM, BEHAVIOR, episodes=4000, seed=0)


def columns(*policies: FloatArray) -> FloatArray:
    """[A, N, P]."""
    return np.stack(policies, axis=-1).transpose(1, 0, 2)


def of(logs: Trajectories, *policies: TablePolicy) -> Following:
    return expected(columns(*(policy.along(logs) for policy in policies)))


def fitted(logs: Trajectories, following: Following, **settings: object) -> StepQ:
    ((values, _),) = BackwardInduction(logs, **settings).values(following)  # type: ignore[arg-type]
    return values


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_fitted_q_evaluation_finds_the_exact_q_of_every_policy(logs: Trajectories, regressor: Regressor) -> None:
    found = BackwardInduction(logs, regressor=regressor).values(of(logs, TARGET, BEHAVIOR), columns=2)
    for policy, (values, q) in zip((TARGET, BEHAVIOR), found, strict=True):
        exact = PROBLEM.q_values(policy.table)
        for step in range(PROBLEM.horizon):
            np.testing.assert_allclose(values.q_at(PROBLEM.observations, np.full(2, step)), exact[step], atol=0.1)
        np.testing.assert_allclose(q, values.q(logs), atol=1e-12)


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_fitted_q_iteration_finds_the_best_q(logs: Trajectories, regressor: Regressor) -> None:
    value, policy = PROBLEM.optimal()
    found = fitted(logs, best(), regressor=regressor).q_at(PROBLEM.observations, np.zeros(2, np.int64))
    np.testing.assert_allclose(found, PROBLEM.q_values(policy)[0], atol=0.1)
    assert float(PROBLEM.initial @ found.max(axis=1)) == pytest.approx(value, abs=0.1)


def test_the_mask_bars_actions_from_the_maximum(logs: Trajectories) -> None:
    only_first = np.zeros((logs.n_steps, 2), np.bool_)
    only_first[:, 0] = True
    always_first = fitted(logs, of(logs, TablePolicy(PROBLEM, [[1.0, 0.0], [1.0, 0.0]])))
    np.testing.assert_allclose(fitted(logs, best(only_first)).q(logs), always_first.q(logs), atol=1e-12)


def test_soft_values_tend_to_the_best_and_to_the_policy_itself(logs: Trajectories) -> None:
    few = logs.take(np.arange(500))
    (cold, _), (warm, _) = BackwardInduction(few).values(soft(BEHAVIOR.along(few), [1e-6, 1e6]), columns=2)
    np.testing.assert_allclose(cold.q(few), fitted(few, best()).q(few), atol=1e-4)
    np.testing.assert_allclose(warm.q(few), fitted(few, of(few, BEHAVIOR)).q(few), atol=1e-4)


@pytest.mark.parametrize("fixed", [False, True])
def test_columns_do_not_mix_and_passes_leave_no_trace(logs: Trajectories, fixed: bool) -> None:
    few = logs.take(np.arange(80))
    temperatures = [0.3, 1.0, 3.0]
    together, unkept = BackwardInduction(few), BackwardInduction(few, keep=0)
    for induction in (together, unkept):
        if fixed:
            induction.fix_penalties(of(few, BEHAVIOR))
        induction.values(best())
    found = together.values(soft(BEHAVIOR.along(few), temperatures), columns=3)
    assert together._prepared
    assert not unkept._prepared
    for temperature, (values, _) in zip(temperatures, found, strict=True):
        ((alone, _),) = unkept.values(soft(BEHAVIOR.along(few), [temperature]))
        np.testing.assert_allclose(values.q(few), alone.q(few), rtol=1e-9, atol=1e-12)


def test_discounting(logs: Trajectories) -> None:
    myopic = fitted(logs, of(logs, TARGET), discount=1e-9)
    np.testing.assert_allclose(myopic.q_at(PROBLEM.observations, np.zeros(2, np.int64)), PROBLEM.rewards, atol=1e-2)


def test_steps_beyond_the_horizon_use_the_last_regression(logs: Trajectories) -> None:
    values = fitted(logs, of(logs, TARGET))
    late = values.q_at(PROBLEM.observations, np.array([99, 99]))
    np.testing.assert_array_equal(late, values.q_at(PROBLEM.observations, np.array([2, 2])))


def long_tail() -> Trajectories:
    """One of 201 episodes goes on for five steps, with rewards of 100."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(np.r_[np.full(200, 2), 5])])
    rewards = np.where(np.arange(offsets[-1]) >= 400, 100.0, 1.0)
    return Trajectories(rng.normal(size=(405, 1)), rng.integers(2, size=405), rewards, offsets)


def test_a_step_that_few_reach_borrows_rows_of_whole_later_steps() -> None:
    logs = long_tail()
    induction = BackwardInduction(logs)
    assert set(induction.pool(2).tolist()) == {402, 403, 404}
    assert len(induction.pool(1)) == 201
    values = fitted(logs, best())
    assert len(values.models) == 5
    assert abs(values.q_at(np.zeros((1, 1), np.float32), np.array([1])).mean() - 1) < 5


def test_an_action_never_seen_is_average() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 1))
    logs = Trajectories(contexts, np.zeros(300, int), 2 * contexts[:, 0], np.arange(301), n_actions=2)
    q = fitted(logs, best()).q(logs)
    np.testing.assert_allclose(q[:, 1], 2 * logs.contexts[:, 0], atol=0.01)


def test_the_values_do_not_depend_on_the_order_of_episodes(logs: Trajectories) -> None:
    few = logs.take(np.arange(200))
    shuffled = few.take(np.random.default_rng(1).permutation(200))
    here = PROBLEM.observations, np.zeros(2, np.int64)
    one, other = (fitted(some, of(some, TARGET)).q_at(*here) for some in (few, shuffled))
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_constant_feature_is_harmless() -> None:
    contexts = np.column_stack([np.full(100, 7.0), np.linspace(-1, 1, 100)])
    logs = Trajectories(contexts, np.arange(100) % 2, contexts[:, 1], np.arange(101))
    q = fitted(logs, best()).q_at(np.array([[8.0, 0.0]], np.float32), np.array([0]))
    np.testing.assert_allclose(q, 0, atol=0.01)


def test_held_values_stay_within_the_returns_to_go_of_their_own_step() -> None:
    # Far outside the log a line goes on rising; at step 0 returns lie in [0, 2], at step 1 in [-4, -2].
    position = np.linspace(-1, 1, 120)
    contexts = np.column_stack([position, position]).reshape(-1, 1)
    rewards = np.column_stack([4.0 + 0 * position, position - 3.0]).ravel()
    logs = Trajectories(contexts, np.arange(240) // 2 % 2, rewards, np.arange(0, 241, 2))
    far = np.array([[-4.0], [4.0]], np.float32)
    free, held = (
        {
            step.step: q[0, :, 0]
            for step in BackwardInduction(logs, held=hold).backward(best())
            for _, q in step.q(step.regression.features(far))
        }
        for hold in (False, True)
    )
    np.testing.assert_allclose(held[0], [0.0, 2.0])
    np.testing.assert_allclose(held[1], [-4.0, -2.0])
    assert free[0][0] < -1 < 3 < free[0][1]
    assert free[1][0] < -5 < -1 < free[1][1]


def test_what_follows_is_held_before_it_is_passed_on() -> None:
    # At step 1 action 1 pays 100 times what is seen, but is logged only where that is near 0.
    seen = np.tile([-1.0, 1.0, 0.0, 0.0, 0.05, -0.05], 40)
    acts = np.tile([0, 0, 1, 1, 1, 1], 40)
    rewards = np.where(acts == 1, 100 * seen, 0.0)
    contexts = np.column_stack([seen, seen]).reshape(-1, 1)
    actions = np.column_stack([np.arange(240) % 2, acts]).ravel()
    logs = Trajectories(contexts, actions, np.column_stack([0 * rewards, rewards]).ravel(), np.arange(0, 481, 2))
    always, passed_on = expected(columns(np.tile([0.0, 1.0], (480, 1)))), []

    def noted(rows: IntArray, q: FloatArray) -> FloatArray:
        passed_on.append(float(np.abs(q).max()))
        return always(rows, q)

    largest = float(np.abs(rewards).max())
    for hold in (False, True):
        list(BackwardInduction(logs, held=hold).backward(noted))
    free_last, free_first, held_last, held_first = passed_on
    assert min(free_last, free_first) > 3 * largest
    assert held_last == held_first == pytest.approx(largest)


def test_bounds_follow_the_discount_and_the_borrowed_rows() -> None:
    logs = long_tail()
    passed = BackwardInduction(logs, held=True, discount=0.5).backward(best())
    expected_bounds = {0: (1.5, 193.75), 1: (1.0, 187.5), 2: (100.0, 175.0), 3: (100.0, 150.0), 4: (100.0, 100.0)}
    assert {step.step: step.bounds for step in passed} == expected_bounds


def test_an_unknown_regressor_is_named(logs: Trajectories) -> None:
    with pytest.raises(InputError, match="regressor 'forest' is unknown"):
        BackwardInduction(logs, regressor="forest")  # type: ignore[arg-type]


def test_temperatures_that_share_decompositions_are_regressions_one_by_one() -> None:
    """The plain form: for each temperature, step and action a regression of scikit-learn's own, in double precision."""
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(600, 2)).astype(np.float32), rng.integers(2, size=600)
    rewards = contexts[:, 0] * (2 * actions - 1) + contexts[:, 1] ** 2 + rng.normal(size=600)
    logs = Trajectories(contexts, actions, rewards, np.arange(0, 601, 3))
    chances, temperatures = rng.dirichlet([3.0, 3.0], size=600), (0.2, 1.0, 5.0)
    together = BackwardInduction(logs).values(soft(chances, temperatures), columns=3)
    for temperature, (_, found) in zip(temperatures, together, strict=True):
        plain, following = np.empty((600, 2)), np.zeros(200)
        for step in (2, 1, 0):
            rows = np.arange(step, 600, 3)
            here = contexts[rows].astype(np.float64)
            features = quadratic_features(contexts[rows], here.mean(axis=0), here.std(axis=0))
            targets = rewards[rows] + following
            shared = one_ridge(features, targets - targets.mean())
            left = targets - targets.mean() - features @ shared
            for action in (0, 1):
                own = actions[rows] == action
                coefficients = shared + one_ridge(features[own], left[own])
                plain[rows, action] = features @ coefficients + targets.mean()
            tilted = chances[rows] * np.exp(plain[rows] / temperature)
            following = temperature * np.log(tilted.sum(axis=1))
        np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-10)


def one_ridge(features: FloatArray, targets: FloatArray) -> FloatArray:
    return np.asarray(RidgeCV(alphas=PENALTIES, fit_intercept=False).fit(features, targets).coef_)
