"""The chance of staying is found where the extremes leave, too, which no straight line tells."""

import numpy as np
import pytest

from poela.behavior.staying import with_staying
from poela.data.trajectories import Trajectories


@pytest.mark.parametrize("seed", range(3))
def test_chances_are_near_the_true_ones_where_the_extremes_leave(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(1000, 2)), rng.integers(0, 2, 1000)
    stay = 1 / (1 + np.exp(-(2.4 - 1.3 * np.abs(x[:, 0]) + (0.4 + 1.2 * actions) * x[:, 0])))
    lost = rng.random(1000) > stay
    logs = with_staying(Trajectories(x, actions, np.zeros(1000), np.arange(1001), n_actions=2, lost=lost))
    assert logs.staying is not None
    chances = np.exp(-logs.staying[~lost])
    # 0.079 to 0.101 without squares and products.
    assert np.sqrt(np.mean((chances - stay[~lost]) ** 2)) < 0.07
