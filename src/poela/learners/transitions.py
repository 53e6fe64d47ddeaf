"""Logged steps as flat tensors for Q-learning, with everything worked out that no training step changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from poela.core.arrays import BoolArray
from poela.data.trajectories import Trajectories
from poela.networks.modules import MLP

ROWS_AT_A_TIME = 65536
BATCHES_AT_A_TIME = 1000


@dataclass(frozen=True, eq=False)
class Transitions:
    """Logged steps; the goal of each is `sure` + `passed_on` · (value of the best eligible action at `following`)."""

    inputs: Tensor  # [N, d], on the network's own scale
    actions: Tensor  # [N, 1]
    following: Tensor  # [N], the next row; the row itself after an episode's last step
    sure: Tensor  # [N], the reward, and what does not depend on the network
    passed_on: Tensor  # [N], γ; 0 after the last step, and where the next context's value is not believed
    barred: Tensor  # [N, A], 0 where eligible, else −inf

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        train: Trajectories,
        network: MLP,
        *,
        eligible: BoolArray,
        discount: float,
        disbelieved: BoolArray,
        floor: float,
        device: torch.device,
    ) -> "Transitions":
        """`disbelieved` [N] marks contexts whose value counts as `floor`, whatever the network says."""
        following = np.arange(train.n_steps) + 1
        following[train.offsets[1:] - 1] -= 1
        goes_on = following > np.arange(train.n_steps)
        believed = ~disbelieved[following]
        return cls(
            inputs=network.standardised(torch.tensor(train.contexts)).to(device),
            actions=torch.tensor(train.actions[:, None], device=device),
            following=torch.tensor(following, device=device),
            sure=_floats(train.rewards + discount * floor * (goes_on & ~believed), device),
            passed_on=_floats(discount * (goes_on & believed), device),
            barred=_floats(np.where(eligible, 0.0, -np.inf), device),
        )

    @torch.no_grad()
    def largest_value(self, weights: Sequence[Tensor]) -> float:
        """The largest value, up to its sign, that the network gives at any logged context."""
        parts = torch.split(self.inputs, ROWS_AT_A_TIME)
        return float(torch.stack([_outputs(weights, part).abs().amax() for part in parts]).amax())

    def values(self, rows: Tensor, weights: Sequence[Tensor], target: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The network's values [m, A] at these rows, and the goals [m] for the logged actions (double Q)."""
        following = self.following[rows]
        with torch.no_grad():
            next_inputs = self.inputs[following]
            best = (_outputs(weights, next_inputs) + self.barred[following]).argmax(dim=1, keepdim=True)
            value = _outputs(target, next_inputs).gather(1, best)[:, 0]
            goals = torch.addcmul(self.sure[rows], self.passed_on[rows], value)
        return _outputs(weights, self.inputs[rows]), goals

    def batches(self, size: int, seed: int) -> Iterator[Tensor]:
        """Random rows, many batches drawn at a time."""
        rng = np.random.default_rng([seed, 2])
        while True:
            rows = rng.integers(len(self.actions), size=(BATCHES_AT_A_TIME, size))
            yield from torch.as_tensor(rows, device=self.actions.device)


def _outputs(weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """An MLP from its weights and biases in turn: with small batches, calling modules would cost as much again."""
    for layer in range(0, len(weights) - 2, 2):
        inputs = torch.relu(linear(inputs, weights[layer], weights[layer + 1]))
    return linear(inputs, weights[-2], weights[-1])


def _floats(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)
