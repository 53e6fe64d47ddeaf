"""The training loop finds minima and speaks up when training breaks down."""

import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from poela.core.errors import PoelaWarning, TrainingError
from poela.networks.modules import NetworkShape
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


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_steps_are_those_of_torch_to_the_last_bit(weight_decay: float) -> None:
    inputs = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    networks = []
    for _ in range(2):
        torch.manual_seed(1)
        networks.append(nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 1)))
    ours, plain = networks

    def loss(network: nn.Module) -> torch.Tensor:
        value: torch.Tensor = (network(inputs) - inputs[:, :1]).square().mean()
        return value

    for _ in train_steps(
        ours, lambda step: loss(ours), name="toy", steps=60, learning_rate=0.03, weight_decay=weight_decay
    ):
        pass
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.03, weight_decay=weight_decay, fused=True)
    for _ in range(60):
        optimizer.zero_grad()
        loss(plain).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_what_has_no_gradient_stays() -> None:
    used, unused = nn.Linear(1, 1), nn.Linear(1, 1)
    before = unused.weight.detach().clone()
    run(nn.ModuleList([used, unused]), lambda step: used.weight.square().sum() + used.bias.sum())
    assert torch.equal(unused.weight, before)


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


def test_what_the_user_has_set_for_torch_does_not_matter_and_stays() -> None:
    def learned() -> torch.Tensor:
        network = NetworkShape("mlp", 2, 1, (4,)).build(seed=0)
        contexts = torch.ones(3, 2, dtype=torch.float32)

        def loss(step: int) -> torch.Tensor:
            return network.along(contexts, torch.zeros(0, dtype=torch.long), None).square().mean()

        for _ in train_steps(network, loss, name="toy", steps=3, learning_rate=0.1):
            pass
        return torch.cat([parameter.detach().ravel() for parameter in network.parameters()])

    plain = learned()
    with torch.no_grad():
        assert torch.equal(learned(), plain)
        assert not torch.is_grad_enabled()
    torch.set_default_dtype(torch.float64)
    try:
        assert learned().dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_ctrl_c_while_torch_turns_gradients_off() -> None:
    network = NetworkShape("mlp", 2, 1, (4,)).build(seed=0)

    def loss(step: int) -> torch.Tensor:
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(train_steps(network, loss, name="toy", steps=1, learning_rate=0.1))
    assert torch.is_grad_enabled()


def test_several_losses_go_back_as_each_alone_would() -> None:
    """A single loss has no slope of its own handed to torch, several have: the steps are the same bits."""
    together, alone = (nn.Linear(2, 3, bias=False) for _ in range(2))
    alone.load_state_dict(together.state_dict())
    targets = torch.tensor([1.0, -2.0, 3.0])

    def losses(network: nn.Linear) -> torch.Tensor:
        return (network.weight.sum(dim=1) - targets).square()

    for _ in train_steps(together, lambda step: losses(together), name=["a", "b", "c"], steps=40, learning_rate=0.05):
        pass
    run(alone, lambda step: losses(alone).sum(), steps=40)
    assert torch.equal(together.weight, alone.weight)


def test_training_alone_does_without_an_algebra_system() -> None:
    """Importing it costs as much as some hundred steps and thirty megabytes, in every worker process."""
    code = (
        "import sys; from torch import nn; from poela.networks.training import train_steps\n"
        "network = nn.Linear(1, 1)\n"
        "list(train_steps(network, lambda step: network.weight.square().sum(), name='a', steps=2, learning_rate=0.1))\n"
        "sys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
