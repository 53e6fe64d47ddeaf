"""The Gymnasium environments: agreement with the vectorised core."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import poela.simulators.environments  # noqa: F401 - registers
from poela.simulators.tumor import TumorGrowth, TumorState

NAMES = ["poela/TumorGrowth-v0", "poela/TumorGrowthMarkov-v0"]


@pytest.mark.parametrize("name", NAMES)
def test_environment_and_core_give_the_same_episode(name: str) -> None:
    environment = gymnasium.make(name).unwrapped
    context, _ = environment.reset(seed=4)
    core, state = TumorGrowth(markov="Markov" in name), TumorState.start(environment.state.patients)
    np.testing.assert_array_equal(context, core.contexts(state)[0])
    for month, action in enumerate(np.random.default_rng(0).integers(2, size=30)):
        context, reward, terminated, truncated, _ = environment.step(action)
        state, rewards, ended = core.step(state, np.array([action]))
        np.testing.assert_array_equal(context, core.contexts(state)[0])
        assert reward == rewards[0]
        assert terminated == ended[0] == (month == 29)
        assert not truncated


def test_equal_seeds_give_equal_patients_and_the_next_reset_another() -> None:
    environment = gymnasium.make(NAMES[0])
    first, again = environment.reset(seed=1)[0], environment.reset(seed=1)[0]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, environment.reset()[0])


@pytest.mark.parametrize("name", NAMES)
def test_contexts_stay_in_the_observation_space(name: str) -> None:
    for always, drug in [(0, "PCV"), (1, "PCV"), (1, "RT"), (1, "TMZ")]:
        environment = gymnasium.make(name, drug=drug).unwrapped
        environment.reset(seed=0)
        for _ in range(30):
            assert environment.step(always)[0] in environment.observation_space


def test_gymnasium_finds_the_environments_by_the_name_of_the_module() -> None:
    code = "import gymnasium; gymnasium.make('poela.simulators.environments:poela/TumorGrowth-v0').reset(seed=0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
