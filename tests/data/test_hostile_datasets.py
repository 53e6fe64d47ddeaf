"""Minari data sets and arrays with something odd in them: logs, or one sentence that quotes nothing that was logged."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import poela
from poela.core.errors import InputError, PoelaError

SECRET = "SECRET-77125"
ODD: tuple[Any, ...] = (
    None, SECRET, [], {}, np.nan, np.inf, -1, 2**70, 1e308, [[1], [2, 3]], np.array([SECRET, SECRET], object),
    np.array([1 + 2j, 1j]), np.zeros((2, 3, 4)), np.float32(3), b"x", {"a": [1, 2]}, np.array([0, 5]),
    np.array([-1, 0]), np.array([0.5, 1.5]), [True, False], [10**30, 1], range(2), {1}, len,
)  # fmt: skip


class Odd:
    """Gives values, and now and then something else."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, plain: Any, share: float = 0.06) -> Any:
        return ODD[self.rng.integers(len(ODD))] if self.rng.random() < share else plain


class Episode(SimpleNamespace):
    """As Minari gives them."""

    n: int

    def __len__(self) -> int:
        return self.n


def episode(odd: Odd, discrete: bool, real: bool) -> Episode:
    n = int(odd.rng.integers(1, 4))
    observations = odd.rng.integers(0, 4, n + 1) if discrete else odd.rng.normal(size=(n + 1, 3))
    known = {"log_density": odd(np.zeros(n))} if real else {"propensities": odd(np.full((n, 2), 0.5))}
    return Episode(
        n=n,
        id=odd(0, 0.05),
        observations=odd(observations),
        actions=odd(odd.rng.normal(size=(n, 2)) if real else odd.rng.integers(0, 2, n)),
        rewards=odd(odd.rng.normal(size=n)),
        terminations=odd(np.arange(n) == n - 1),
        infos=odd(known if odd.rng.random() < 0.5 else {}),
    )


def dataset(odd: Odd) -> Any:
    discrete, real = odd.rng.random() < 0.4, odd.rng.random() < 0.3
    episodes = [episode(odd, discrete, real) for _ in range(odd.rng.integers(1, 4))]
    notes = {
        "features": odd(["a", "b", "c"]),
        "actions": odd(["x", "y"]),
        "episodes": odd([0]),
        "estimated": odd(False),
    }
    return SimpleNamespace(
        observation_space=odd(Discrete(4) if discrete else Box(-9, 9, (3,)), 0.03),
        action_space=odd(Box(-1, 1, (2,)) if real else Discrete(2), 0.03),
        iterate_episodes=lambda: odd(episodes, 0.02),
        storage=SimpleNamespace(
            total_episodes=len(episodes), metadata=odd({"poela": odd(notes)} if odd.rng.random() < 0.3 else {})
        ),
    )


@pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")
def test_odd_datasets_are_read_or_refused_in_words() -> None:
    odd, said = Odd(0), []
    for _ in range(400):
        try:
            poela.from_minari(dataset(odd))
        except PoelaError as error:
            said.append(str(error))
    assert 20 < len(said) < 380
    assert not [one for one in said if "77125" in one]


def test_odd_arrays_are_read_or_refused_in_words() -> None:
    odd, said, n = Odd(1), [], 8
    for _ in range(400):
        try:
            poela.Trajectories.from_mdp_arrays(
                odd(odd.rng.normal(size=(n, 3))),
                odd(odd.rng.integers(0, 3, n)),
                odd(odd.rng.normal(size=n)),
                odd((np.arange(n) % 4 == 3) * 1.0),
                action_size=odd(3),
            )
        except PoelaError as error:
            said.append(str(error))
    assert 20 < len(said) < 380
    assert not [one for one in said if "77125" in one]


@pytest.mark.parametrize("value", [-1, 4, 2.5])
def test_discrete_observations_outside_of_their_space_are_no_others(value: float) -> None:
    """−1 was once taken for the last one."""
    one = Episode(
        n=2,
        id=0,
        observations=np.array([1, value, 0]),
        actions=[0, 1],
        rewards=[0.0, 1.0],
        terminations=[0, 1],
        infos={},
    )
    odd = SimpleNamespace(
        observation_space=Discrete(4), action_space=Discrete(2), iterate_episodes=lambda: [one],
        storage=SimpleNamespace(total_episodes=1, metadata={}),
    )  # fmt: skip
    with pytest.raises(InputError, match="1 value among the observations of an episode lie outside the 4"):
        poela.from_minari(odd)
