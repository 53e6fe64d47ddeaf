"""Logs of one step with known effects."""

import numpy as np

from poela.data.trajectories import Trajectories


def coins(episodes: int, effect: float = 0.0, seed: int = 0) -> Trajectories:
    """One step, two actions by a fair coin, and what the second one adds."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, episodes)
    rewards = effect * actions + rng.normal(size=episodes)
    return Trajectories(
        rng.normal(size=(episodes, 1)), actions, rewards, np.arange(episodes + 1), np.full((episodes, 2), 0.5)
    )
