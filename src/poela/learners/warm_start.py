"""The warm start of policy gradients: cloning the logging policy, once for all that would do it bit for bit alike."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from hashlib import sha256
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray
from poela.data.trajectories import Trajectories
from poela.learners.stacked import Member, TrainingStack
from poela.learners.training_batch import TrainingBatch
from poela.networks.stack import RecurrentStack, Stack

MOST_REMEMBERED = 64  # networks for each log

# Of policies that were learned alone: those of one study differ more often in what they do after the warm start.
_remembered: "WeakKeyDictionary[Trajectories, dict[Hashable, list[Tensor]]]" = WeakKeyDictionary()


class Maker(Protocol):
    """What a learner lends to its warm start."""

    @property
    def warm_start_key(self) -> Hashable:
        """Equal for learners whose warm starts differ by rule and seed alone."""

    def training_stack(self, members: Sequence[Member], train: Trajectories) -> TrainingStack:
        """These members with untrained networks."""

    def batch_of(
        self, train: Trajectories, eligible: Sequence[BoolArray], stack: Stack | RecurrentStack
    ) -> TrainingBatch:
        """The log under the rules of some members."""

    def clone(self, trained: TrainingStack, train: Trajectories, batch: TrainingBatch) -> Iterator[int]:
        """Clone the logging policy; yields after each step."""


def warm_start(
    maker: Maker, trained: TrainingStack, train: Trajectories, eligible: Sequence[BoolArray]
) -> Iterator[None]:
    """Set the networks of a stack to clones of the logging policy; yields after each step."""
    keys = _keys(maker, trained.members, eligible)
    # In another stack the last digits differ, and nobody's result may depend on what was learned before it.
    known = _remembered.setdefault(train, {}) if len(keys) == 1 else {}
    first = [number for number, key in enumerate(keys) if key not in known and keys.index(key) == number]
    said = set()
    if first:
        starters = maker.training_stack([trained.members[number] for number in first], train)
        batch = maker.batch_of(train, [eligible[number] for number in first], starters.stack)
        for _ in maker.clone(starters, train, batch):
            for member, event in starters.pop_events():
                key = keys[trained.members.index(member)]
                said.add(key)
                for number in np.flatnonzero([own == key for own in keys]).tolist():
                    trained.emit(number, event)
            yield
        known |= {keys[number]: starters.stack.state(place) for place, number in enumerate(first)}
    for number, key in enumerate(keys):
        trained.stack.load_state(number, known[key])
    for key in [*said, *list(known)[:-MOST_REMEMBERED]]:  # what had to be said must be said again
        known.pop(key, None)


def cloning_loss(
    trained: TrainingStack, train: Trajectories, batch: TrainingBatch, episodes: int, last_steps: bool
) -> Callable[[int], Tensor]:
    """On episodes drawn by each member's seed; equal seeds draw the same."""
    seeds = [member.seed for member in trained.members]
    generators = {seed: np.random.default_rng([seed, 1]) for seed in seeds}
    whose = torch.tensor([list(generators).index(seed) for seed in seeds], device=trained.stack.device)
    size = min(episodes, train.n_episodes)

    def loss(step: int) -> Tensor:
        drawn = [np.sort(rng.choice(train.n_episodes, size, replace=False)) for rng in generators.values()]
        return batch.cloning_losses(trained.stack, drawn, whose, last_steps)

    return loss


def _keys(maker: Maker, members: Sequence[Member], eligible: Sequence[BoolArray]) -> list[Hashable]:
    rules = {id(mask): sha256(np.packbits(mask).tobytes()).digest() for mask in eligible}
    return [
        (maker.warm_start_key, member.name, member.seed, rules[id(mask)])
        for member, mask in zip(members, eligible, strict=True)
    ]
