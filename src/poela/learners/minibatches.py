"""Ascent on a few episodes at a time, for logs that are large."""

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import IntArray
from poela.learners.active import active_episodes
from poela.learners.objective import truncated_weights
from poela.learners.training_batch import TrainingBatch
from poela.networks.logged import together
from poela.networks.stack import RecurrentStack, Stack

WHOLE_EVERY = 5  # rounds; in between, only episodes that have weight are drawn


class Minibatches:
    """The log as the ascent sees it, `size` episodes at each step: the drawn ones fresh, the others as last seen.

    SNTIS is a ratio of sums, so that a ratio over the drawn episodes alone would be biased. As in stochastic
    compositional gradient descent (Wang, Fang & Liu 2017), the sums are followed from step to step and only the slope
    is that of the drawn episodes, times the number of episodes that each stands for. They are followed episode by
    episode, as in its finite-sum form (Wang & Yang 2022), so that nothing is to be tuned: a weight is as old as the
    episode's last turn, and the objective stays the one of the whole log.
    """

    def __init__(self, batch: TrainingBatch, truncation: float, size: int, seed: int) -> None:
        self._batch, self._truncation, self._size = batch, truncation, size
        self._rng = np.random.default_rng([seed, 2])
        self._last_seen: Tensor | None = None  # [K, n]
        self._turns: list[IntArray] = []  # of this round
        self._rounds, self._in_round = 0, 0

    def log_weights(self, stack: Stack | RecurrentStack, step: int) -> Tensor:
        """log ∏W [K, n], with a slope for the drawn episodes."""
        if self._last_seen is None:
            with torch.no_grad():
                self._last_seen = self._batch.log_weights(stack)
        drawn = torch.as_tensor(self._drawn(self._last_seen), device=self._last_seen.device)
        fresh = together([ruled.only(drawn).log_weights(stack) for ruled in self._batch.ruled])
        found = self._last_seen.index_copy(1, drawn, fresh)
        self._last_seen = found.detach()
        each_stands_for = self._in_round / len(drawn)
        fresh.register_hook(lambda slope: slope * each_stands_for)  # type: ignore[no-untyped-call]
        return found

    def _drawn(self, last_seen: Tensor) -> IntArray:
        """The next episodes of this round, in which each has one turn."""
        if not self._turns:
            episodes = np.arange(last_seen.shape[1])
            if self._rounds % WHOLE_EVERY:
                episodes = episodes[active_episodes(truncated_weights(last_seen, self._truncation)).cpu().numpy()]
            self._rounds, self._in_round = self._rounds + 1, len(episodes)
            self._turns = np.array_split(self._rng.permutation(episodes), -(-len(episodes) // self._size))
        return np.sort(self._turns.pop())
