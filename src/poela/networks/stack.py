"""Many networks of one shape trained side by side: every weight has a leading axis, one entry for each network.

On a GPU small networks leave most of the machine idle; a stack of them costs little more than one.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from poela.networks.modules import MLP, NetworkShape


class Stack(nn.Module):
    """K networks of the current context, which share nothing but the shape and the scale of their inputs.

    >>> shape = NetworkShape("mlp", 3, 2, (8,))
    >>> networks = [shape.build(seed) for seed in (0, 1)]
    >>> contexts = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    >>> logits = Stack(networks).logits(contexts)
    >>> bool(torch.allclose(logits[1], networks[1].along(contexts, torch.zeros(0), None)))
    True
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, networks: Sequence[MLP]) -> None:
        super().__init__()
        self.shape: NetworkShape = networks[0].shape
        layers = [[layer for layer in network.layers if isinstance(layer, nn.Linear)] for network in networks]
        per_layer = list(zip(*layers, strict=True))
        self.weights = nn.ParameterList(torch.stack([layer.weight.detach().T for layer in own]) for own in per_layer)
        self.biases = nn.ParameterList(torch.stack([layer.bias.detach()[None] for layer in own]) for own in per_layer)
        self.register_buffer("mean", networks[0].get_buffer("mean").clone())
        self.register_buffer("scale", networks[0].get_buffer("scale").clone())

    def __len__(self) -> int:
        return len(self.biases[0])

    def standardised(self, contexts: Tensor) -> Tensor:
        """Contexts on the networks' own scale."""
        return (contexts - self.mean) / self.scale

    def logits(self, contexts: Tensor) -> Tensor:
        """[K, N, A] for contexts [N, d] that all networks see, or [K, N, d], each its own."""
        found = stacked_outputs([*self.weights], [*self.biases], self.standardised(contexts))
        return torch.relu(found) if self.shape.relu_outputs else found

    def members(self) -> list[MLP]:
        """A copy of each network on the CPU, which later training leaves alone."""
        weights = [weight.detach().cpu() for weight in self.weights]
        biases = [bias.detach().cpu() for bias in self.biases]
        mean, scale = self.mean.cpu(), self.scale.cpu()
        found = []
        for number in range(len(self)):
            network = self.shape.build(seed=0)
            assert isinstance(network, MLP)
            linears = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
            with torch.no_grad():
                for layer, weight, bias in zip(linears, weights, biases, strict=True):
                    layer.weight.copy_(weight[number].T)
                    layer.bias.copy_(bias[number, 0])
            network.mean, network.scale = mean.clone(), scale.clone()
            found.append(network)
        return found

    def broken(self) -> Tensor:
        """Which networks [K] have a weight or a gradient that is NaN or infinite."""
        bad = torch.zeros(len(self), dtype=torch.bool, device=self.mean.device)
        for parameter in self.parameters():
            for values in (parameter.detach(), parameter.grad):
                if values is not None:
                    bad |= ~torch.isfinite(values).flatten(1).all(dim=1)
        return bad


def stacked_outputs(weights: Sequence[Tensor], biases: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Outputs [K, N, A] of stacked layers with ReLU between them, from inputs [N, d] or [K, N, d]."""
    if inputs.ndim == 2:
        inputs = inputs.expand(len(biases[0]), *inputs.shape)
    last = len(weights) - 1
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        inputs = torch.baddbmm(bias, inputs, weight)
        if number < last:
            inputs = torch.relu(inputs)
    return inputs


def members_at_a_time(shape: NetworkShape, n_rows: int, device: torch.device) -> int:
    """How many networks may be trained together on this many rows, for the memory that is free."""
    numbers = n_rows * (3 * sum(shape.hidden) + 10 * shape.n_outputs) + 1
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 2**31
    return max(math.floor(0.2 * free / (4 * numbers)), 1)
