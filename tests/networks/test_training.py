"""The training loop finds minima and speaks up when training breaks down."""

import warnings

import pytest
import torch
from torch import nn

from poela.core.errors import PoelaWarning, TrainingError
from poela.networks.training import train_steps


def run(network: nn.Module, loss: object, steps: int = 300) -> None:
    for _ in train_steps(network, loss, name="toy", steps=steps, learning_rate=0.05):  # type: ignore[arg-type]
        pass


def test_finds_the_least_squares_solution() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(50, 2)
    targets = inputs @ torch.tensor([[2.0], [-1.0]]) + 0.5
    network = nn.Linear(2, 1)
    run(network, lambda step: (network(inputs) - targets).square().mean())
    torch.testing.assert_close(network.weight, torch.tensor([[2.0, -1.0]]), atol=0.02, rtol=0)
    torch.testing.assert_close(network.bias, torch.tensor([0.5]), atol=0.02, rtol=0)


def test_nan_loss_is_named_with_its_step() -> None:
    network = nn.Linear(1, 1)
    with pytest.raises(TrainingError, match="toy: the loss or its gradient became NaN or infinite at step 20"):
        run(network, lambda step: network.weight.sum() * (float("nan") if step >= 11 else 1.0))


def test_dead_gradient_is_warned_of_once() -> None:
    network = nn.Linear(1, 1)
    with pytest.warns(PoelaWarning, match="exactly zero") as caught:
        run(network, lambda step: torch.relu(network.weight * 0 - 1).sum() + 0 * network.bias.sum(), steps=100)
    assert len(caught) == 1


def test_a_live_gradient_is_not_warned_of() -> None:
    network = nn.Linear(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(network, lambda step: (network.weight - 1).square().sum() + network.bias.square().sum())
