"""Diagnostics of the weights, against SciPy, hand counts and published behaviour of the Pareto fit."""

import numpy as np
import pytest
from scipy.stats import genpareto

from poela.core.typed import from_plain, to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import calibration_error, undiagnosed
from poela.stats.diagnostics import (
    Diagnostics,
    diagnose,
    ess_by_step,
    fit_generalised_pareto,
    largest_share,
    mean_weight,
    pareto_k,
)
from poela.stats.weights import LogWeights


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.5, 0.9])
def test_the_pareto_fit_recovers_the_tail_that_scipy_drew(shape: float) -> None:
    sample = genpareto.rvs(shape, scale=3.0, size=20_000, random_state=np.random.default_rng(0))
    found, scale = fit_generalised_pareto(sample)
    assert found == pytest.approx(shape, abs=0.03)
    assert scale == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.2])
def test_pareto_k_of_weights_is_the_shape_of_their_tail(shape: float) -> None:
    weights = 1 + genpareto.ppf((np.arange(50_000) + 0.5) / 50_000, shape)
    assert pareto_k(np.log(weights)) == pytest.approx(shape, abs=0.03)


def test_pareto_k_ignores_scale_even_beyond_floating_point() -> None:
    log_weights = np.random.default_rng(2).normal(scale=1.5, size=500)
    assert pareto_k(log_weights + 5000) == pytest.approx(pareto_k(log_weights), rel=1e-6)


def test_the_rounding_of_equal_weights_is_no_tail() -> None:
    # Products of the same ratios in another order differ in their last bits.
    rng = np.random.default_rng(3)
    ratios = np.log(np.r_[np.full(15, 1.1), np.full(15, 0.9)])
    equal = np.array([np.cumsum(rng.permutation(ratios))[-1] for _ in range(300)])
    assert len(np.unique(equal)) > 1
    assert pareto_k(equal) == -np.inf


def test_pareto_k_of_a_tail_over_hundreds_of_orders_is_hopeless_but_finite() -> None:
    assert 1 < pareto_k(np.linspace(-2000, 0, 400)) < np.inf


@pytest.mark.parametrize(
    ("log_weights", "expected"),
    [
        (np.zeros(500), -np.inf),  # equal weights have no tail
        (np.arange(20.0), np.nan),  # four weights are no tail
        (np.full(100, -np.inf), np.nan),  # no weight at all
        (np.r_[np.full(97, -np.inf), 0.0, 0.1, 0.2], np.nan),  # three episodes hold all the weight
    ],
)
def test_pareto_k_where_there_is_no_tail_to_fit(log_weights: np.ndarray, expected: float) -> None:
    np.testing.assert_equal(pareto_k(log_weights), expected)


def test_effective_sample_size_by_step_on_ragged_episodes() -> None:
    # Episodes with cumulative weights (1, 2), (3), (1, 1, 4): the second keeps its 3, the first its 2.
    weights = LogWeights(np.log([1.0, 2.0, 3.0, 1.0, 1.0, 4.0]), [0, 2, 3, 6])
    expected = [25 / 11, 36 / 14, 81 / 29]
    np.testing.assert_allclose(ess_by_step(weights), expected, rtol=1e-12)


def test_effective_sample_size_by_step_after_all_weight_is_gone() -> None:
    weights = LogWeights([0.0, -np.inf, 0.0, -np.inf], [0, 2, 4])
    assert ess_by_step(weights).tolist() == [2.0, 0.0]


def test_effective_sample_size_by_step_survives_huge_weights() -> None:
    weights = LogWeights([900.0, 900.0, 900.0, 900.0], [0, 2, 4])
    np.testing.assert_allclose(ess_by_step(weights), [2.0, 2.0])


def test_counts_of_zero_ineligible_and_truncated() -> None:
    weights = LogWeights([-np.inf, -np.inf, np.log(5.0), 0.0, 0.0], [0, 2, 3, 4, 5])
    found = diagnose(weights, used=weights.truncated(4.0), truncation=4.0)
    assert found.zero_weight_share == 0.25
    assert found.ineligible_steps == 2
    assert found.truncated_share == 0.25
    assert found.ess == pytest.approx((4 + 1 + 1) ** 2 / (16 + 1 + 1))
    assert found.largest_share == pytest.approx(4 / 6)
    assert found.mean_weight == pytest.approx(7 / 4)


def test_the_mean_weight_is_compared_with_one_in_standard_errors() -> None:
    weights = np.array([0.5, 1.0, 3.0, 0.1])
    mean, z = mean_weight(np.log(weights))
    assert mean == pytest.approx(weights.mean())
    assert z == pytest.approx((weights.mean() - 1) / (weights.std(ddof=1) / 2))


def test_one_episode_has_no_standard_error() -> None:
    mean, z = mean_weight(np.log([2.0]))
    assert mean == pytest.approx(2)
    assert np.isnan(z)


def test_the_largest_share_of_no_weight_is_unknown() -> None:
    assert np.isnan(largest_share(np.full(3, -np.inf)))


def test_calibration_of_propensities_by_hand() -> None:
    rows = np.array([[0.8, 0.2]] * 5 + [[0.35, 0.65]] * 5)
    actions = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 1])  # 0.8 came true in 3 of 5, 0.65 in 5 of 5
    logs = Trajectories(np.zeros((10, 1)), actions, np.zeros(10), [0, 10], propensities=rows)
    assert calibration_error(logs) == pytest.approx(0.5 * 0.2 + 0.5 * 0.35)


def test_calibration_needs_the_propensities_of_all_actions() -> None:
    logs = Trajectories(np.zeros((2, 1)), [0, 1], np.zeros(2), [0, 2], propensities=[0.5, 0.5])
    assert calibration_error(logs) is None
    assert calibration_error(logs.with_propensities(None)) is None


def test_diagnostics_come_back_from_plain_values() -> None:
    weights = LogWeights([0.0, np.log(3.0)], [0, 1, 2])
    logs = Trajectories(np.zeros((2, 1)), [0, 0], np.zeros(2), [0, 1, 2])
    for found in (diagnose(weights, stranded_steps=3), undiagnosed(logs)):
        back = from_plain(Diagnostics, to_plain(found), "here")
        for name in Diagnostics.__dataclass_fields__:
            if name != "pareto_k" or np.isfinite(found.pareto_k):
                np.testing.assert_equal(getattr(back, name), getattr(found, name))


def test_the_pareto_fit_survives_a_candidate_that_is_exactly_exponential() -> None:
    excess = np.repeat([1.0, 3.0], 8)  # so that one of the 34 candidates for −k/σ is zero
    near = fit_generalised_pareto(excess + 1e-9 * np.arange(16))
    assert fit_generalised_pareto(excess) == pytest.approx(near, rel=1e-6)
