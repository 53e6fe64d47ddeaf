"""A network's outputs on flat logged steps, in float64 and in pieces, so that memory stays bounded."""

import numpy as np
import torch

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import rows_of_episodes
from poela.networks.modules import Network
from poela.networks.packing import Packing

ROWS_AT_A_TIME = 65536


@torch.no_grad()
def outputs_at(network: Network, contexts: Float32Array) -> FloatArray:
    """Outputs [N, A] of a network that looks at the current context alone.

    >>> from poela.networks.modules import NetworkShape
    >>> outputs_at(NetworkShape("mlp", 3, 2, (8,)).build(seed=0), np.zeros((5, 3), np.float32)).shape
    (5, 2)
    """
    if network.remembers:
        raise InputError("a recurrent network needs whole episodes, not loose contexts")
    no_actions = torch.zeros(0, dtype=torch.long)
    parts = [
        network.along(torch.tensor(contexts[start : start + ROWS_AT_A_TIME]), no_actions, None).double().numpy()
        for start in range(0, max(len(contexts), 1), ROWS_AT_A_TIME)
    ]
    return np.concatenate(parts)


@torch.no_grad()
def outputs_along(network: Network, contexts: Float32Array, actions: IntArray, offsets: IntArray) -> FloatArray:
    """Outputs [N, A] along whole episodes, with or without memory.

    >>> from poela.networks.modules import NetworkShape
    >>> network = NetworkShape("gru", 3, 2, (8,)).build(seed=0)
    >>> outputs_along(network, np.zeros((5, 3), np.float32), np.zeros(5, np.int64), np.array([0, 2, 5])).shape
    (5, 2)
    """
    if not network.remembers:
        return outputs_at(network, contexts)
    result = np.empty((len(contexts), network.shape.n_outputs))
    # The longest episodes share a piece, so that no piece runs many steps for the sake of one episode.
    longest_first = np.argsort(-np.diff(offsets), kind="stable")
    piece = np.cumsum(np.diff(offsets)[longest_first]) // ROWS_AT_A_TIME
    for episodes in np.split(longest_first, np.flatnonzero(np.diff(piece)) + 1):
        rows, packed_offsets = rows_of_episodes(episodes, offsets)
        packing = Packing.of(packed_offsets)
        result[rows] = network.along(torch.tensor(contexts[rows]), torch.tensor(actions[rows]), packing).double()
    return result
