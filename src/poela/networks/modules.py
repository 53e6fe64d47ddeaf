"""The torch modules: an MLP of the current context and a GRU of the whole history, with one way to call both."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from poela.core.arrays import Float32Array
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.typed import Check, Count, Range, Whole, one_of, refuse_problems, shown
from poela.core.validation import expect_array
from poela.networks.packing import Packing
from poela.networks.subnormals import rid_of_subnormals

NetworkKind = Annotated[str, one_of("mlp", "gru")]
MOST_LAYERS = 100
Hidden = tuple[Annotated[int, Range(least=1, most=65536)], ...]


def _device_problem(name: Any) -> str | None:
    """Devices are checked by their names alone here; whether this machine has one, `device_of` says."""
    known = isinstance(name, str) and re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", name)
    return None if known else "choose 'auto', 'cpu', 'cuda' or 'cuda:1'"


Device = Annotated[str, Check(_device_problem)]


@dataclass(frozen=True)
class NetworkShape:
    """What it takes to build a network again.

    >>> network = NetworkShape(kind="mlp", n_inputs=3, n_outputs=2, hidden=(8, 8)).build(seed=0)
    >>> network.along(torch.zeros(5, 3), torch.zeros(5, dtype=torch.long), None).shape
    torch.Size([5, 2])
    """

    kind: NetworkKind
    n_inputs: Whole
    n_outputs: Count
    hidden: Hidden
    relu_outputs: bool = False  # the published form puts a ReLU on the logits

    def __post_init__(self) -> None:
        refuse_problems(self)
        if len(self.hidden) > MOST_LAYERS:
            raise InputError(f"hidden has {len(self.hidden)} layers: at most {MOST_LAYERS} are built")
        if self.kind == "gru" and len(set(self.hidden)) != 1:
            raise InputError(f"hidden is {shown(self.hidden)}: a recurrent network needs layers of one width")

    def build(self, seed: int) -> "Network":
        """A freshly initialised network; the same seed gives the same bits and leaves torch's own state alone."""
        with seeded(seed):
            return (MLP(self) if self.kind == "mlp" else GRU(self)).float()  # whatever torch's own choice is

    def to_dict(self) -> dict[str, Any]:
        """Plain settings, for files."""
        return asdict(self)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The names and shapes of the weights, without building anything: the shape may come from a file.

        >>> NetworkShape("mlp", n_inputs=3, n_outputs=2, hidden=()).weight_shapes()
        {'mean': (3,), 'scale': (3,), 'layers.0.weight': (2, 3), 'layers.0.bias': (2,)}
        """
        shapes: dict[str, tuple[int, ...]] = {"mean": (self.n_inputs,), "scale": (self.n_inputs,)}
        if self.kind == "mlp":
            for layer, (before, after) in enumerate(pairwise((self.n_inputs, *self.hidden, self.n_outputs))):
                shapes[f"layers.{2 * layer}.weight"], shapes[f"layers.{2 * layer}.bias"] = (after, before), (after,)
            return shapes
        width = self.hidden[0]
        for layer in range(len(self.hidden)):
            before = self.n_inputs + self.n_outputs if layer == 0 else width
            shapes[f"recurrent.weight_ih_l{layer}"] = (3 * width, before)
            shapes[f"recurrent.weight_hh_l{layer}"] = (3 * width, width)
            shapes[f"recurrent.bias_ih_l{layer}"] = shapes[f"recurrent.bias_hh_l{layer}"] = (3 * width,)
        return {**shapes, "output.weight": (self.n_outputs, width), "output.bias": (self.n_outputs,)}

    def from_stored(self, stored: Stored) -> "Network":
        """The network with these stored weights, which are checked before anything is built."""
        weights: dict[str, NDArray[Any]] = {
            name: expect_array(stored, name, np.float32, shape) for name, shape in self.weight_shapes().items()
        }
        expect_array(stored, "scale", np.float32, (self.n_inputs,), low=float(np.finfo(np.float32).tiny))
        network = self.build(seed=0)
        network.load_weights(weights)
        return network


class Network(nn.Module):
    """Logits [N, A] along logged episodes. Inputs are standardised inside, by statistics kept with the weights."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("mean", torch.zeros(shape.n_inputs))
        self.register_buffer("scale", torch.ones(shape.n_inputs))

    def standardise_by(self, contexts: Float32Array) -> None:
        """Take the mean and spread of these (training) contexts; constant features keep scale 1."""
        spread = contexts.std(axis=0, dtype=np.float64)
        spread[spread <= 1e-12] = 1.0
        self.mean = torch.as_tensor(contexts.mean(axis=0, dtype=np.float64), dtype=torch.float32)
        self.scale = torch.as_tensor(spread, dtype=torch.float32)

    def standardised(self, contexts: Tensor) -> Tensor:
        """Contexts on the network's own scale."""
        return (contexts - self.mean) / self.scale

    def along(self, contexts: Tensor, actions: Tensor, packing: Packing | None) -> Tensor:
        """Logits [N, A]; `packing` tells the order of steps to networks that remember."""
        raise TypeError(f"{type(self).__name__} must define along()")

    @property
    def remembers(self) -> bool:
        """Whether the logits depend on earlier steps."""
        return self.shape.kind != "mlp"

    def weights(self) -> dict[str, NDArray[Any]]:
        """All parameters and statistics as NumPy arrays, for files and comparisons."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}

    def on_cpu(self) -> "Network":
        """A copy on the CPU that later training leaves alone."""
        copy = self.shape.build(seed=0)
        copy.load_weights(self.weights())
        rid_of_subnormals(copy)
        return copy

    def load_weights(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of `weights`."""
        self.load_state_dict({name: torch.as_tensor(np.array(array)) for name, array in arrays.items()})


