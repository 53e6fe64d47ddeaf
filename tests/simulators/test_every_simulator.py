"""What every simulator in the table promises, and every environment that is registered."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import poela.simulators.environments  # noqa: F401 - registers
from poela.simulators.episodes import StepNoise, run
from poela.simulators.registry import SOURCES, simulate, source

ENVIRONMENTS = sorted(name for name in gymnasium.registry if name.startswith("poela/"))


@pytest.mark.parametrize("name", SOURCES)
def test_an_episode_depends_on_its_seed_and_number_alone(name: str) -> None:
    task = source(name)
    whole, few = (run(task.simulator, task.behavior, n, seed=2) for n in (40, 15))
    pieces = run(task.simulator, task.behavior, 40, seed=2, batch=9)
    for other, same in [(few, whole.take(np.arange(15))), (pieces, whole)]:
        np.testing.assert_array_equal(other.offsets, same.offsets)
        np.testing.assert_array_equal(other.actions, same.actions)
        np.testing.assert_array_equal(other.rewards, same.rewards)
        np.testing.assert_array_equal(other.contexts, same.contexts)
        # Matrix products may round differently in other batches.
        np.testing.assert_allclose(other.log_propensities, same.log_propensities, rtol=1e-9)


@pytest.mark.parametrize("name", SOURCES)
def test_logs_differ_between_seeds(name: str) -> None:
    first, second = simulate(name, episodes=40, seed=0), simulate(name, episodes=40, seed=1)
    assert not np.array_equal(first.actions, second.actions)


@pytest.mark.parametrize("name", SOURCES)
def test_a_step_leaves_the_given_state_as_it_is(name: str) -> None:
    simulator = source(name).simulator
    state = simulator.reset(6, StepNoise(0, 0, 0, 6))
    before = simulator.contexts(state).copy()
    width = len(simulator.action_names)
    real = getattr(simulator, "real_valued", False)
    actions = np.full((6, width), 0.5) if real else np.arange(6) % width
    first = simulator.step(state, actions, StepNoise(0, 1, 0, 6))
    again = simulator.step(state, actions, StepNoise(0, 1, 0, 6))
    np.testing.assert_array_equal(simulator.contexts(state), before)
    np.testing.assert_array_equal(first[1], again[1])
    np.testing.assert_array_equal(simulator.contexts(first[0]), simulator.contexts(again[0]))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasium_has_nothing_to_say(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped)  # its advice comes as warnings, which are errors here
