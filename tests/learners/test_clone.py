"""Clone: the behavior models' networks as policies under a rule; and POELA with memory."""

from typing import Any

import numpy as np
import pytest

from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.core.arrays import IntArray
from poela.core.errors import InputError, TrainingError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius
from poela.learners.clone import Clone
from poela.learners.policy_gradient import POELA
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth

QUICK: dict[str, Any] = {"hidden": (8, 8), "learning_rate": 0.02, "steps": 40, "device": "cpu"}


def logs_of(n_actions: int = 3) -> Trajectories:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 30)
    n = int(lengths.sum())
    return Trajectories(
        rng.normal(size=(n, 2)),
        rng.integers(3, size=n),
        rng.normal(size=n),
        np.r_[0, np.cumsum(lengths)],
        n_actions=n_actions,
    )


@pytest.mark.parametrize(
    ("network", "behavior", "kind"),
    [("mlp", CloneBehavior(**QUICK), "NetworkPolicy"), ("gru", RecurrentCloneBehavior(**QUICK), "RecurrentPolicy")],
)
def test_the_policy_is_the_behavior_model(network: str, behavior: CloneBehavior, kind: str) -> None:
    logs = logs_of()
    policy = Clone(network=network, **QUICK).fit(logs, seed=2)
    assert type(policy).__name__ == kind
    np.testing.assert_allclose(policy.along(logs), behavior.fit(logs, seed=2).along(logs), atol=1e-12)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_under_a_rule_probabilities_are_shared_out_among_the_eligible(network: str) -> None:
    logs = logs_of()
    free, ruled = (Clone(network=network, rule=rule, **QUICK).fit(logs) for rule in (None, Radius(0.1)))
    allowed = np.where(ruled.eligibility.mask(logs.contexts), free.along(logs), 0.0)
    np.testing.assert_allclose(ruled.along(logs), allowed / allowed.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_actions_never_logged_have_probability_exactly_zero(network: str) -> None:
    rows = Clone(network=network, **QUICK).fit(logs_of(n_actions=5)).along(logs_of())
    assert (rows[:, 3:] == 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1)


def test_the_tumor_behavior_is_found() -> None:
    logs = run(TumorGrowth(), TumorBehavior(), 100, seed=0)
    policy = Clone(learning_rate=0.01, steps=300, hidden=(32, 32), device="cpu").fit(logs)
    assert logs.propensities is not None
    assert np.abs(policy.along(logs) - logs.propensities).mean() < 0.05


def test_a_breakdown_leaves_the_best_policy_before_it() -> None:
    logs = logs_of()
    with pytest.raises(TrainingError) as caught:
        Clone(**{**QUICK, "learning_rate": 1e30, "steps": 200}).fit(logs)
    np.testing.assert_allclose(caught.value.last_good.along(logs).sum(axis=1), 1)


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(InputError, match="'mlp' or 'gru'"):
        Clone(network="lstm").fit(logs_of())


def signalled(episodes: int = 150) -> tuple[Trajectories, IntArray]:
    """A signal is shown in the first step only; the second step pays 1 if its action is the signal."""
    rng = np.random.default_rng(0)
    signal = rng.integers(2, size=episodes)
    contexts = np.zeros((2 * episodes, 1))
    contexts[::2, 0] = 2.0 * signal - 1.0
    actions = rng.integers(2, size=2 * episodes)
    rewards = np.where(np.arange(2 * episodes) % 2 == 1, actions == np.repeat(signal, 2), 0.0)
    offsets = np.arange(0, 2 * episodes + 1, 2)
    return Trajectories(contexts, actions, rewards, offsets, np.full((2 * episodes, 2), 0.5)), signal


@pytest.mark.parametrize(("network", "reached"), [("mlp", (0.4, 0.6)), ("gru", (0.9, 1.0))])
def test_poela_with_memory_learns_what_the_current_context_hides(network: str, reached: tuple[float, float]) -> None:
    logs, signal = signalled()
    learner = POELA(
        network=network,
        radius=1.0,
        steps=150,
        warm_start_steps=10,
        learning_rate=0.02,
        hidden=(8,),
        variance_penalty=0.0,
        device="cpu",
    )
    second = learner.fit(logs, seed=0).along(logs)[1::2]
    assert reached[0] <= second[np.arange(len(signal)), signal].mean() <= reached[1]