class MLP(Network):
    """Fully connected layers with ReLU, of the current context alone."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__(shape)
        self.layers = dense(shape.n_inputs, shape.hidden, shape.n_outputs)

    def along(self, contexts: Tensor, actions: Tensor, packing: Packing | None) -> Tensor:
        """Logits [N, A]."""
        logits: Tensor = self.layers(self.standardised(contexts))
        return torch.relu(logits) if self.shape.relu_outputs else logits


class GRU(Network):
    """Gated recurrent layers over contexts and previous actions; one layer for each entry of `hidden`."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__(shape)
        self.recurrent = nn.GRU(shape.n_inputs + shape.n_outputs, shape.hidden[0], num_layers=len(shape.hidden))
        self.output = nn.Linear(shape.hidden[0], shape.n_outputs)

    def along(self, contexts: Tensor, actions: Tensor, packing: Packing | None) -> Tensor:
        """Logits [N, A], each from the contexts up to and the actions before its step."""
        if packing is None:
            raise ValueError("a recurrent network needs whole episodes")
        previous = packing.shifted(nn.functional.one_hot(actions, self.shape.n_outputs).to(contexts.dtype))
        inputs = torch.cat([self.standardised(contexts), previous], dim=1)
        hidden, _ = self.recurrent(packing.pack(inputs))
        return self._outputs(packing.unpack(hidden))

    def step(self, contexts: Tensor, previous: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits [n, A] and the new memory, one step on; `previous`: the last actions, one-hot (zeros at first)."""
        inputs = torch.cat([self.standardised(contexts), previous], dim=1)
        hidden, memory = self.recurrent(inputs[None], memory)
        return self._outputs(hidden[0]), memory

    def _outputs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.output(hidden)
        return torch.relu(logits) if self.shape.relu_outputs else logits


def dense(n_inputs: int, hidden: Sequence[int], n_outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(n_inputs, width), nn.ReLU()]
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's CPU random state set to `seed` inside the block, and put back after it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for GPUs too, each time
        yield


def device_of(name: str) -> torch.device:
    """The device by name; "auto" takes CUDA where there is one, and one that this machine lacks is refused.

    >>> device_of("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= there[device.type]:
        raise InputError(f"device {name!r} is not on this machine: choose 'auto' or 'cpu'")
    return device
