"""The policies that the package carries, and the logs they make."""

from typing import Any

import numpy as np
import pytest
import torch

from poela_experiments.mujoco_logs import LEVELS, Episodes, PpoPolicy, roll_out, shipped_policy

pytest.importorskip("mujoco", reason="extra mujoco")

# Mean and deviation of returns, over 200 episodes or more of another seed.
RETURNS = {
    ("hopper", "random"): (16.1, 19.8),
    ("hopper", "medium"): (1252.0, 253.0),
    ("hopper", "expert"): (2604.0, 732.0),
    ("walker2d", "random"): (-1.1, 5.1),
    ("walker2d", "medium"): (1508.0, 802.0),
    ("walker2d", "expert"): (2989.0, 1425.0),
}


def test_densities_are_those_of_torch() -> None:
    policy = shipped_policy("walker2d", "medium")
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(5, 17))
    actions = policy.sample(contexts, rng)
    gaussian: Any = torch.distributions.Normal(
        torch.tensor(policy.means(contexts)), torch.tensor(np.exp(policy.log_std))
    )
    expected = gaussian.log_prob(torch.tensor(actions)).sum(dim=1).numpy()
    np.testing.assert_allclose(policy.log_density(contexts, actions), expected, atol=1e-12)


def test_a_network_of_known_weights_gives_known_means() -> None:
    arrays = {"weight_0": [[2.0]], "bias_0": [0.5], "weight_1": [[3.0]], "bias_1": [-1.0]}
    policy = PpoPolicy.of({**arrays, "mean": [1.0], "deviation": [2.0], "log_std": [0.0]})
    # (5 − 1) / 2 = 2, tanh(2·2 + 0.5), times 3, less 1; far out the observation is clipped to 10 deviations.
    contexts = np.array([[5.0], [1e9]])
    np.testing.assert_allclose(policy.means(contexts)[:, 0], [3 * np.tanh(4.5) - 1, 3 * np.tanh(20.5) - 1])


@pytest.mark.parametrize(("robot", "level"), RETURNS)
def test_shipped_policies_are_worth_what_is_said(robot: str, level: str) -> None:
    mean, deviation = RETURNS[robot, level]
    episodes = 100 if level == "random" else 10
    returns = roll_out(robot, shipped_policy(robot, level).sample, episodes, seed=77).returns
    assert abs(returns.mean() - mean) < 4 * deviation / np.sqrt(episodes)


def test_logs_are_what_the_environment_says() -> None:
    """The first episode, step by step in an environment of Gymnasium: actions clipped there, logged as drawn."""
    import gymnasium

    made = roll_out("hopper", shipped_policy("hopper", "random").sample, 3, seed=5)
    environment = gymnasium.make("Hopper-v5")
    context, _ = environment.reset(seed=int(np.random.default_rng((5, 0)).integers(2**31, size=3)[0]))
    for step in range(made.offsets[1]):
        np.testing.assert_array_equal(made.contexts[step], context)
        action = np.clip(made.actions[step], -1, 1)
        context, reward, ended, _, _ = environment.step(action)
        assert made.rewards[step] == pytest.approx(reward, rel=1e-5, abs=1e-5)
    assert ended
    assert made.fell.all()
    assert np.abs(made.actions).max() > 1


def test_the_same_seed_gives_the_same_log() -> None:
    first, again, other = (roll_out("hopper", shipped_policy("hopper", "random").sample, 4, s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.actions, again.actions)
    assert not np.array_equal(first.actions[:3], other.actions[:3])


def test_an_episode_that_is_cut_short_did_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    made = roll_out("walker2d", shipped_policy("walker2d", "expert").sample, 6, seed=3)
    lengths = np.diff(made.offsets)
    np.testing.assert_array_equal(made.fell, lengths < 1000)
    assert lengths.max() == 1000  # one of six stands to the end, or this tests nothing


def test_levels_are_files() -> None:
    for robot in ("hopper", "walker2d"):
        assert len({shipped_policy(robot, level).log_std.sum() for level in LEVELS}) == 3


def test_returns_are_sums_by_episode() -> None:
    made = Episodes(
        np.zeros((3, 1)), np.zeros((3, 1)), np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]), np.ones(2, bool)
    )
    assert made.returns.tolist() == [3.0, 4.0]
