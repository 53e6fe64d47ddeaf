"""A network as a Gaussian of real-valued actions: the first half of its outputs are means, the rest log deviations.

Both are on the scale of the logged actions, standardised: a network that gives zeros acts about as the whole log did.
"""

import torch
from torch import Tensor

from poela.core.policy import HALF_LOG_TWO_PI
from poela.networks.modules import Network

LOG_STD = (-3.0, 1.5)  # between a twentieth of and about five times the deviation of all logged actions


def gaussian_outputs(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log deviations [N, m] from outputs [N, 2m].

    >>> gaussian_outputs(torch.tensor([[0.5, 9.0]]))
    (tensor([[0.5000]]), tensor([[1.5000]]))
    """
    mean, log_std = outputs.chunk(2, dim=-1)
    return mean, log_std.clamp(*LOG_STD)


def gaussian_of(network: Network, contexts: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log deviations [N, m] at contexts, with gradients."""
    return gaussian_outputs(network.along(contexts, torch.zeros(0, dtype=torch.long), None))


def log_density_of(mean: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """The log density [N] of actions on the same scale."""
    scaled = (actions - mean) * torch.exp(-log_std)
    return (-0.5 * scaled.square() - log_std - HALF_LOG_TWO_PI).sum(dim=-1)
