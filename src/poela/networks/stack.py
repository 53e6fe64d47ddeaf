"""Networks of one shape trained side by side: every weight has a leading axis, one entry for each network.

On a GPU small networks leave most of the machine idle, so that many cost little more than one; on a CPU a stack of one
costs what the network itself does.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from poela.core.arrays import Float32Array
from poela.networks.logged import Episodes, OpenSteps, Shares, log_logged
from poela.networks.logged import Layers as Layers
from poela.networks.modules import MLP, Network, NetworkShape
from poela.networks.packing import Packing
from poela.networks.subnormals import rid_of_subnormals


class Stack(nn.Module):
    """K networks of the current context, which share nothing but the shape and the scale of their inputs.

    >>> shape = NetworkShape("mlp", 3, 2, (8,))
    >>> networks = [shape.build(seed) for seed in (0, 1)]
    >>> contexts = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    >>> stack = Stack(networks)
    >>> logits = stack.logits(stack.inputs(contexts))
    >>> bool(torch.allclose(logits[1], networks[1].along(contexts, torch.zeros(0), None)))
    True
    """

    def __init__(self, networks: Sequence[Network], device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.shape, self.device = networks[0].shape, device
        self.mean, self.scale = (networks[0].get_buffer(name).to(device) for name in ("mean", "scale"))
        self.weights, self.biases = stacked_parameters([_linears(network) for network in networks], device)
        self.layers: Layers = list(zip(self.weights, self.biases, strict=True))

    def inputs(self, contexts: Tensor) -> Tensor:
        """What the networks take for contexts: these on their own scale, made once for all steps of training."""
        return (contexts - self.mean) / self.scale

    def logits(
        self, inputs: Tensor, actions: Tensor | None = None, packing: Packing | None = None, own: slice = slice(None)
    ) -> Tensor:
        """[K, N, A] for inputs [N, d] that all networks see, or [K, N, d], each its own; `own`: of these networks."""
        outputs = stacked_outputs(self._of(own), inputs)
        return torch.relu(outputs) if self.shape.relu_outputs else outputs

    def log_logged(self, steps: OpenSteps, episodes: Episodes | Shares, own: slice = slice(None)) -> Tensor:
        """Sums [K, n] by episode of log π of the logged actions, over the eligible ones; or means [K] over steps."""
        return log_logged(self.layers, steps, episodes, self.shape.relu_outputs, own)

    def _of(self, own: slice) -> Layers:
        each = len(self.layers[0][0])
        if own.indices(each) == (0, each, 1):
            return self.layers  # for autograd a slice has its price
        return [(weight[own], bias[own]) for weight, bias in self.layers]

    def state(self, number: int) -> list[Tensor]:
        """A copy of the weights of one network."""
        return [parameter.detach()[number].clone() for parameter in self.parameters()]

    @torch.no_grad()
    def load_state(self, number: int, state: Sequence[Tensor]) -> None:
        """The inverse of `state`."""
        for mine, given in zip(self.parameters(), state, strict=True):
            mine[number] = given

    def members(self) -> list[Network]:
        """A copy of each network on the CPU, which later training leaves alone."""
        layers = [(weight.detach().cpu(), bias.detach().cpu()) for weight, bias in self.layers]
        networks = []
        for number in range(len(layers[0][0])):
            network = self.shape.build(seed=0)
            with torch.no_grad():
                for layer, (weight, bias) in zip(_linears(network), layers, strict=True):
                    layer.weight.copy_(weight[number].T)
                    layer.bias.copy_(bias[number, 0])
            network.mean, network.scale = self.mean.cpu().clone(), self.scale.cpu().clone()
            rid_of_subnormals(network)
            networks.append(network)
        return networks


class RecurrentStack(nn.Module):
    """A network of the whole history as a stack of one: such networks are trained one at a time."""

    def __init__(self, network: Network, device: torch.device | str) -> None:
        super().__init__()
        self.network, self.device = network.to(device), device

    def inputs(self, contexts: Tensor) -> Tensor:
        """The contexts themselves: the network puts them on its scale."""
        return contexts

    def logits(self, inputs: Tensor, actions: Tensor, packing: Packing | None, own: slice = slice(None)) -> Tensor:
        """[1, N, A] for inputs [N, d] or [1, N, d]."""
        return self.network.along(inputs.reshape(-1, inputs.shape[-1]), actions.reshape(-1), packing)[None]

    def state(self, number: int) -> list[Tensor]:
        """A copy of the network's weights."""
        return [parameter.detach().clone() for parameter in self.parameters()]

    @torch.no_grad()
    def load_state(self, number: int, state: Sequence[Tensor]) -> None:
        """The inverse of `state`."""
        for mine, given in zip(self.parameters(), state, strict=True):
            mine.copy_(given)

    def members(self) -> list[Network]:
        """A copy of the network on the CPU."""
        return [self.network.on_cpu()]


def stack_of(
    shape: NetworkShape, seeds: Sequence[int], contexts: Float32Array | None, device: torch.device
) -> Stack | RecurrentStack:
    """A new network for each seed, standardised by the contexts where there are any."""
    first, *others = (shape.build(seed) for seed in seeds)
    if contexts is not None:
        first.standardise_by(contexts)  # the others take its scale
    return RecurrentStack(first, device) if first.remembers else Stack([first, *others], device)


def stacked_parameters(
    networks: Sequence[Sequence[nn.Linear]], device: torch.device | str = "cpu"
) -> tuple[nn.ParameterList, nn.ParameterList]:
    """Weights and biases of each layer, from the linear layers of several networks."""
    by_layer = list(zip(*networks, strict=True))
    weights = [torch.stack([one.weight.detach().T for one in own]).to(device) for own in by_layer]
    biases = [torch.stack([one.bias.detach()[None] for one in own]).to(device) for own in by_layer]
    return nn.ParameterList(weights), nn.ParameterList(biases)


def stacked_outputs(layers: Layers, inputs: Tensor) -> Tensor:
    """Outputs [K, N, A] of stacked layers with ReLU between them, from inputs [N, d] or [K, N, d]."""
    if inputs.ndim == 2:
        inputs = inputs.expand(len(layers[0][0]), *inputs.shape)
    for weight, bias in layers[:-1]:
        inputs = torch.relu(torch.baddbmm(bias, inputs, weight))
    weight, bias = layers[-1]
    return torch.baddbmm(bias, inputs, weight)


def members_at_a_time(shape: NetworkShape, n_rows: int, device: torch.device) -> int:
    """How many networks may be trained together on this many rows, for the memory that is free."""
    numbers = n_rows * (3 * sum(shape.hidden) + 10 * shape.n_outputs) + 1
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 2**31
    return max(math.floor(0.2 * free / (4 * numbers)), 1)


def _linears(network: Network) -> list[nn.Linear]:
    assert isinstance(network, MLP)
    return linears(network.layers)


def linears(layers: Iterable[nn.Module]) -> list[nn.Linear]:
    """The linear ones of some layers."""
    return [layer for layer in layers if isinstance(layer, nn.Linear)]
