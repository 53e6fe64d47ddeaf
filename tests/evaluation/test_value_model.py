"""The value model against exact values, brute force, and what it must not see."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from tests.problems import BEHAVIOR, PROBLEM, TARGET

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.folds import fold_numbers
from poela.data.history import with_history
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.value_model import ValueModel
from poela.regression import backward_induction, ridge, step_regression
from poela.regression.backward_induction import BackwardInduction
from poela.regression.ridge import PENALTIES
from poela.regression.step_features import quadratic_features
from poela.simulators.episodes import run


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(PROBLEM, BEHAVIOR, episodes=2000, seed=0)


def values(logs: Trajectories, rows: FloatArray, **settings: Any) -> tuple[FloatArray, FloatArray]:
    (found,) = ValueModel(logs, **settings).values(rows[None])
    return found.taken, found.expected


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_values_are_the_exact_ones(logs: Trajectories, discount: float) -> None:
    exact = np.zeros((3, 2, 2))
    following = np.zeros(2)
    for step in (2, 1, 0):
        exact[step] = PROBLEM.rewards + discount * PROBLEM.transitions @ following
        following = (TARGET.table * exact[step]).sum(axis=1)
    q = exact[logs.step_numbers, logs.contexts.argmax(axis=1)]
    taken, expected = values(logs, TARGET.along(logs), discount=discount)
    assert np.abs(taken - q[np.arange(logs.n_steps), logs.actions]).mean() < 0.05
    assert np.abs(expected - (TARGET.along(logs) * q).sum(axis=1)).mean() < 0.05


@pytest.mark.parametrize("estimator", ["dr", "wdr", "magic", "fqe"])
def test_cross_fitted_estimates_find_the_exact_value(logs: Trajectories, estimator: str) -> None:
    estimate = evaluate(TARGET, logs, estimator=estimator, interval=None)
    assert estimate.value == pytest.approx(PROBLEM.value(TARGET), abs=0.1)


def test_policies_valued_together_are_valued_as_alone(logs: Trajectories) -> None:
    few = logs.take(np.arange(100))
    rows = np.stack([TARGET.along(few), BEHAVIOR.along(few), np.tile([1.0, 0.0], (few.n_steps, 1))])
    model = ValueModel(few)
    for policy, found in zip(rows, model.values(rows), strict=True):
        taken, expected = values(few, policy)
        np.testing.assert_allclose(found.taken, taken, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.expected, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.squared_weights(rows)[1:2], ValueModel(few).squared_weights(rows[1:2]))


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
@pytest.mark.parametrize("size", [1, 3])
def test_an_episode_sees_neither_its_own_rewards_nor_those_of_its_cluster(
    logs: Trajectories, regressor: Any, size: int
) -> None:
    # A change this large would move the bounds of values, too.
    few = logs.take(np.arange(60))
    if size > 1:
        few = replace(few, clusters=np.arange(60) // size)
    own = slice(0, int(few.offsets[size]))
    changed = np.array(few.rewards)
    changed[own] += 100
    rows = TARGET.along(few)
    before = values(few, rows, regressor=regressor, folds=3)
    after = values(replace(few, rewards=changed), rows, regressor=regressor, folds=3)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[own], other[own])
        assert not np.allclose(one, other)


def test_nor_does_it_see_what_the_policy_would_do_there(logs: Trajectories) -> None:
    few = logs.take(np.arange(60))
    rows, changed = TARGET.along(few), TARGET.along(few)
    changed[: few.offsets[1]] = [1.0, 0.0]
    before, after = values(few, rows)[0], values(few, changed)[0]
    np.testing.assert_array_equal(before[: few.offsets[1]], after[: few.offsets[1]])
    assert not np.allclose(before, after)


def test_values_stay_within_what_other_episodes_have_shown_from_that_step_on() -> None:
    """Each action 1 pays, but no logged episode took it twice: what always taking it would bring was never seen."""
    rng = np.random.default_rng(1)
    actions = np.eye(4, 3, dtype=int)[np.arange(80) % 4]
    rewards = actions * [1.0, 2.0, 4.0] + [5.0, 3.0, -5.0] + 0.1 * rng.normal(size=(80, 3))
    logs = Trajectories(rng.normal(size=(240, 1)), actions.ravel(), rewards.ravel(), np.arange(0, 241, 3))
    to_go = rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
    taken = values(logs, np.tile([0.0, 1.0], (240, 1)), history=0)[0].reshape(80, 3)
    folds = fold_numbers(logs, folds=5, seed=0)
    for fold in range(5):
        lowest, highest = to_go[folds != fold].min(axis=0), to_go[folds != fold].max(axis=0)
        assert (taken[folds == fold] >= lowest).all()
        assert (taken[folds == fold] <= highest).all()
        for step in (0, 1):  # free of bounds these would be 10 and 4, and 8 at the first step if only it were held
            found = taken[(folds == fold) & (actions[:, step] == 1), step]
            np.testing.assert_array_equal(found, highest[step])
    assert len({to_go[folds != fold, 0].max() for fold in range(5)}) > 1


def test_penalties_are_those_of_the_logging_policy_on_the_other_episodes() -> None:
    rng = np.random.default_rng(4)
    contexts, actions = rng.normal(size=(240, 2)), rng.integers(2, size=240)
    chances = rng.dirichlet([0.1, 0.1], size=240)
    chances = np.where(chances < 1e-3, 1e-3, chances) / np.maximum(chances, 1e-3).sum(axis=1, keepdims=True)
    rewards = actions * contexts[:, 0] + rng.normal(size=240)
    logs = Trajectories(contexts, actions, rewards, np.arange(0, 241, 2), chances)
    folds = fold_numbers(logs, folds=5, seed=0)
    for fold, found in enumerate(ValueModel(logs, history=0)._folds):
        others = logs.take(np.flatnonzero(folds != fold))
        assert others.propensities is not None
        alone = BackwardInduction(others, held=True)
        alone.fix_penalties(backward_induction.expected(others.propensities.T[:, :, None]))
        assert found.induction._chosen == alone._chosen


def test_long_held_out_episodes_are_valued_by_the_last_regression() -> None:
    rng = np.random.default_rng(0)
    lengths = np.r_[np.full(19, 2), 6]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    logs = Trajectories(rng.normal(size=(44, 1)), rng.integers(2, size=44), np.ones(44), offsets)
    taken, expected = values(logs, np.full((44, 2), 0.5), history=0)
    np.testing.assert_allclose(taken[38:], [2, 1, 1, 1, 1, 1])  # it alone goes on: others have shown 2, then 1
    assert np.isfinite(expected).all()


def test_episodes_beside_help_to_fit_and_are_not_valued(logs: Trajectories) -> None:
    beside, few = logs.take(np.arange(1000)), logs.take(np.arange(1000, 1040))
    exact = PROBLEM.q_values(TARGET.table)[few.step_numbers, few.contexts.argmax(axis=1)]
    both = np.concatenate([TARGET.along(beside), TARGET.along(few)])
    helped, _ = values(few, both, beside=beside)
    alone, _ = values(few, TARGET.along(few))
    assert helped.shape == (few.n_steps,)
    true = exact[np.arange(few.n_steps), few.actions]
    assert np.abs(helped - true).mean() < 0.5 * np.abs(alone - true).mean()
    # With one fold these episodes are fitted on nothing of their own: so one of them alone is valued alike.
    first = few.take([0])
    one = values(first, both[: beside.n_steps + first.n_steps], beside=beside, folds=1)[0]
    all_of_them = values(few, both, beside=beside, folds=1)[0]
    np.testing.assert_allclose(one, all_of_them[: first.n_steps], rtol=1e-9)


def test_joined_logs_keep_propensities_where_both_have_them(logs: Trajectories) -> None:
    few, other = logs.take(np.arange(3)), logs.take(np.arange(3, 5))
    assert joined(few, other).propensities is not None
    np.testing.assert_array_equal(joined(few, other).contexts, logs.take(np.arange(5)).contexts)
    np.testing.assert_array_equal(joined(few, other).offsets, logs.take(np.arange(5)).offsets)
    assert joined(few, other.with_propensities(None)).propensities is None


def test_history_is_added_to_narrow_contexts_and_never_twice(logs: Trajectories) -> None:
    few = logs.take(np.arange(60))
    rows = TARGET.along(few)
    once = values(few, rows)
    np.testing.assert_array_equal(once, values(few, rows, history=1))
    np.testing.assert_array_equal(once, values(with_history(few, steps=1, initial=True), rows))
    assert not np.allclose(once, values(few, rows, history=0))
    wide = Trajectories(np.hstack([few.contexts] * 5), few.actions, few.rewards, few.offsets)
    np.testing.assert_array_equal(values(wide, rows), values(wide, rows, history=0))


def test_squared_weights_are_those_of_the_fitted_value(logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fitted value is linear in rewards, so its derivative by each reward is that reward's weight."""
    monkeypatch.setattr(backward_induction, "FEWEST_ROWS", 1)  # no rows of later steps
    beside, asked = logs.take(np.arange(40)), logs.take(np.arange(40, 52))
    both = joined(beside, asked)
    policies = np.stack([TARGET.along(both), BEHAVIOR.along(both)])
    fixed = ValueModel(asked, beside=beside, folds=1)
    chosen = fixed._folds[0].induction._chosen
    # Neither bounds nor the choice of penalties are linear.
    monkeypatch.setattr(BackwardInduction, "_bounds", lambda self, pool: None)
    monkeypatch.setattr(BackwardInduction, "fix_penalties", lambda self, following: setattr(self, "_chosen", chosen))

    def value(rewards: FloatArray) -> FloatArray:
        model = ValueModel(asked, beside=replace(beside, rewards=rewards), folds=1)
        return np.array([found.expected[asked.offsets[:-1]].mean() for found in model.values(policies)])

    at_first = value(beside.rewards)
    weights = np.array([value(beside.rewards + step) - at_first for step in np.eye(beside.n_steps)])
    by_step = [np.square(weights[beside.step_numbers == step]).sum(axis=0) for step in range(3)]
    np.testing.assert_allclose(fixed.squared_weights(policies), np.transpose(by_step), rtol=1e-6)


