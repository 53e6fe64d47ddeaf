"""Weights below the least normal number: none is made in training on the CPU, none is in a policy."""

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from poela.networks.modules import Network, NetworkShape
from poela.networks.stack import Stack
from poela.networks.subnormals import LEAST, no_subnormals
from poela.networks.training import train_steps


def subnormal(network: nn.Module) -> int:
    """How many of its weights are."""
    return sum(int(((weight != 0) & (weight.abs() < LEAST)).sum()) for weight in network.parameters())


def with_subnormals() -> Network:
    """A network whose biases are."""
    network = NetworkShape("mlp", 3, 2, (8,)).build(seed=0)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.fill_(LEAST / 4)
    return network


def test_training_makes_none() -> None:
    layer = nn.Linear(1, 1, bias=False)
    seen = []

    def loss(step: int) -> Tensor:
        seen.append(float(torch.tensor(LEAST) / 2))
        return layer.weight.square().sum()

    between = [float(torch.tensor(LEAST) / 2) for _ in train_steps(layer, loss, name="toy", steps=3, learning_rate=0.1)]
    assert seen == [0, 0, 0]
    assert all(between)  # what others compute is left alone


@pytest.mark.parametrize("copy", [Network.on_cpu, lambda network: Stack([network]).members()[0]])
def test_no_policy_has_them(copy) -> None:  # type: ignore[no-untyped-def]
    network = with_subnormals()
    contexts = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert subnormal(network)
    assert not subnormal(copy(network))
    before, after = (one.along(contexts, torch.zeros(0), None).detach() for one in (network, copy(network)))
    assert torch.equal(before, after)


def test_what_was_set_before_is_set_again() -> None:
    half = torch.tensor(LEAST) / 2
    with no_subnormals():
        assert float(torch.tensor(LEAST) / 2) == 0
    assert float(torch.tensor(LEAST) / 2) == float(half) > 0
    torch.set_flush_denormal(True)
    try:
        with no_subnormals():
            pass
        assert float(torch.tensor(LEAST) / 2) == 0
    finally:
        torch.set_flush_denormal(False)


THREADS = """
import numpy as np, torch
from poela import POCRM, Trajectories
rng = np.random.default_rng(0)
logs = Trajectories(
    rng.normal(size=(4000, 2)), rng.integers(0, 2, 4000), rng.normal(size=4000), np.arange(0, 4001, 10),
    propensities=np.full((4000, 2), 0.5),
)
POCRM(steps=3, warm_start_steps=3, device="cpu").fit(logs)
assert torch.get_num_threads() == 2
print(int((torch.full((1 << 21,), 1e-40) * 1.0 == 0).sum()))
"""


def test_no_thread_keeps_the_setting() -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
