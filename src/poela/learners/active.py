"""The objective, as in the paper, and ascent on it: on active episodes alone, or on a few at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    """min(∏W, M) for each episode, up to one common factor that SNTIS and its variance do not see; without slopes."""
    truncated = log_weights.detach().clamp(max=math.log(truncation))
    return truncated.sub_(truncated.amax(dim=-1, keepdim=True)).exp_()


class _Known(torch.autograd.Function):
    """Values [K] whose slopes [K, n] are worked out already: one node, where autograd would spend most of a step."""

    @staticmethod
    def forward(ctx: Any, log_weights: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(slopes)
        return values

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return outward[0][..., None] * slopes, None, None


def crm_objective(
    log_weights: Tensor,
    returns: Tensor,
    truncation: float,
    variance_penalty: float | Tensor,
    least_ess: Tensor | None = None,
) -> Tensor:
    """v_SNTIS(π) − λ·sqrt(Var(v_SNTIS(π))), to be maximised, less what a policy pays for resting on few episodes.

    For weights [K, n] of K policies, that of each. Of shares p of the weights, v = Σ p·r and Var = Σ a² with
    a = p·(r − v), the normal approximation (Owen 2013, equation 9.9). Their slopes by log weights are a and, of the
    root, (a² − a·Σ p·a − p·Var) / sqrt(Var); of truncated weights they are 0. With `least_ess` see `shortfall`.

    >>> crm_objective(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0]), 1000.0, 1.0)  # 2 − sqrt(2 · (1/2)²)
    tensor(1.2929)
    """
    with torch.no_grad():
        shares = truncated_weights(log_weights, truncation)
        shares /= shares.sum(dim=-1, keepdim=True)
        value = (shares * returns).sum(dim=-1, keepdim=True)
        added = (returns - value).mul_(shares)
        squares = added * added
        variance = squares.sum(dim=-1, keepdim=True)
        spread = variance.clamp(min=TINY).sqrt_()
        penalty = variance_penalty[..., None] if isinstance(variance_penalty, Tensor) else variance_penalty
        by_spread = penalty / spread * (variance >= TINY)
        in_both = (shares * added).sum(dim=-1, keepdim=True)
        slopes = added - squares.sub_(added * in_both).sub_(shares * variance).mul_(by_spread)
        values = value - penalty * spread
        if least_ess is not None:
            price, slope = shortfall(shares, least_ess)
            values, slopes = values - price, slopes.sub_(slope)
        slopes.masked_fill_(log_weights > math.log(truncation), 0.0)
    found: Tensor = _Known.apply(log_weights, values[..., 0], slopes)  # type: ignore[no-untyped-call]
    return found


def shortfall(shares: Tensor, least_ess: Tensor) -> tuple[Tensor, Tensor]:
    """κ·max(0, ln E₀ − ln ESS), what it costs to rest on fewer effective episodes than E₀ (0: nothing); and its slopes.

    Of shares p of the weights, ESS = 1 / Σ p², whose logarithm has the slopes 2·p − 2·p² / Σ p².

    >>> cost, _ = shortfall(torch.full((10,), 0.1), torch.tensor(20.0))
    >>> round(float(cost), 3)  # 20 · ln 2
    13.863
    """
    squares = shares * shares
    concentration = squares.sum(dim=-1, keepdim=True)
    missing = (least_ess.clamp(min=TINY)[..., None] * concentration).log_()
    slopes = squares.div_(concentration).sub_(shares).mul_((missing > 0) * (2 * SHORTFALL))
    return missing.clamp_(min=0.0) * SHORTFALL, slopes


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
