"""Ascent on the episodes with weight alone, against ascent on the whole log."""

from typing import Any

import numpy as np
import pytest
import torch

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.learners import active
from poela.learners.active import ActiveEpisodes, crm_objective
from poela.learners.learner import Learner
from poela.learners.policy_gradient import POCRM, POELA
from poela.learners.stacked import Member, fit_stacked
from poela.learners.training_batch import Ruled, TrainingBatch
from poela.networks.modules import NetworkShape
from poela.networks.stack import RecurrentStack, Stack, stack_of
from poela.simulators.registry import simulate

CPU = torch.device("cpu")
GRADIENT: dict[str, Any] = {"steps": 100, "learning_rate": 3e-3, "warm_start_steps": 50, "checkpoints": 1}


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return simulate("tumor", episodes=200, seed=0)


def batch_of(logs: Trajectories, stack: Stack | RecurrentStack) -> TrainingBatch:
    free = np.ones((logs.n_steps, logs.n_actions), np.bool_)
    return TrainingBatch(logs, [free], stack, discount=1.0)


def stack_with(logs: Trajectories, kind: str, lean: float) -> Stack | RecurrentStack:
    """A network that leans towards one action, in float64."""
    stack = stack_of(NetworkShape(kind, logs.n_features, logs.n_actions, (8,)), [0], logs.contexts, CPU).double()
    if isinstance(stack, Stack):
        stack.mean, stack.scale = stack.mean.double(), stack.scale.double()
    bias = stack.biases[-1][0, 0] if isinstance(stack, Stack) else stack.network.get_parameter("output.bias")
    with torch.no_grad():
        bias[1] += lean
    return stack


@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_the_objective_and_its_gradient_are_those_of_the_whole_log(logs: Trajectories, kind: str) -> None:
    stack = stack_with(logs, kind, lean=2.0)
    batch = batch_of(logs, stack)
    some = ActiveEpisodes(batch, 1000.0)
    some.log_weights(stack, 0)
    found, whole = some.log_weights(stack, 1), batch.log_weights(stack)
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)
    left_out = torch.ones(logs.n_episodes, dtype=torch.bool)
    left_out[some.parts[0].episodes] = False
    assert 0.2 < left_out.double().mean() < 1  # or nothing is tested
    assert whole[:, left_out].exp().sum() <= 1e-6 * whole.exp().sum()
    slopes = []
    for own in (found, whole):
        stack.zero_grad()
        crm_objective(own, batch.returns, 1000.0, 0.1).sum().backward()  # type: ignore[no-untyped-call]
        slopes.append([parameter.grad for parameter in stack.parameters()])
    for ours, plain in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-3 * float(plain.abs().max()))


def test_an_episode_that_was_left_out_comes_back_with_the_next_look(logs: Trajectories) -> None:
    even = stack_with(logs, "mlp", lean=0.0)
    batch = batch_of(logs, even)
    some = ActiveEpisodes(batch, 1000.0)
    some.log_weights(stack_with(logs, "mlp", lean=8.0), 0)
    assert ((some.log_weights(even, 19) - batch.log_weights(even)).abs() > 1).any()
    for step in (20, 21):
        torch.testing.assert_close(some.log_weights(even, step), batch.log_weights(even))


def test_nan_is_not_left_out(logs: Trajectories) -> None:
    stack = stack_with(logs, "mlp", lean=torch.nan)
    some = ActiveEpisodes(batch_of(logs, stack), 1000.0)
    some.log_weights(stack, 0)
    assert torch.isnan(some.log_weights(stack, 1)).all()


def scores(learners: list[Learner], logs: Trajectories) -> list[FloatArray]:
    found = fit_stacked([Member(learner, 3) for learner in learners], logs)
    return [learned.checkpoints[-1].policy.probabilities(logs.contexts) for learned in found]


def test_learned_policies_are_those_of_the_whole_log(logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = Ruled.log_weights

    def recorded(ruled: Ruled, stack: Stack) -> torch.Tensor:
        asked.append(len(ruled.settled))
        return plain(ruled, stack)

    monkeypatch.setattr(Ruled, "log_weights", recorded)
    learners: list[Learner] = [POELA(radius=0.5, **GRADIENT), POCRM(variance_penalty=1.0, **GRADIENT)]
    some = scores(learners, logs)
    assert min(asked) < 0.5 * logs.n_episodes
    monkeypatch.setattr(active, "LOOK_EVERY", 1)
    for ours, whole in zip(some, scores(learners, logs), strict=True):
        np.testing.assert_allclose(ours, whole, atol=1e-3)
