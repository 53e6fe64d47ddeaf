"""Weights in log space: exact over long episodes, −inf kept within its episode, bad probabilities refused."""

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights, probabilities_along
from poela.stats.weights import LogWeights, effective_sample_size, safe_shift


class Fixed(Memoryless):
    """A policy that answers with given rows."""

    def __init__(self, rows: ArrayLike) -> None:
        self.rows = np.asarray(rows, np.float64)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return self.rows


def two_step_logs(propensities: ArrayLike = (0.5, 0.5)) -> Trajectories:
    return Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2], propensities=propensities)


@pytest.mark.parametrize("steps", [1000, 5000])
def test_identical_policies_weigh_exactly_one_over_long_episodes(steps: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(5), size=3 * steps)
    actions = rng.integers(5, size=3 * steps)
    offsets = np.arange(4) * steps
    logs = Trajectories(np.zeros((3 * steps, 1)), actions, np.ones(3 * steps), offsets, propensities=rows)
    weights = log_weights(Fixed(rows), logs)
    assert (weights.episodes == 0).all()
    assert (np.exp(weights.running) == 1).all()
    assert effective_sample_size(weights.episodes) == 3


def test_long_products_agree_with_exact_summation() -> None:
    rng = np.random.default_rng(1)
    ratios = rng.uniform(-3, 3, size=5000)
    weights = LogWeights(ratios, [0, 5000])
    assert weights.episodes[0] == pytest.approx(math.fsum(ratios), abs=1e-9)
    assert weights.running[-1] == pytest.approx(math.fsum(ratios), abs=1e-9)


def test_per_decision_weights_accumulate_over_ragged_episodes() -> None:
    weights = LogWeights(np.log([2.0, 3.0, 5.0, 7.0, 11.0, 13.0]), [0, 3, 4, 6])
    np.testing.assert_allclose(np.exp(weights.running), [2, 6, 30, 7, 11, 143], rtol=1e-12)
    np.testing.assert_allclose(np.exp(weights.episodes), [30, 7, 143], rtol=1e-12)


def test_an_impossible_action_silences_only_its_own_episode() -> None:
    weights = LogWeights([0.0, -np.inf, 1.0, 1.0], [0, 3, 4])
    assert weights.episodes.tolist() == [-np.inf, 1.0]
    assert weights.running.tolist() == [0.0, -np.inf, -np.inf, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused_and_counted(bad: float) -> None:
    with pytest.raises(InputError, match="2 log ratios are NaN or \\+infinity, first at step 1"):
        LogWeights([0.0, bad, bad], [0, 3])


@pytest.mark.parametrize("offsets", [[0, 2], [1, 3], [0, 1, 1, 3], [0, 2, 1, 3]])
def test_offsets_must_cut_the_steps_into_episodes(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets must increase from 0 to the number of log ratios, 3"):
        LogWeights([0.0, 0.0, 0.0], offsets)


def test_a_tiny_propensity_does_not_overflow() -> None:
    weights = log_weights(Fixed([[1.0, 0.0], [0.0, 1.0]]), two_step_logs([5e-324, 1.0]))
    assert weights.episodes[0] == pytest.approx(-math.log(5e-324))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((2, 3), 1 / 3), r"shape \(2, 3\) where the logs need \(2, 2\)"),
        (np.full((1, 2), 0.5), r"shape \(1, 2\) where the logs need \(2, 2\)"),
        ([[0.5, 0.5], [np.nan, 0.5]], "1 rows .* not distributions .* first at step 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "1 rows .* not distributions .* first at step 0"),
        ([[0.5, 0.4], [0.5, 0.4]], "2 rows .* not distributions .* first at step 0"),
    ],
)
def test_what_is_no_distribution_is_refused(rows: ArrayLike, message: str) -> None:
    with pytest.raises(InputError, match=message):
        probabilities_along(Fixed(rows), two_step_logs())


def test_single_precision_policies_pass() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(25), size=2).astype(np.float32)
    logs = Trajectories([[0.0], [0.0]], [0, 24], [1.0, 2.0], [0, 1, 2], propensities=[0.5, 0.5])
    assert probabilities_along(Fixed(rows), logs).dtype == np.float64


def test_logs_without_propensities_are_refused() -> None:
    logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    with pytest.raises(InputError, match="no propensities"):
        log_weights(Fixed([[1.0, 0.0], [0.0, 1.0]]), logs)


def test_effective_sample_size_of_equal_weights_is_their_number() -> None:
    for scale in (0.0, -5000.0, 5000.0):
        assert effective_sample_size(np.full(200, scale)) == 200


def test_effective_sample_size_without_weight_is_zero() -> None:
    assert effective_sample_size(np.full(3, -np.inf)) == 0


def test_only_unsafe_columns_are_rescaled() -> None:
    table = np.array([[5.0, -800.0, -np.inf], [7.0, -900.0, -np.inf]])
    assert safe_shift(table).tolist() == [0.0, -800.0, 0.0]
