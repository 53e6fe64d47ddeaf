"""Ragged episodes for recurrent networks: flat steps in, flat steps out, nothing padded."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from poela.core.arrays import IntArray


@dataclass(frozen=True, eq=False)
class Packing:
    """How flat steps [N] of ragged episodes are ordered step by step, longest episode first.

    >>> packing = Packing.of(np.array([0, 2, 5]))
    >>> packing.pack(torch.arange(5.0)[:, None]).data[:, 0]
    tensor([2., 0., 3., 1., 4.])
    """

    order: Tensor  # [N]: the flat row at each packed place
    back: Tensor  # [N]: the packed place of each flat row
    batch_sizes: Tensor  # [T]: episodes that still run at each step
    first: Tensor  # [N] bool: the first step of an episode

    @classmethod
    def of(cls, offsets: IntArray, device: torch.device | str = "cpu") -> "Packing":
        """The packing of these episodes."""
        lengths = np.diff(offsets)
        starts = offsets[:-1]
        longest_first = np.argsort(-lengths, kind="stable")
        rank = np.empty_like(longest_first)
        rank[longest_first] = np.arange(len(lengths))
        step = np.arange(offsets[-1]) - np.repeat(starts, lengths)
        order = np.lexsort((np.repeat(rank, lengths), step))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        sizes = np.bincount(step)
        first = np.zeros(offsets[-1], np.bool_)
        first[starts] = True
        return cls(
            torch.as_tensor(order, device=device),
            torch.as_tensor(back, device=device),
            torch.as_tensor(sizes),
            torch.as_tensor(first, device=device),
        )

    def pack(self, flat: Tensor) -> PackedSequence:
        """Flat rows as torch's packed sequence."""
        return PackedSequence(flat[self.order], self.batch_sizes)

    def unpack(self, packed: PackedSequence) -> Tensor:
        """Back to flat rows."""
        return packed.data[self.back]

    def shifted(self, flat: Tensor) -> Tensor:
        """Each step's previous row; zeros at the first step of an episode."""
        previous = torch.roll(flat, 1, dims=0)
        return previous.masked_fill(self.first[:, None], 0.0)
