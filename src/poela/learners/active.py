"""Only episodes with weight are asked: as a policy improves, it leaves most of the log behind."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from poela.learners.objective import truncated_weights
from poela.learners.training_batch import Ruled, TrainingBatch
from poela.networks.logged import together
from poela.networks.stack import RecurrentStack, Stack

LOOK_EVERY = 20  # steps from one look at the whole log to the next
LEFT_OUT = 1e-6  # the share of the sum of all weights that the least of them may have together, to be left out
WORTH_WHILE = 0.9  # with more of the open steps than this, the whole log is asked


class ActiveEpisodes:
    """The log as the ascent sees it: whole at every 20th step, in between only episodes that had weight there.

    Until the next look, those that are left out keep the weight they had. All policies of one rule ask the same
    episodes: those that any of them gives weight.
    """

    def __init__(self, batch: TrainingBatch, truncation: float) -> None:
        self._batch, self._truncation = batch, truncation
        self.parts: Sequence[Part] = []

    def log_weights(self, stack: Stack | RecurrentStack, step: int) -> Tensor:
        """log ∏W [K, n]; a constant for episodes that are left out."""
        if step % LOOK_EVERY:
            return together([part.log_weights(stack) for part in self.parts])
        found = self._batch.log_weights(stack)
        weights = truncated_weights(found.detach(), self._truncation)
        self.parts = [
            _part(ruled, found.detach()[ruled.policies], active_episodes(weights[ruled.policies]))
            for ruled in self._batch.ruled
        ]
        return found


@dataclass(frozen=True, eq=False)
class Part:
    """Some episodes of a rule's, or all of them (None)."""

    ruled: Ruled
    episodes: Tensor | None
    last_seen: Tensor  # [K, n], log weights of all

    def log_weights(self, stack: Stack | RecurrentStack) -> Tensor:
        """log ∏W [K, n] of all episodes of the log."""
        found = self.ruled.log_weights(stack)
        if self.episodes is None:
            return found
        return self.last_seen.index_copy(1, self.episodes, found)


def active_episodes(weights: Tensor) -> Tensor:
    """Episodes [n] that are not among the least of any policy's weights [K, n].

    >>> active_episodes(torch.tensor([[1e-9, 1.0, 2e-9, 3.0]], dtype=torch.float64))
    tensor([False,  True, False,  True])
    """
    sums, order = weights.sort(dim=1)
    sums = sums.cumsum(dim=1)
    # Written so that NaN, which training must hear of, is not left out.
    least = sums <= LEFT_OUT * sums[:, -1:]
    return ~torch.zeros_like(least).scatter(1, order, least).all(dim=0)


def _part(ruled: Ruled, log_weights: Tensor, active: Tensor) -> Part:
    if (ruled.counts * active).sum() > WORTH_WHILE * ruled.counts.sum():
        return Part(ruled, None, log_weights)
    episodes = torch.nonzero(active)[:, 0]
    return Part(ruled.only(episodes), episodes, log_weights)