def test_squared_weights_are_near_one_over_n_on_the_logs_own_path_and_larger_off_it(logs: Trajectories) -> None:
    few = logs.take(np.arange(500))
    model = ValueModel(few)
    own, other = model.squared_weights(np.stack([BEHAVIOR.along(few), np.tile([0.0, 1.0], (few.n_steps, 1))]))
    assert own[0] == pytest.approx(1 / 400, rel=0.1)  # four of five folds
    assert (other > 1.3 * own).all()


def test_boosted_trees_serve_too_but_have_no_weights(logs: Trajectories) -> None:
    few = logs.take(np.arange(200))
    estimate = evaluate(TARGET, few, estimator="wdr", q="boosted", folds=2, interval=None)
    assert estimate.value == pytest.approx(PROBLEM.value(TARGET), abs=0.3)
    with pytest.raises(InputError, match="boosted values are no weighted sums"):
        ValueModel(few.take(np.arange(20)), regressor="boosted").squared_weights(TARGET.along(few)[None])


@pytest.mark.parametrize("folds", [1, 61])
def test_folds_must_fit_the_episodes(logs: Trajectories, folds: int) -> None:
    few = logs.take(np.arange(60))
    with pytest.raises(InputError, match=f"{folds} folds of 60 episodes cannot be made"):
        ValueModel(few, folds=folds)


