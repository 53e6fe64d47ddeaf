"""Only episodes with weight are asked: as a policy improves, it leaves most of the log behind."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from poela.learners.objective import truncated_weights
from poela.learners.training_batch import Ruled, TrainingBatch
from poela.networks.stack import RecurrentStack, Stack

LOOK_EVERY = 20  # steps from one look at the whole log to the next
NEGLIGIBLE = 1e-6  # of the mean weight; so all that are left out have less than this share of the sum
WORTH_WHILE = 0.9  # with more of the open steps than this, the whole log is asked


class ActiveEpisodes:
    """The log as the ascent sees it: whole at every 20th step, in between only episodes that had weight there.

    One that was left out comes back with the next look. All policies of one rule ask the same episodes: those that any
    of them gives weight.
    """

    def __init__(self, batch: TrainingBatch, truncation: float) -> None:
        self._batch, self._truncation = batch, truncation
        self._parts: Sequence[_Part] = []

    def log_weights(self, stack: Stack | RecurrentStack, step: int) -> Tensor:
        """log ∏W [K, n]; −inf for episodes that are left out."""
        if step % LOOK_EVERY:
            return torch.cat([part.log_weights(stack) for part in self._parts])
        found = self._batch.log_weights(stack)
        weights = truncated_weights(found.detach(), self._truncation)
        # Written so that NaN, which training must hear of, is not left out.
        active = ~(weights < NEGLIGIBLE * weights.mean(dim=1, keepdim=True))
        self._parts = [_part(ruled, active[ruled.policies].any(dim=0)) for ruled in self._batch.ruled]
        return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Some episodes of a rule's, or all of them (None)."""

    ruled: Ruled
    episodes: Tensor | None
    n: int  # of all

    def log_weights(self, stack: Stack | RecurrentStack) -> Tensor:
        found = self.ruled.log_weights(stack)
        if self.episodes is None:
            return found
        return found.new_full((len(found), self.n), -math.inf).index_copy(1, self.episodes, found)


def _part(ruled: Ruled, active: Tensor) -> _Part:
    n = len(active)
    if (ruled.counts * active).sum() > WORTH_WHILE * ruled.counts.sum():
        return _Part(ruled, None, n)
    episodes = torch.nonzero(active)[:, 0]
    return _Part(ruled.only(episodes), episodes, n)
