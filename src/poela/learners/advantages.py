"""How much better a logged step went than its context let expect: advantages over a fitted network of values."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import FloatArray, IntArray
from poela.core.ragged import lengths_of
from poela.data.trajectories import Trajectories
from poela.networks.modules import Hidden, Network, NetworkShape
from poela.networks.outputs import outputs_at
from poela.networks.training import train_steps

BATCH_ROWS = 2048


def generalised_advantages(
    rewards: FloatArray, values: FloatArray, offsets: IntArray, discount: float, trace: float
) -> FloatArray:
    """Σ (γλ)^k·(r + γV′ − V) from each step on [N]; nothing follows the end of an episode (Schulman et al. 2016).

    With λ = 1 it is the return from each step on, less the value there.

    >>> generalised_advantages(np.array([1.0, 2.0]), np.array([0.5, 0.5]), np.array([0, 2]), 1.0, 1.0)
    array([2.5, 1.5])
    """
    following = np.append(values[1:], 0.0)
    following[offsets[1:] - 1] = 0.0
    surprises = rewards + discount * following - values
    found = np.array(surprises)
    lengths, first = lengths_of(offsets), offsets[:-1]
    for step in range(int(lengths.max()) - 2, -1, -1):  # all episodes at once, from the end
        rows = first[lengths > step + 1] + step
        found[rows] += discount * trace * found[rows + 1]
    return found


def returns_to_go(logs: Trajectories, discount: float) -> FloatArray:
    """The discounted sum of rewards from each step on [N]."""
    return generalised_advantages(logs.rewards, np.zeros(logs.n_steps), logs.offsets, discount, 1.0)


def fitted_values(
    logs: Trajectories, discount: float, hidden: Hidden, steps: int, seed: int, device: torch.device
) -> FloatArray:
    """V along the logs [N], by regression of the returns from each step on."""
    targets = returns_to_go(logs, discount)
    centre, spread = targets.mean(), targets.std() or 1.0
    network = NetworkShape("mlp", logs.n_features, 1, hidden).build(seed)
    network.standardise_by(logs.contexts)
    network.to(device)
    contexts = torch.tensor(logs.contexts, device=device)
    scaled = torch.tensor((targets - centre) / spread, dtype=torch.float32, device=device)
    batch = batches(logs.n_steps, BATCH_ROWS, seed, device)

    def loss(step: int) -> Tensor:
        rows = batch()
        return (plain_outputs(network, contexts[rows])[:, 0] - scaled[rows]).square().mean()

    for _ in train_steps(network, loss, name="values", steps=steps, learning_rate=1e-3, weight_decay=1e-4):
        pass
    return np.asarray(outputs_at(network.on_cpu(), logs.contexts)[:, 0] * spread + centre)


def plain_outputs(network: Network, inputs: Tensor) -> Tensor:
    """The outputs of a network without memory, with gradients."""
    return network.along(inputs, torch.zeros(0, dtype=torch.long), None)


def batches(n: int, size: int, seed: int, device: torch.device) -> Callable[[], Tensor]:
    """Draws rows, the same for the same seed; all of them where they fit into one batch."""
    rng = np.random.default_rng([seed, 2])
    every = torch.arange(n, device=device)
    return lambda: every if n <= size else torch.as_tensor(rng.integers(n, size=size), device=device)