def plain_values(model: ValueModel, chances: FloatArray) -> FloatArray:
    """Expected values [N] of one policy: a scikit-learn regression for each fold, step and action."""
    logs, contexts, found = model._logs, model._contexts, np.empty(model._logs.n_steps)
    for fold in model._folds:
        following, induction = np.zeros(logs.n_steps + 1), fold.induction
        for step in reversed(range(induction.horizon)):
            rows, chosen = induction.pool(step), induction._chosen[step]
            going_on = np.where(np.isin(rows + 1, logs.offsets), 0.0, following[rows + 1])
            targets = logs.rewards[rows] + going_on
            here = contexts[rows].astype(np.float64)
            scale = np.where(here.std(axis=0) > 1e-6, here.std(axis=0), np.inf)
            features = quadratic_features(contexts[rows], here.mean(axis=0), scale)

            def fitted(x: FloatArray, y: FloatArray, penalty: IntArray) -> FloatArray:
                regression = Ridge(alpha=PENALTIES[penalty[0]], fit_intercept=False, solver="svd")
                return np.asarray(regression.fit(x, y).coef_)

            shared = fitted(features, targets - targets.mean(), chosen[-1])
            left = targets - targets.mean() - features @ shared
            coefficients = np.tile(shared, (logs.n_actions, 1))
            for action in np.unique(logs.actions[rows]):
                own = logs.actions[rows] == action
                enough = own.sum() >= 1.5 * (np.ptp(features, axis=0) > 0).sum()
                width = features.shape[1] if enough else 1 + contexts.shape[1]
                coefficients[action, :width] += fitted(features[own, :width], left[own], chosen[int(action)])
            coefficients[:, 0] += targets.mean()
            for asked, values in ((rows, following), (fold.valued.get(step, rows[:0]), found)):
                seen = quadratic_features(contexts[asked], here.mean(axis=0), scale)
                q = np.clip(seen @ coefficients.T, *induction._bounds(rows))  # type: ignore[misc]
                values[asked] = (chances[asked] * q).sum(axis=1)
    return found


@pytest.mark.parametrize("by_blocks", [False, True])
def test_many_policies_at_once_are_regressions_one_by_one(by_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_blocks:
        monkeypatch.setattr(ridge, "AT_ONCE", 1)
        monkeypatch.setattr(step_regression, "MOST_AT_HAND", 0)
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, size=250))])
    n = int(offsets[-1])
    actions = np.where(rng.random(n) < 0.02, 2, rng.integers(2, size=n))  # one is rare
    logs = Trajectories(rng.normal(size=(n, 2)), actions, rng.normal(size=n) + actions, offsets)
    policies = rng.dirichlet([1.0, 1.0, 1.0], size=(3, n))
    model = ValueModel(logs)
    for chances, found in zip(policies, model.values(list(policies)), strict=True):
        np.testing.assert_allclose(found.expected, plain_values(model, chances), rtol=1e-9, atol=1e-10)
