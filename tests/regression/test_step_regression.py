"""Prepared ridge regressions against scikit-learn, brute force and plain linear algebra."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.regression import ridge, step_regression
from poela.regression.ridge import PENALTIES, Features, Ridge
from poela.regression.step_boosted import StepBoosted, fit_boosted
from poela.regression.step_features import FARTHEST, MOST_FEATURES_IN_PAIRS, quadratic_features
from poela.regression.step_regression import ALL_ACTIONS, StepRidge

SHAPES = [(40, 6), (6, 15), (12, 12)]


def problem(rows: int, width: int, targets: int = 5) -> tuple[FloatArray, FloatArray]:
    """Features, and targets from pure noise to no noise, so that they need different penalties."""
    rng = np.random.default_rng(rows)
    features = rng.normal(size=(rows, width))
    noise = rng.normal(size=(rows, targets)) * np.logspace(1, -3, targets)
    return features, features @ rng.normal(size=(width, targets)) + noise


def chosen(features: FloatArray, targets: FloatArray) -> IntArray:
    known = Features.known(features)
    return Ridge.of(known).best(known, targets, Ridge.of(known).projected(known, targets))


def coefficients(features: FloatArray, targets: FloatArray, penalties: IntArray) -> FloatArray:
    known = Features.known(features)
    return Ridge.of(known).coefficients(Ridge.of(known).projected(known, targets), penalties)


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_many_targets_are_scikit_learns_one_at_a_time(rows: int, width: int) -> None:
    features, targets = problem(rows, width)
    best = chosen(features, targets)
    found = coefficients(features, targets, best)
    assert len(set(best.tolist())) > 1
    for column, target in enumerate(targets.T):
        alone = RidgeCV(alphas=PENALTIES, fit_intercept=False).fit(features, target)
        assert PENALTIES[best[column]] == alone.alpha_
        np.testing.assert_allclose(found[:, column], alone.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_penalties_are_those_that_predict_best_with_each_row_left_out(rows: int, width: int) -> None:
    features, targets = problem(rows, width)
    errors = [
        np.square(
            targets
            - cross_val_predict(
                SklearnRidge(alpha=penalty, fit_intercept=False, solver="svd"), features, targets, cv=LeaveOneOut()
            )
        ).sum(axis=0)
        for penalty in PENALTIES
    ]
    np.testing.assert_array_equal(chosen(features, targets), np.argmin(errors, axis=0))


def test_of_equally_good_penalties_the_largest_is_taken() -> None:
    features = np.random.default_rng(0).normal(size=(20, 3))
    nothing_to_learn = np.zeros((20, 1))
    assert chosen(features, nothing_to_learn).tolist() == [len(PENALTIES) - 1]


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_weights_are_derivatives_of_what_is_asked(rows: int, width: int) -> None:
    features, targets = problem(rows, width, targets=1)
    asked, penalty = np.random.default_rng(1).normal(size=(width, 1)), np.array([2])
    known = Features.known(features)
    regression, found = Ridge.of(known), np.zeros((rows, 1))
    regression.add_weights(found, known, regression.shares(asked, penalty))

    def answer(values: FloatArray) -> float:
        return float((asked * coefficients(features, values[:, None], penalty)).sum())

    moved = [answer(targets[:, 0] + step) - answer(targets[:, 0]) for step in np.eye(rows)]
    np.testing.assert_allclose(found[:, 0], moved, atol=1e-9)


def ridge_by_hand(features: FloatArray, target: FloatArray) -> FloatArray:
    """The penalised normal equations, with the penalty by leaving rows out one by one."""

    def solve(chosen: FloatArray, values: FloatArray, penalty: float) -> FloatArray:
        return np.asarray(np.linalg.solve(chosen.T @ chosen + penalty * np.eye(chosen.shape[1]), chosen.T @ values))

    def error(penalty: float) -> float:
        others = [np.arange(len(target)) != row for row in range(len(target))]
        predicted = [features[~keep] @ solve(features[keep], target[keep], penalty) for keep in others]
        return float(np.square(target - np.concatenate(predicted)).sum())

    return solve(features, target, min(PENALTIES, key=error))


def step_problem(rows: int = 60, rare: int = 4) -> tuple[Float32Array, IntArray, FloatArray]:
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(rows, 2)).astype(np.float32)
    actions = np.sort(np.where(np.arange(rows) < rare, 2, rng.integers(2, size=rows)))
    targets = contexts[:, :1] * [1.0, 5.0, 0.0] + actions[:, None] + rng.normal(size=(rows, 3)) * [0.1, 1.0, 3.0]
    return contexts, actions, targets


def test_a_step_is_one_ridge_of_all_actions_then_one_of_each_on_the_rest() -> None:
    contexts, actions, targets = step_problem()
    step = StepRidge.of(contexts, actions, n_actions=4)
    found = step.fit(step.features(contexts), targets).coefficients
    inputs = step.features(contexts).all()
    features = quadratic_features(contexts, contexts.mean(axis=0, dtype=float), contexts.std(axis=0, dtype=float))
    np.testing.assert_allclose(inputs, features, atol=1e-5)
    for column, target in enumerate(targets.T):
        shared = ridge_by_hand(inputs, target - target.mean())
        shared[0] += target.mean()
        np.testing.assert_allclose(found[3, :, column], shared, atol=1e-8)  # never seen: average
        left = target - inputs @ shared
        for action, width in ((0, 6), (1, 6), (2, 3)):  # action 2 has 4 rows: too few for quadratic features
            own = np.zeros(6)
            own[:width] = ridge_by_hand(inputs[actions == action, :width], left[actions == action])
            np.testing.assert_allclose(found[action, :, column], shared + own, atol=1e-8)


def test_targets_fitted_together_are_fitted_as_alone() -> None:
    contexts, actions, targets = step_problem()
    step = StepRidge.of(contexts, actions, n_actions=3)
    together = step.fit(step.features(contexts), targets)
    assert len({tuple(int(chosen[column]) for chosen in together.chosen.values()) for column in range(3)}) > 1
    for column in range(3):
        alone = step.fit(step.features(contexts), targets[:, [column]])
        np.testing.assert_allclose(alone.coefficients[:, :, 0], together.coefficients[:, :, column], rtol=1e-9)
        inputs = step.features(contexts[:5]).all()
        kept = together.model(column)
        np.testing.assert_allclose(kept.predict(contexts[:5]), together.q(inputs)[:, :, column].T, rtol=1e-12)


def test_chosen_penalties_are_kept() -> None:
    contexts, actions, targets = step_problem()
    step = StepRidge.of(contexts, actions, n_actions=3)
    first = step.fit(step.features(contexts), targets[:, :1])
    np.testing.assert_array_equal(
        step.fit(step.features(contexts), targets[:, :1], first.chosen).coefficients, first.coefficients
    )
    linear = (
        step.fit(step.features(contexts), 2 * targets, first.chosen).coefficients
        - 2 * step.fit(step.features(contexts), targets, first.chosen).coefficients
    )
    np.testing.assert_allclose(linear, 0, atol=1e-9)
    assert set(first.chosen) == {ALL_ACTIONS, 0, 1, 2}


def test_the_weights_of_a_step_are_derivatives_of_what_is_asked() -> None:
    contexts, actions, targets = step_problem(rows=25)
    step = StepRidge.of(contexts, actions, n_actions=4)
    chosen = step.fit(step.features(contexts), targets[:, :1]).chosen
    asked = np.random.default_rng(1).normal(size=(4, 6, 2))
    found = step.weights(step.features(contexts), asked, chosen)
    moved = (
        step.fit(step.features(contexts), targets[:, :1] + np.eye(25), chosen).coefficients
        - step.fit(step.features(contexts), targets[:, :1], chosen).coefficients
    )
    np.testing.assert_allclose(found, np.einsum("apk,apr->rk", asked, moved), atol=1e-9)


def test_boosted_targets_are_fitted_one_by_one() -> None:
    contexts, actions, targets = step_problem()
    step = StepBoosted(actions, n_actions=3, seed=5)
    fitted = step.fit(step.features(contexts), targets[:, :2])
    for column in range(2):
        alone = fit_boosted(contexts, actions, targets[:, column], 3, seed=5)
        expected = alone.predict(contexts)
        np.testing.assert_array_equal(fitted.q(step.features(contexts).all())[:, :, column].T, expected)
        np.testing.assert_array_equal(fitted.model(column).predict(contexts), expected)


def test_quadratic_features_stay_near_and_narrow() -> None:
    wide = np.full((1, MOST_FEATURES_IN_PAIRS + 1), 1e9, np.float32)
    features = quadratic_features(wide, np.zeros(wide.shape[1]), np.ones(wide.shape[1]))
    assert features.shape == (1, 1 + 2 * wide.shape[1])
    assert features.max() == FARTHEST**2


def test_few_rows_have_the_features_of_many() -> None:
    contexts = np.random.default_rng(0).normal(size=(100, 7)).astype(np.float32)
    many = quadratic_features(contexts, np.full(7, 0.3), np.full(7, 2.0))
    np.testing.assert_array_equal(many[:5], quadratic_features(contexts[:5], np.full(7, 0.3), np.full(7, 2.0)))


def test_features_computed_block_by_block_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts, actions, targets = step_problem(rows=700, rare=4)

    def found() -> tuple[FloatArray, FloatArray]:
        step = StepRidge.of(contexts, actions, n_actions=3)
        columns = step.fit(step.features(contexts), targets)
        wanted = np.random.default_rng(1).normal(size=(3, 6, 3))
        return columns.coefficients, step.weights(step.features(contexts), wanted, columns.chosen)

    whole = found()
    monkeypatch.setattr(ridge, "AT_ONCE", 1)  # as few rows at a time as there are
    monkeypatch.setattr(step_regression, "MOST_AT_HAND", 0)
    assert len(list(StepRidge.of(contexts, actions, 3).features(contexts).blocks())) == 11
    for one, other in zip(whole, found(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


def test_what_is_kept_does_not_grow_with_the_rows() -> None:
    def kept(rows: int) -> int:
        contexts, actions, _ = step_problem(rows, rare=rows // 3)
        return StepRidge.of(contexts, actions, n_actions=3).numbers

    assert kept(100) == kept(1000) == 4 * 6 * 6
