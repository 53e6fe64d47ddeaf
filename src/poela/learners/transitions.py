"""Logged steps as flat tensors for Q-learning, with everything worked out that no training step changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray
from poela.data.trajectories import Trajectories
from poela.networks.stack import Layers, Stack, stacked_outputs

ROWS_AT_A_TIME = 65536
BATCHES_AT_A_TIME = 1000


@dataclass(frozen=True, eq=False)
class Limits:
    """What holds a Q function back: actions that are barred, and contexts whose value is not believed."""

    eligible: BoolArray  # [N, A]
    disbelieved: BoolArray  # [N], their value counts as `floor`, whatever the network says
    floor: float


@dataclass(frozen=True, eq=False)
class Transitions:
    """Logged steps; the goal of each is `sure` + `passed_on` · (value of the best eligible action at `following`).

    K networks have V different limits.
    """

    inputs: Tensor  # [N, d], on the networks' own scale
    actions: Tensor  # [N, 1]
    following: Tensor  # [N], the next row; the row itself after an episode's last step
    whose: Tensor  # [K, 1], which limits are each network's
    sure: Tensor  # [V, N], the reward, and what does not depend on the network
    passed_on: Tensor  # [V, N], γ; 0 after the last step, and where the next context's value is not believed
    barred: Tensor  # [V, N, A], 0 where eligible, else −inf

    @classmethod
    @torch.no_grad()
    def of(cls, train: Trajectories, stack: Stack, limits: Sequence[Limits], discount: float) -> "Transitions":
        """`limits` of each network; those with the same have the same object."""
        following = np.arange(train.n_steps) + 1
        following[train.offsets[1:] - 1] -= 1
        goes_on = following > np.arange(train.n_steps)
        each = list(dict.fromkeys(limits))
        believed = [~own.disbelieved[following] for own in each]
        sure = [train.rewards + discount * own.floor * (goes_on & ~b) for own, b in zip(each, believed, strict=True)]

        def floats(values: Sequence[np.ndarray]) -> Tensor:
            return torch.tensor(np.stack(values), dtype=torch.float32, device=stack.device)

        return cls(
            inputs=stack.inputs(torch.tensor(train.contexts, device=stack.device)),
            actions=torch.tensor(train.actions[:, None], device=stack.device),
            following=torch.tensor(following, device=stack.device),
            whose=torch.tensor([[each.index(own)] for own in limits], device=stack.device),
            sure=floats(sure),
            passed_on=floats([discount * (goes_on & own) for own in believed]),
            barred=floats([np.where(own.eligible, 0.0, -np.inf) for own in each]),
        )

    @torch.no_grad()
    def largest_values(self, layers: Layers) -> Tensor:
        """The largest value [K], up to its sign, that each network gives at any logged context."""
        outputs = (stacked_outputs(layers, part) for part in torch.split(self.inputs, ROWS_AT_A_TIME))
        return torch.stack([values.abs().amax(dim=(1, 2)) for values in outputs]).amax(dim=0)

    def values(self, rows: Tensor, layers: Layers, target: Layers) -> tuple[Tensor, Tensor]:
        """Each network's values [K, m, A] at its rows [K, m], and the goals [K, m] of the logged actions (double Q)."""
        following = self.following[rows]
        with torch.no_grad():
            next_inputs = self.inputs[following]
            allowed = stacked_outputs(layers, next_inputs) + self.barred[self.whose, following]
            value = stacked_outputs(target, next_inputs).gather(2, allowed.argmax(dim=2, keepdim=True))[:, :, 0]
            goals = torch.addcmul(self.sure[self.whose, rows], self.passed_on[self.whose, rows], value)
        return stacked_outputs(layers, self.inputs[rows]), goals

    def batches(self, size: int, seeds: Sequence[int]) -> Iterator[Tensor]:
        """Random rows [K, size], many batches drawn at a time; equal seeds draw the same."""
        generators = {seed: np.random.default_rng([seed, 2]) for seed in seeds}
        shape = (BATCHES_AT_A_TIME, size)
        while True:
            drawn = {seed: rng.integers(len(self.actions), size=shape) for seed, rng in generators.items()}
            yield from torch.as_tensor(np.stack([drawn[seed] for seed in seeds], axis=1), device=self.actions.device)
