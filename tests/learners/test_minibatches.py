"""Ascent on a few episodes at a time, against the objective and the gradient of the whole log."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from poela.data.trajectories import Trajectories
from poela.learners.active import Minibatches, crm_objective
from poela.learners.policy_gradient import POCRM, POELA
from poela.learners.stacked import stack_key
from poela.learners.training_batch import TrainingBatch
from poela.networks.modules import NetworkShape
from poela.networks.stack import Stack
from poela.simulators.registry import simulate

FEW: dict[str, Any] = {"steps": 30, "warm_start_steps": 10, "hidden": (8,), "device": "cpu"}


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return simulate("tumor", episodes=60, seed=0)


@pytest.fixture
def batch(logs: Trajectories, stack: Stack) -> TrainingBatch:
    free = np.ones((logs.n_steps, logs.n_actions), np.bool_)
    free[0] = np.arange(logs.n_actions) != logs.actions[0]  # an episode without weight
    return TrainingBatch(logs, [free], stack, discount=1.0)


@pytest.fixture
def stack(logs: Trajectories) -> Stack:
    network = NetworkShape("mlp", logs.n_features, logs.n_actions, (8,)).build(seed=0)
    network.standardise_by(logs.contexts)
    stack = Stack([network]).double()
    stack.mean, stack.scale = stack.mean.double(), stack.scale.double()
    return stack


def gradient(log_weights: Tensor, batch: TrainingBatch, stack: Stack) -> Tensor:
    objective = crm_objective(log_weights, batch.returns, 1000.0, 0.5).sum()
    stack.zero_grad()
    objective.backward()  # type: ignore[no-untyped-call]
    return torch.cat([parameter.grad.flatten() for parameter in stack.parameters() if parameter.grad is not None])


@pytest.mark.parametrize("size", [10, 7, 60, 1000])
def test_gradients_of_one_round_average_to_that_of_the_whole_log(size: int, batch: TrainingBatch, stack: Stack) -> None:
    some, whole = Minibatches(batch, 1000.0, size, seed=0), batch.log_weights(stack)
    turns, slopes = -(-60 // size), []
    for step in range(turns):
        found = some.log_weights(stack, step)
        torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)  # the sums are those of the whole log
        slopes.append(gradient(found, batch, stack))
    # A turn's mean is over its episodes, of which the turns of a round may have one more or less.
    sizes = [len(part) for part in np.array_split(np.arange(60), turns)][::-1]
    mean = sum(slope * size / 60 for slope, size in zip(slopes, sizes, strict=True))
    torch.testing.assert_close(mean, gradient(whole, batch, stack), rtol=1e-10, atol=1e-12)


def test_drawn_episodes_are_fresh_and_the_others_as_last_seen(batch: TrainingBatch, stack: Stack) -> None:
    some = Minibatches(batch, 1000.0, 20, seed=0)
    before = batch.log_weights(stack)
    some.log_weights(stack, 0)
    with torch.no_grad():
        stack.biases[-1][0, 0, 0] += 1.0
    after = batch.log_weights(stack)
    for turn in (1, 2):
        found = some.log_weights(stack, turn)
        fresh = (found == after)[0] & (before != after)[0]
        assert 19 <= fresh.sum() <= 20 * turn
        torch.testing.assert_close(found[0, ~fresh], before[0, ~fresh])


def test_every_episode_with_weight_has_a_turn_in_every_round(batch: TrainingBatch, stack: Stack) -> None:
    some = Minibatches(batch, 1000.0, 20, seed=0)
    last_seen = torch.linspace(-60.0, 0.0, 60, dtype=torch.float64)[None]
    whole = [some._drawn(last_seen) for _ in range(3)]
    np.testing.assert_array_equal(np.sort(np.concatenate(whole)), np.arange(60))
    np.testing.assert_array_equal(some._drawn(last_seen), np.arange(46, 60))  # e⁻¹⁴ and less is below a millionth


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_the_same_seed_gives_the_same_bits(logs: Trajectories, network: str) -> None:
    learner = POELA(radius=0.5, batch_episodes=10, network=network, **FEW)
    first, second, other = (learner.fit(logs, seed=seed).along(logs) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_minibatches_reach_the_objective_of_the_whole_log() -> None:
    train = simulate("tumor", episodes=200, seed=1)
    settings: dict[str, Any] = {"learning_rate": 1e-3, "variance_penalty": 1.0, "device": "cpu", "checkpoints": 1}
    reached = []
    for learner in (POCRM(steps=150, **settings), POCRM(steps=600, batch_episodes=50, **settings)):
        chances = learner.fit(train, seed=0).probabilities(train.contexts)
        ratios = np.log(chances[np.arange(train.n_steps), train.actions] / train.logged_propensities)
        log_weights = torch.tensor(np.add.reduceat(ratios, train.offsets[:-1]))
        reached.append(float(crm_objective(log_weights, torch.tensor(train.returns(1.0)), 1000.0, 1.0)))
    whole, some = reached
    assert some > whole - 0.02 * abs(whole)


def test_learners_with_minibatches_are_no_stack() -> None:
    assert stack_key(POCRM(batch_episodes=5)) is None
