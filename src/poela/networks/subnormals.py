"""Numbers below 1e-38, of which weight decay makes many: processors take a hundred times longer over each of them.

After some thousand steps of Q-learning they cost half of the time of a step, and most of that of a look at the policy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import nn

LEAST = torch.finfo(torch.float32).tiny
_subnormal, _one = 5e-324, 1.0


@contextmanager
def no_subnormals() -> Iterator[None]:
    """What this thread computes on the CPU and what is below `LEAST` is 0.

    Around torch alone: other libraries count on the difference of two numbers to be other than 0.

    >>> with no_subnormals():
    ...     float(torch.tensor(LEAST) / 2)
    0.0
    """
    _start_threads(torch.get_num_threads())
    before = _subnormal * _one == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@cache
def _start_threads(number: int) -> None:
    """Threads that torch starts later would have this setting for good, whatever the user sets."""
    if number > 1:
        torch.zeros(1 << 20).add_(1.0)


@torch.no_grad()
def rid_of_subnormals(network: nn.Module) -> None:
    """Set weights below `LEAST` to 0, wherever they were trained.

    >>> layer = nn.Linear(1, 1)
    >>> _ = nn.init.constant_(layer.weight, LEAST / 2)
    >>> rid_of_subnormals(layer)
    >>> float(layer.weight.detach())
    0.0
    """
    for parameter in network.parameters():
        parameter.masked_fill_(parameter.abs() < LEAST, 0.0)
