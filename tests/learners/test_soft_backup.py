"""FittedQ with soft backups, against the closed form of a small problem."""

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights
from poela.learners.fitted_q import FittedQ
from poela.stats.weights import effective_sample_size

CHANCES = np.array([0.8, 0.2])


def two_steps(episodes: int, seed: int = 0) -> Trajectories:
    """Nothing to see; the second step pays 2 for action 1, but only after action 1 in the first step."""
    rng = np.random.default_rng(seed)
    actions = (rng.random((episodes, 2)) < CHANCES[1]).astype(np.int64)
    contexts = np.stack([np.zeros(episodes), actions[:, 0]], axis=1).reshape(-1, 1)
    rewards = np.stack([np.zeros(episodes), 2.0 * actions.prod(axis=1)], axis=1)
    return Trajectories(
        contexts,
        actions.ravel(),
        rewards.ravel(),
        np.arange(0, 2 * episodes + 1, 2),
        np.tile(CHANCES, (2 * episodes, 1)),
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_policy_is_the_best_at_this_price_of_departure(temperature: float) -> None:
    logs = two_steps(4000)
    policy = FittedQ(temperature=temperature, backup="soft", history=0, penalty=1e-4).fit(logs)
    # Each whole episode is as likely as under μ, times exp(return / τ): the optimum of E[return] − τ·KL.
    after_1 = temperature * np.log(CHANCES[0] + CHANCES[1] * np.exp(2 / temperature))
    first = CHANCES * np.exp(np.array([0.0, after_1]) / temperature)
    second = CHANCES * np.exp(np.array([0.0, 2.0]) / temperature)
    asked = Trajectories([[0.0], [1.0]], [1, 1], [0, 0], [0, 2])
    expected = np.stack([first / first.sum(), second / second.sum()])
    np.testing.assert_allclose(policy.along(asked), expected, atol=0.02)


def test_a_soft_backup_gives_more_value_for_the_same_support() -> None:
    logs, fresh = two_steps(3000), two_steps(3000, seed=1)

    def value_and_support(backup: str) -> list[tuple[float, float]]:
        path = FittedQ(temperature=0.4, temperatures=(3.0, 2.0, 1.4, 1.0, 0.7, 0.5), backup=backup, history=0)
        found = []
        for checkpoint in path.fit_path(logs):
            first, second = checkpoint.policy.along(Trajectories([[0.0], [1.0]], [1, 1], [0, 0], [0, 2]))[:, 1]
            found.append((2 * first * second, effective_sample_size(log_weights(checkpoint.policy, fresh).episodes)))
        return found

    soft, hard = value_and_support("soft"), value_and_support("max")
    values, supports = zip(*sorted(soft), strict=True)
    for value, support in hard:
        if values[0] < value < values[-1]:
            assert np.interp(value, values, supports) > support


def test_an_unknown_backup() -> None:
    with pytest.raises(InputError, match="backup is 'hard': choose 'max' or 'soft'"):
        FittedQ(backup="hard").fit(two_steps(10))
