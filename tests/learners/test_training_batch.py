"""Weights and warm-start losses of several policies at once, against sums over steps written out in NumPy."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from poela.core.arrays import BoolArray, FloatArray
from poela.core.ragged import rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.learners.training_batch import TrainingBatch
from poela.networks.modules import NetworkShape
from poela.networks.outputs import outputs_at
from poela.networks.stack import Stack

RNG = np.random.default_rng(0)
RAGGED, EVEN = np.array([0, 1, 4, 6, 11]), np.array([0, 3, 6, 9, 12])
NETWORKS = [NetworkShape("mlp", 2, 3, (5,)).build(seed) for seed in range(3)]


def logs_of(offsets: np.ndarray) -> Trajectories:
    n = offsets[-1]
    chances = RNG.dirichlet(np.ones(3), size=n)
    return Trajectories(RNG.normal(size=(n, 2)), RNG.integers(3, size=n), RNG.normal(size=n), offsets, chances)


def rules_of(logs: Trajectories) -> list[BoolArray]:
    """Of three policies: the second bars a logged action, and the first and last share one."""
    free: BoolArray = np.ones((logs.n_steps, 3), np.bool_)
    free[::2, 2] = logs.actions[::2] == 2
    free[0] = np.arange(3) == logs.actions[0]  # nothing to choose, for none of them
    strict = free.copy()
    strict[-1] = np.arange(3) == (logs.actions[-1] + 1) % 3
    return [free, strict, free]


def log_policy(number: int, logs: Trajectories, eligible: BoolArray) -> FloatArray:
    logits = np.where(eligible, outputs_at(NETWORKS[number], logs.contexts), -np.inf)
    found: FloatArray = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return found


def batch_of(logs: Trajectories, eligible: list[BoolArray]) -> TrainingBatch:
    return TrainingBatch(logs, eligible, Stack(NETWORKS), discount=1.0)


@pytest.mark.parametrize("offsets", [RAGGED, EVEN], ids=["ragged", "even"])
def test_log_weights_are_sums_of_log_ratios_over_each_episode(offsets: np.ndarray) -> None:
    logs = logs_of(offsets)
    eligible = rules_of(logs)
    found = batch_of(logs, eligible).log_weights(Stack(NETWORKS)).detach().numpy()
    for number, mask in enumerate(eligible):
        logged = log_policy(number, logs, mask)[np.arange(logs.n_steps), logs.actions]
        ratios = logged - np.log(logs.logged_propensities)
        expected = [ratios[start:end].sum() for start, end in itertools.pairwise(offsets)]
        np.testing.assert_allclose(found[number], expected, atol=1e-5)
    assert found[1, -1] == -np.inf


@pytest.mark.parametrize("known", [True, False], ids=["all propensities", "logged propensities"])
@pytest.mark.parametrize("last_steps", [True, False])
def test_warm_start_losses_are_cross_entropies_on_the_drawn_episodes(known: bool, last_steps: bool) -> None:
    logs = logs_of(RAGGED)
    eligible = rules_of(logs)
    assert logs.propensities is not None
    if not known:
        logs = logs.with_propensities(logs.logged_propensities)
    drawn = [np.array([0, 3]), np.array([1, 3])]  # of 6 and 8 steps, the last of which the second rule bars
    whose = [0, 1, 1]
    batch = batch_of(logs, eligible)
    found = batch.cloning_losses(Stack(NETWORKS), drawn, torch.tensor(whose), last_steps).detach().numpy()
    for number, mask in enumerate(eligible):
        log = log_policy(number, logs, mask)
        targets = np.eye(3)[logs.actions] * mask
        if known:
            assert logs.propensities is not None
            targets = logs.propensities * mask
            targets = targets / targets.sum(axis=1, keepdims=True)
        losses = -(targets * np.where(mask, log, 0.0)).sum(axis=1)
        rows, offsets = rows_of_episodes(drawn[whose[number]], RAGGED)
        if not last_steps:
            rows = np.delete(rows, offsets[1:] - 1)
        assert found[number] == pytest.approx(losses[rows].mean(), rel=1e-5)


def test_networks_are_asked_only_where_their_own_rule_leaves_a_choice_and_a_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = logs_of(RAGGED)
    free, strict, _ = rules_of(logs)
    strict[1] = np.arange(3) == logs.actions[1]
    asked = []
    plain = Stack.inputs

    def recorded(stack: Stack, contexts: Tensor) -> Tensor:
        asked.append(contexts)
        return plain(stack, contexts)

    monkeypatch.setattr(Stack, "inputs", recorded)
    batch_of(logs, [free, free, strict]).log_weights(Stack(NETWORKS))
    assert len(asked) == 2  # the last episode has no weight under the strict rule
    for contexts, rows in zip(asked, (slice(1, 11), slice(2, 6)), strict=True):
        np.testing.assert_array_equal(contexts.numpy(), logs.contexts[rows])


def test_policies_that_give_nan_are_told_by_number() -> None:
    logs = logs_of(RAGGED)
    stack = Stack(NETWORKS)
    with torch.no_grad():
        stack.weights[0][1] = torch.nan
    assert batch_of(logs, rules_of(logs)).broken_by(stack) == [1]
