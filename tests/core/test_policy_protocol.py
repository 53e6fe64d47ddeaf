"""Sampling and the protocol's defaults."""

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import chisquare

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless, as_policy, sample_actions
from poela.data.trajectories import Trajectories


class Fixed(Memoryless):
    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.tile([0.2, 0.0, 0.8], (len(np.asarray(contexts)), 1))


def test_samples_follow_the_probabilities_and_never_the_impossible() -> None:
    actions = Fixed().sample(np.zeros((20_000, 1)), seed=3)
    counts = np.bincount(actions, minlength=3)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2]], [4000, 16000]).pvalue > 1e-4


def test_zero_uniform_does_not_choose_an_impossible_first_action() -> None:
    class Zero(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> np.ndarray:  # type: ignore[override]
            return np.zeros(1)

    assert sample_actions(np.array([[0.0, 1.0]]), Zero(np.random.PCG64())).tolist() == [1]


def test_rows_that_sum_to_almost_one_still_choose_a_real_action() -> None:
    probabilities = np.tile([0.1] * 10, (1000, 1)) * (1 - 1e-12)
    assert sample_actions(probabilities, np.random.default_rng(0)).max() <= 9


def test_an_object_with_probabilities_is_a_policy() -> None:
    class Bare:
        def probabilities(self, contexts: ArrayLike) -> list[list[float]]:
            return [[1.0, 0.0] for _ in np.asarray(contexts)]

    logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 2])
    policy = as_policy(Bare())
    assert policy.along(logs).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert policy.actor(2).probabilities(logs.contexts).tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="str is no policy"):
        as_policy("no")
