"""Recurrent networks over ragged episodes agree with running each episode alone."""

import itertools

import numpy as np
import torch

from poela.networks.modules import GRU, NetworkShape, seeded
from poela.networks.packing import Packing

OFFSETS = np.array([0, 2, 3, 7])


def gru() -> GRU:
    network = NetworkShape("gru", n_inputs=2, n_outputs=3, hidden=(5, 5)).build(seed=1)
    assert isinstance(network, GRU)
    return network


def test_packed_steps_come_back_in_place() -> None:
    packing = Packing.of(OFFSETS)
    flat = torch.arange(7.0)[:, None]
    assert torch.equal(packing.unpack(packing.pack(flat)), flat)


def test_previous_rows_start_at_zero_in_every_episode() -> None:
    previous = Packing.of(OFFSETS).shifted(torch.arange(1.0, 8.0)[:, None])[:, 0]
    assert previous.tolist() == [0, 1, 0, 0, 4, 5, 6]


def test_ragged_batch_equals_each_episode_alone() -> None:
    network = gru()
    contexts, actions = torch.randn(7, 2), torch.randint(0, 3, (7,))
    together = network.along(contexts, actions, Packing.of(OFFSETS))
    for start, end in itertools.pairwise(OFFSETS):
        alone = network.along(contexts[start:end], actions[start:end], Packing.of(np.array([0, end - start])))
        torch.testing.assert_close(together[start:end], alone)


def test_stepping_equals_the_whole_episode() -> None:
    network = gru()
    contexts, actions = torch.randn(4, 2), torch.tensor([0, 2, 1, 1])
    whole = network.along(contexts, actions, Packing.of(np.array([0, 4])))
    previous, memory = torch.zeros(1, 3), None
    for step in range(4):
        logits, memory = network.step(contexts[step : step + 1], previous, memory)
        torch.testing.assert_close(logits[0], whole[step])
        previous = torch.nn.functional.one_hot(actions[step : step + 1], 3).float()


def test_seeds_decide_the_weights_and_leave_torch_alone() -> None:
    shape = NetworkShape("mlp", 2, 2, (4,))
    before = torch.random.get_rng_state()
    first, again, other = (shape.build(seed).weights() for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["layers.0.weight"], other["layers.0.weight"])


def test_standardising_ignores_constant_features() -> None:
    network = NetworkShape("mlp", 2, 2, (4,)).build(seed=0)
    contexts = np.array([[1.0, 7.0], [3.0, 7.0]], np.float32)
    network.standardise_by(contexts)
    np.testing.assert_allclose(network.standardised(torch.as_tensor(contexts)).numpy(), [[-1, 0], [1, 0]])


def test_seeded_restores_the_state() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with seeded(99):
        torch.rand(5)
    assert torch.equal(torch.rand(1), expected)
