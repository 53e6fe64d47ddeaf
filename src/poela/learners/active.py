"""The objective, as in the paper, and ascent on it: on active episodes alone, or on a few at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import IntArray
from poela.learners.training_batch import Ruled, TrainingBatch
from poela.networks.logged import together
from poela.networks.stack import RecurrentStack, Stack

# The learning objective, as in the paper: SNTIS minus λ times the root of its estimated variance (equation CRM).
# Sums run over the last axis, the episodes; axes before it are policies that are learned side by side.

TINY = 1e-12  # below this the root has no usable slope
SHORTFALL = 20.0  # κ: what each nat of effective episodes below the least costs


def truncated_weights(log_weights: Tensor, truncation: float) -> Tensor:
    """min(∏W, M) for each episode, up to one common factor that SNTIS and its variance do not see."""
    truncated = log_weights.clamp(max=math.log(truncation))
    return torch.exp(truncated - truncated.detach().amax(dim=-1, keepdim=True))


def sntis(weights: Tensor, returns: Tensor) -> Tensor:
    """Self-normalised truncated importance sampling: Σ r·w / Σ w.

    >>> sntis(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 4.0]))
    tensor(3.)
    """
    return (returns * weights).sum(dim=-1) / weights.sum(dim=-1)


def variance_of_sntis(weights: Tensor, returns: Tensor) -> Tensor:
    """The normal approximation (Owen 2013, equation 9.9): Σ (r − v)²·w² / (Σ w)²."""
    deviations = returns - sntis(weights, returns)[..., None]
    return (deviations**2 * weights**2).sum(dim=-1) / weights.sum(dim=-1) ** 2


def crm_objective(log_weights: Tensor, returns: Tensor, truncation: float, variance_penalty: float | Tensor) -> Tensor:
    """v_SNTIS(π) − λ·sqrt(Var(v_SNTIS(π))), to be maximised; for weights [K, n] of K policies, that of each."""
    weights = truncated_weights(log_weights, truncation)
    spread = variance_of_sntis(weights, returns).clamp(min=TINY).sqrt()
    return sntis(weights, returns) - variance_penalty * spread


def shortfall(log_weights: Tensor, truncation: float, least_ess: Tensor) -> Tensor:
    """κ·max(0, ln E₀ − ln ESS): what it costs to rest on fewer effective episodes than E₀ (0: nothing).

    >>> round(float(shortfall(torch.zeros(10), 1000.0, torch.tensor(20.0))), 3)  # 20 · ln 2
    13.863
    """
    weights = truncated_weights(log_weights, truncation)
    ess = weights.sum(dim=-1) ** 2 / (weights**2).sum(dim=-1)
    return SHORTFALL * (least_ess.clamp(min=TINY) / ess).log().clamp(min=0.0)


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


# Ascent on a few episodes at a time, for logs that are large.

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
