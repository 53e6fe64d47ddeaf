"""Memory of the logging policy: noticed where it is, not where contexts tell all, and never from next to nothing."""

import warnings

import numpy as np
import pytest

from poela.behavior.history import Memory, memory_of
from poela.data.trajectories import Trajectories
from poela.simulators.cartpole import CartPole, CartPoleBehavior, QNetworks
from poela.simulators.episodes import run
from poela.simulators.registry import simulate


def repeating(
    episodes: int = 100, length: int = 6, again: float = 0.7, n_actions: int = 3, seed: int = 0
) -> Trajectories:
    """The last action once more, with this probability, or else a new one that the context makes likelier."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(episodes, length, 2))
    chosen = np.where(
        rng.random((episodes, length)) < 0.5, contexts[:, :, 0] > 0, rng.integers(0, n_actions, (episodes, length))
    )
    repeats = rng.random((episodes, length)) < again
    actions = np.array(chosen)
    for step in range(1, length):
        actions[:, step] = np.where(repeats[:, step], actions[:, step - 1], chosen[:, step])
    return Trajectories(
        contexts.reshape(-1, 2), actions.ravel(), np.zeros(actions.size), np.arange(0, actions.size + 1, length)
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_repeats_itself_is_noticed(seed: int) -> None:
    found = memory_of(repeating(seed=seed), seed)
    assert found.remembers
    assert found.steps == 600
    assert found.gain == pytest.approx(found.with_history - found.without)
    assert found.gain > 3 * found.standard_error > 0


def test_it_is_said_in_one_sentence() -> None:
    found = Memory(without=-0.9, with_history=-0.69, gain=0.21, standard_error=0.019, needed=0.06, steps=1000)
    assert str(found) == (
        "the logging policy remembers: with the last action and context its held-out likelihood is 0.21 nats per step "
        "higher (11 standard errors); add history (with_history) or log propensities"
    )
    none = Memory(without=-0.9, with_history=-0.91, gain=-0.01, standard_error=0.004, needed=0.012, steps=1000)
    assert str(none) == (
        "the logging policy does not seem to remember: with the last action and context its held-out likelihood is "
        "0.01 nats per step lower, and 0.012 would count"
    )


def expert(episodes: int, seed: int) -> Trajectories:
    return run(CartPole(), CartPoleBehavior(QNetworks.published().take([-1])), episodes, seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["tumor", "cartpole", "hidden-branch"])
def test_policies_of_the_context_alone_are_not_accused(name: str, seed: int) -> None:
    logs = expert(20, seed) if name == "cartpole" else simulate(name, 60, seed)
    assert not memory_of(logs, seed).remembers


def test_few_clusters_tell_nothing() -> None:
    logs = repeating()
    few = Trajectories(logs.contexts, logs.actions, logs.rewards, logs.offsets, clusters=np.arange(100) % 9)
    found = memory_of(few)
    assert (found.steps, found.remembers) == (0, False)
    assert str(found).startswith("these logs cannot tell whether the logging policy remembers")


def test_errors_are_those_of_clusters() -> None:
    """Episodes that occur ten times over, in one cluster each, tell no more than they do once."""
    logs = repeating(episodes=30, seed=1)
    copies = logs.take(np.repeat(np.arange(30), 5))
    named = Trajectories(
        copies.contexts, copies.actions, copies.rewards, copies.offsets, clusters=np.repeat(np.arange(30), 5)
    )
    assert memory_of(named).standard_error > 1.8 * memory_of(copies).standard_error


def test_nothing_to_remember() -> None:
    assert memory_of(simulate("bandit", 50)).steps == 0
    assert memory_of(repeating(episodes=8)).steps == 0
    assert memory_of(repeating().with_history(1)).steps == 0
    logs = repeating()
    assert memory_of(Trajectories(logs.contexts, logs.actions * 0, logs.rewards, logs.offsets)).steps == 0


def test_it_is_quiet_repeatable_and_bounded() -> None:
    logs = repeating(episodes=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = memory_of(logs, seed=2)
    assert found.steps == 6000
    assert memory_of(logs, seed=2) == found
