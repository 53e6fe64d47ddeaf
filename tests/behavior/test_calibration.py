"""Calibration against scikit-learn, SciPy and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.calibration import best_temperature, calibration, reliability, tempered
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.tempered import TemperedBehavior, TemperedModel, with_temperature
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

RNG = np.random.default_rng(0)
ROWS = RNG.dirichlet([0.5, 1.0, 2.0], 500)
ACTIONS = np.array([RNG.choice(3, p=0.5 * row + 0.5 / 3) for row in ROWS])


def test_likelihood_and_brier_score_equal_scikit_learn() -> None:
    ours = calibration(ROWS, ACTIONS)
    assert ours.log_likelihood == pytest.approx(-log_loss(ACTIONS, ROWS), rel=1e-12)
    each = [brier_score_loss(action == ACTIONS, ROWS[:, action]) for action in range(3)]
    assert ours.brier == pytest.approx(sum(each), rel=1e-12)


def test_reliability_curves_equal_scikit_learn() -> None:
    ours = calibration(ROWS, ACTIONS, bins=10)
    taken = np.eye(3, dtype=bool)[ACTIONS]
    for curve, happened, predicted in (
        (ours.every_action, taken.ravel(), ROWS.ravel()),
        (ours.top_action, ROWS.argmax(axis=1) == ACTIONS, ROWS.max(axis=1)),
    ):
        observed, mean_predicted = calibration_curve(happened, predicted, n_bins=10)
        np.testing.assert_allclose(curve.observed, observed, rtol=1e-12)
        np.testing.assert_allclose(curve.predicted, mean_predicted, rtol=1e-12)
        assert curve.counts.sum() == len(predicted)


def test_expected_calibration_error_by_hand() -> None:
    # 4 of 10 at confidence 0.9 come true, and 6 of 10 at 0.6: (0.5 + 0) / 2.
    rows = np.array([[0.9, 0.1]] * 10 + [[0.6, 0.4]] * 10)
    actions = np.array([0] * 4 + [1] * 6 + [0] * 6 + [1] * 4)
    assert calibration(rows, actions).expected_calibration_error == pytest.approx(0.25)


def test_a_prediction_on_an_edge_counts_below_it_as_in_scikit_learn() -> None:
    predicted, happened = np.array([0.0, 0.5, 1.0]), np.array([False, True, True])
    ours = reliability(predicted, happened, bins=2)
    observed, _ = calibration_curve(happened, predicted, n_bins=2)
    np.testing.assert_allclose(ours.observed, observed)


def test_a_logged_action_of_probability_zero_has_no_likelihood_but_breaks_nothing() -> None:
    result = calibration(np.array([[1.0, 0.0]]), np.array([1]))
    assert result.log_likelihood == -np.inf
    assert result.brier == 2.0


def test_temperature_equals_a_general_optimiser() -> None:
    def loss(parameter: np.ndarray) -> float:
        return -float(log_softmax(np.log(ROWS) / np.exp(parameter[0]), axis=1)[np.arange(500), ACTIONS].mean())

    found = minimize(loss, [0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    assert best_temperature(ROWS, ACTIONS) == pytest.approx(float(np.exp(found.x[0])), rel=1e-4)


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_temperature_recovers_the_one_that_made_the_actions(truth: float) -> None:
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(4), 40_000)
    chances = tempered(rows, truth)
    actions = (np.cumsum(chances, axis=1) < rng.random((40_000, 1))).sum(axis=1)
    assert best_temperature(rows, actions) == pytest.approx(truth, rel=0.05)


def test_tempering_keeps_zeros_and_sums() -> None:
    rows = tempered(np.array([[0.7, 0.3, 0.0], [1.0, 0.0, 0.0]]), 3.0)
    assert (rows[:, 2] == 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    np.testing.assert_array_equal(rows[1], [1, 0, 0])


def test_zero_support_and_certainty_leave_the_temperature_alone() -> None:
    assert best_temperature(np.array([[1.0, 0.0]]), np.array([1])) == 1.0
    assert best_temperature(np.array([[1.0, 0.0]]), np.array([0])) == 1.0


def noisy_logs(episodes: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(4 * episodes, 2))
    actions = (rng.random(4 * episodes) < 1 / (1 + np.exp(-contexts[:, 0]))).astype(int)
    return Trajectories(contexts, actions, np.zeros(4 * episodes), np.arange(0, 4 * episodes + 1, 4))


def test_a_temperature_repairs_an_overconfident_model() -> None:
    train, test = noisy_logs(150, 0), noisy_logs(500, 1)
    too_sure = BoostedBehavior(max_rounds=100, held_out=0)
    plain, repaired = too_sure.fit(train), TemperedBehavior(too_sure).fit(train)
    before, after = (calibration(model.along(test), test.actions) for model in (plain, repaired))
    assert isinstance(repaired, TemperedModel)
    assert repaired.temperature > 1
    assert after.log_likelihood > before.log_likelihood
    assert after.brier < before.brier
    assert after.expected_calibration_error < before.expected_calibration_error


def test_tempering_a_fitted_model_with_other_episodes() -> None:
    train, test = noisy_logs(100, 0), noisy_logs(200, 1)
    model = MultinomialBehavior().fit(train)
    wrapped = with_temperature(model, test)
    np.testing.assert_allclose(
        wrapped.probabilities(test.contexts), tempered(model.probabilities(test.contexts), wrapped.temperature)
    )
    with pytest.raises(InputError, match="needs held-out episodes"):
        TemperedBehavior(MultinomialBehavior()).fit(train.take([0, 0]).take([0]))
