"""CartPole: the dynamics against Gymnasium's, the logging policy against enumeration and roll-outs."""

import gymnasium
import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.ragged import episode_sums
from poela.data.trajectories import Trajectories
from poela.simulators.cartpole import STEEPEST, STEPS, CartPole, CartPoleBehavior, CartPoleState, QNetworks
from poela.simulators.episodes import GeneratorNoise, run
from poela.simulators.registry import simulate


@pytest.mark.parametrize("seed", range(5))
def test_every_step_is_that_of_gymnasium(seed: int) -> None:
    environment = gymnasium.make("CartPole-v1", max_episode_steps=STEPS).unwrapped
    environment.reset(seed=seed)
    state = CartPoleState(np.array([environment.state]), 0)
    rng = np.random.default_rng(seed)
    ended = False
    while not ended:
        # Mostly against the fall, so that the episodes are long.
        action = int(rng.random() < 0.2) ^ int(environment.state[2] + environment.state[3] > 0)
        context, reward, ended, _, _ = environment.step(action)
        state, rewards, over = CartPole().step(state, np.array([action]))
        np.testing.assert_allclose(state.physics[0], environment.state, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(CartPole().contexts(state)[0], context)
        np.testing.assert_array_equal(CartPole(markov=False).contexts(state)[0], context[:3])
        assert rewards[0] == reward
        assert over[0] == ended or state.steps == STEPS
        ended = ended or bool(over[0])
    assert state.steps > 15


def test_starts_are_those_of_gymnasium() -> None:
    physics = CartPole().reset(20_000, GeneratorNoise(np.random.default_rng(0), 20_000)).physics
    assert np.abs(physics).max() <= 0.05
    assert np.abs(physics.mean(axis=0)).max() < 4 * 0.05 / np.sqrt(3 * 20_000)
    np.testing.assert_allclose(physics.std(axis=0), 0.05 / np.sqrt(3), rtol=0.02)


def test_the_limit_of_steps_ends_an_episode() -> None:
    upright = CartPoleState(np.zeros((1, 4)), STEPS - 1)
    after, rewards, ended = CartPole().step(upright, np.array([0]))
    assert rewards.tolist() == [1.0]
    assert ended.all()
    assert not after.fallen.any()


def test_a_fallen_pole_stays_where_it_is() -> None:
    fallen = CartPoleState(np.array([[0.0, 1.0, 1.1 * STEEPEST, 5.0]]), 10)
    after, _, ended = CartPole().step(fallen, np.array([1]))
    np.testing.assert_array_equal(after.physics, fallen.physics)
    assert ended.all()


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(CartPole(), CartPoleBehavior(), episodes=300, seed=0)


def test_checkpoints_go_from_beginner_to_expert() -> None:
    networks = QNetworks.published()
    assert 5 <= len(networks) <= 8
    lengths = [
        run(CartPole(), CartPoleBehavior(networks.take([index])), 100, seed=1).lengths.mean() for index in (0, -1)
    ]
    assert lengths[0] < 20
    assert lengths[1] > 185


def test_networks_compute_what_torch_computes() -> None:
    import torch

    networks, contexts = QNetworks.published(), np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    for index in range(len(networks)):
        hidden = torch.from_numpy(contexts).double()
        for layer, (weight, bias) in enumerate(networks.layers):
            hidden = torch.relu(hidden) if layer else hidden
            hidden = torch.nn.functional.linear(hidden, torch.tensor(weight[index]), torch.tensor(bias[index]))
        np.testing.assert_allclose(networks.q_values(contexts)[index], hidden.numpy(), rtol=1e-9, atol=1e-9)


def test_networks_survive_a_file() -> None:
    networks = QNetworks.published()
    again = QNetworks.from_bytes(networks.to_bytes())
    contexts = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_array_equal(networks.q_values(contexts), again.q_values(contexts))


def chances_of_actions(behavior: CartPoleBehavior, logs: Trajectories) -> FloatArray:
    """The probability of each episode's actions when a checkpoint is drawn once and acts throughout."""
    networks = range(len(behavior.checkpoints))
    each = [CartPoleBehavior(behavior.checkpoints.take([index]), behavior.epsilon) for index in networks]
    logs_of_each = [
        np.log(np.take_along_axis(one.probabilities(logs.contexts), logs.actions[:, None], axis=1)[:, 0])
        for one in each
    ]
    return np.asarray(np.mean([np.exp(episode_sums(chances, logs.offsets)) for chances in logs_of_each], axis=0))


def test_propensities_multiply_to_the_chance_of_the_episode(logs: Trajectories) -> None:
    ours = np.exp(episode_sums(np.log(logs.logged_propensities), logs.offsets))
    np.testing.assert_allclose(ours, chances_of_actions(CartPoleBehavior(), logs), rtol=1e-9)


def test_along_the_logs_the_propensities_are_those_recorded(logs: Trajectories) -> None:
    assert logs.propensities is not None
    np.testing.assert_allclose(CartPoleBehavior().along(logs), logs.propensities, rtol=1e-9)


def test_acting_by_these_propensities_is_drawing_a_checkpoint(logs: Trajectories) -> None:
    """Lengths of both ways to collect: the mean, and the shares of beginners and of experts."""
    networks = QNetworks.published()
    drawn = np.concatenate(
        [
            run(CartPole(), CartPoleBehavior(networks.take([index])), 60, seed=(7, index)).lengths
            for index in range(len(networks))
        ]
    )
    figures = [(logs.lengths, drawn), (logs.lengths < 15, drawn < 15), (logs.lengths == STEPS, drawn == STEPS)]
    for ours, theirs in figures:
        error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
        assert abs(ours.mean() - theirs.mean()) < 4 * error


def test_importance_sampling_finds_the_expert(logs: Trajectories) -> None:
    """Weights of one of the checkpoints are bounded by their number, and estimate its value."""
    networks = QNetworks.published()
    expert = CartPoleBehavior(networks.take([-1]))
    chances = np.take_along_axis(expert.along(logs), logs.actions[:, None], axis=1)[:, 0]
    weights = np.exp(episode_sums(np.log(chances / logs.logged_propensities), logs.offsets))
    assert weights.max() <= len(networks) * (1 + 1e-9)
    estimate = (weights * logs.returns()).sum() / weights.sum()
    truth = run(CartPole(), expert, 200, seed=9).returns().mean()
    assert estimate == pytest.approx(truth, abs=12)


def test_logs_without_angular_velocity_are_the_same_episodes() -> None:
    full, partial = simulate("cartpole", 20, seed=4), simulate("cartpole", 20, seed=4, markov=False)
    assert partial.feature_names == ("position", "velocity", "angle")
    np.testing.assert_array_equal(partial.contexts, full.contexts[:, :3])
    np.testing.assert_array_equal(partial.actions, full.actions)
    np.testing.assert_array_equal(partial.propensities, full.propensities)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="epsilon"):
        CartPoleBehavior(epsilon=0.0)
    with pytest.raises(InputError, match=r"needs contexts \[N, 4\]"):
        CartPoleBehavior().probabilities(np.zeros((2, 3)))
