"""The training log on the device, as the policy-gradient objective sees it under the rules of K policies."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.networks.logged import Episodes, OpenSteps, Shares, together
from poela.networks.packing import Packing
from poela.networks.stack import RecurrentStack, Stack

MOST_PRICED = 20_000  # steps that are asked what missing support costs; of more, every second, third, …


@dataclass(frozen=True, eq=False)
class StepTensors:
    """Some steps of the log, in order, as some or all of the policies see them: the same for each, or its own."""

    inputs: Tensor  # [m, d] or [K, m, d]
    actions: Tensor  # [m] or [K, m]
    barred: Tensor  # [m, A] or [K, m, A], the ineligible actions
    packing: Packing | None  # for networks that remember
    policies: slice  # of the stack, which see these steps
    penalty: Tensor | None = None  # [m, A], what logits lose

    def log_policy(self, stack: Stack | RecurrentStack) -> Tensor:
        """log π [K, m, A] over the eligible actions; −inf elsewhere."""
        logits = stack.logits(self.inputs, self.actions, self.packing, self.policies)
        if self.penalty is not None:
            logits = logits - self.penalty
        return torch.log_softmax(logits.masked_fill(self.barred, -math.inf), dim=2)

    def of_logged(self, log_policy: Tensor) -> Tensor:
        """The entries [K, m] of the logged actions."""
        return log_policy.gather(2, self.actions.expand(len(log_policy), -1)[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class Ruled:
    """Episodes of the log under the rule of some policies; a network is asked only at its open steps.

    These are all steps of networks that remember. For others, they are where the rule leaves a choice, in episodes
    that it leaves any weight.
    """

    steps: OpenSteps  # [m], the open ones
    counts: Tensor  # [n], of each episode
    settled: Tensor  # [n], what the other factors add to each log weight; −inf where a logged action is ineligible
    policies: slice  # of the stack

    def log_weights(self, stack: Stack | RecurrentStack) -> Tensor:
        """log ∏W of each episode under each policy [K, n], in float64."""
        if isinstance(stack, RecurrentStack):
            return self.settled + self._episodes.sums(self._remembered(stack))
        return self.settled + stack.log_logged(self.steps, self._episodes, self.policies)

    def only(self, episodes: Tensor) -> "Ruled":
        """Some of the episodes, by their numbers [k]."""
        counts = self.counts[episodes]
        before = (self.counts.cumsum(0) - self.counts)[episodes] - (counts.cumsum(0) - counts)
        rows = torch.repeat_interleave(before, counts)
        rows += torch.arange(len(rows), device=rows.device)
        return Ruled(self.steps.at(rows), counts, self.settled[episodes], self.policies)

    @cached_property
    def _episodes(self) -> Episodes:
        return Episodes(self.counts)

    @cached_property
    def _packing(self) -> Packing:
        return Packing.of(np.cumsum([0, *self.counts.tolist()]), self.counts.device)

    def _remembered(self, stack: RecurrentStack) -> Tensor:
        steps = self.steps
        penalty = None if steps.penalty is None else steps.penalty.T
        seen = StepTensors(steps.inputs, steps.actions, steps.barred.T, self._packing, self.policies, penalty)
        return seen.of_logged(seen.log_policy(stack))


class TrainingBatch:
    """The whole log, with what the objective and the warm start need, each made when it is asked for."""

    def __init__(
        self,
        train: Trajectories,
        eligible: Sequence[BoolArray],
        stack: Stack | RecurrentStack,
        *,
        discount: float,
        penalties: Sequence[FloatArray | None] = (),
    ) -> None:
        """For stacks like this one; `eligible` [N, A] of each policy: neighbours with the same rule share an array.

        `penalties` [N, A] of each policy are what its logits lose; the warm start does not look at them, so that
        policies start at the logging policy with less of what has a price.
        """
        self._train, self._eligible, self._device = train, eligible, stack.device
        self._penalties = penalties or [None] * len(eligible)
        self._inputs, self._remembers = stack.inputs, isinstance(stack, RecurrentStack)
        self.returns = torch.tensor(train.returns(discount), device=stack.device)  # [n], float64

    @cached_property
    def ruled(self) -> "list[Ruled]":
        """Rule by rule, so that a policy's own sums do not depend on the rules of others."""
        return [
            self._under(self._eligible[own.start], self._penalties[own.start], own) for own in _runs(self._eligible)
        ]

    @cached_property
    def _priced(self) -> "list[_Priced]":
        return [
            self._priced_under(self._eligible[own.start], self._penalties[own.start], own)
            for own in _runs(self._eligible)
        ]

    @cached_property
    def _to_clone(self) -> "_ToClone":
        return _ToClone.of(self._train, self._eligible, self._inputs, self._device)

    def log_weights(self, stack: Stack | RecurrentStack) -> Tensor:
        """log ∏W of each episode under each policy [K, n], in float64; −inf where a logged action is ineligible."""
        return together([ruled.log_weights(stack) for ruled in self.ruled])

    @torch.no_grad()
    def broken_by(self, stack: Stack | RecurrentStack) -> list[int]:
        """The numbers of policies that give NaN on the training log, and so must not become checkpoints."""
        policies: list[int] = torch.nonzero(torch.isnan(self.log_weights(stack)).any(dim=1)).flatten().tolist()
        return policies

    def cloning_losses(
        self, stack: Stack | RecurrentStack, drawn: Sequence[IntArray], whose: Tensor, last_steps: bool
    ) -> Tensor:
        """Cross-entropies [K] to the behavior probabilities (or to the logged actions).

        Policy k sees the episodes `drawn[whose[k]]`, with or without their last steps.
        """
        parts = [self._some(episodes, last_steps) for episodes in drawn]
        rows, shares = (_padded(own, stack.device)[whose] for own in zip(*parts, strict=True))
        offsets, log = self._train.offsets, self._to_clone
        if not isinstance(stack, RecurrentStack):
            own = log.at(rows)
            if own.targets is None:  # an ineligible logged action cannot be cloned
                shares = shares.masked_fill(own.barred.gather(1, own.actions[:, None])[:, 0], 0.0)
            return -stack.log_logged(own, Shares(shares))
        packing = Packing.of(rows_of_episodes(drawn[0], offsets)[1], stack.device)
        steps = StepTensors(log.inputs[rows], log.actions[rows], log.barred[log.rule, rows], packing, slice(None))
        log_policy = steps.log_policy(stack)
        if log.targets is None:
            losses = -steps.of_logged(log_policy)
            losses = losses.masked_fill(~torch.isfinite(losses), 0.0)  # an ineligible logged action cannot be cloned
        else:
            losses = -(log.targets[log.rule, rows] * log_policy.masked_fill(steps.barred, 0.0)).sum(dim=2)
        return (losses * shares).sum(dim=1)

    def costs(self, stack: Stack | RecurrentStack) -> Tensor:
        """What each policy [K] pays for missing support, Σ_a π·penalty, on average over all steps."""
        return together([priced.costs(stack) for priced in self._priced])

    def _priced_under(self, eligible: BoolArray, penalty: FloatArray | None, policies: slice) -> "_Priced":
        costly = np.zeros(0, np.int64)
        if penalty is not None:
            costly = np.flatnonzero((eligible & (penalty > 0)).any(axis=1) & leaves_a_choice(eligible))
        if penalty is None or not len(costly):
            return _Priced(None, 0.0, policies)
        rows = costly[:: -(-len(costly) // MOST_PRICED)]
        each, packing = len(costly) / len(rows) / self._train.n_steps, None
        if self._remembers:  # it sees whole episodes
            rows, each = np.arange(self._train.n_steps), 1 / self._train.n_steps
            packing = Packing.of(self._train.offsets, self._device)
        contexts, actions, barred, costs = (
            torch.tensor(array[rows], device=self._device)
            for array in (self._train.contexts, self._train.actions, ~eligible, penalty.astype(np.float32))
        )
        return _Priced(StepTensors(self._inputs(contexts), actions, barred, packing, policies, costs), each, policies)

    def _under(self, eligible: BoolArray, penalty: FloatArray | None, policies: slice) -> Ruled:
        train = self._train
        ratios = np.where(logged_eligible(train, eligible), 0.0, -np.inf) - np.log(train.logged_propensities)
        settled = np.add.reduceat(ratios, train.offsets[:-1])
        is_open = leaves_a_choice(eligible) & np.repeat(settled > -np.inf, train.lengths)
        if self._remembers:
            is_open[:] = True  # it sees whole episodes

        def on_device(own: np.ndarray) -> Tensor:
            return torch.tensor(own, device=self._device)

        rows = slice(None) if is_open.all() else np.flatnonzero(is_open)
        return Ruled(
            OpenSteps(
                self._inputs(on_device(train.contexts[rows])),
                on_device(train.actions[rows]),
                on_device(~eligible[rows].T),
                None if penalty is None else on_device(penalty[rows].T.astype(np.float32)),
            ),
            counts=on_device(np.add.reduceat(is_open.astype(np.int64), train.offsets[:-1])),
            settled=on_device(settled),
            policies=policies,
        )

    def _some(self, episodes: IntArray, last_steps: bool) -> tuple[IntArray, FloatArray]:
        """The rows of some episodes, and the share of each in the mean over all."""
        rows, offsets = rows_of_episodes(episodes, self._train.offsets)
        weights = np.ones(len(rows), np.float32)
        if not last_steps:
            weights[offsets[1:] - 1] = 0.0
        return rows, weights / max(weights.sum(), 1.0)


@dataclass(frozen=True, eq=False)
class _Priced:
    """The steps at which some eligible action has a price (None: there are none), and how much each counts."""

    steps: StepTensors | None
    each: float
    policies: slice

    def costs(self, stack: Stack | RecurrentStack) -> Tensor:
        """Of each policy of the rule."""
        if self.steps is None or self.steps.penalty is None:
            return torch.zeros(self.policies.stop - self.policies.start, dtype=torch.float64, device=stack.device)
        paid = self.steps.log_policy(stack).exp() * self.steps.penalty
        return self.each * paid.sum(dim=(1, 2)).double()


@dataclass(frozen=True, eq=False)
class _ToClone:
    """The whole log, as the warm start sees it."""

    inputs: Tensor  # [N, d]
    actions: Tensor  # [N]
    rule: Tensor  # [K, 1], the number of each policy's rule
    barred: Tensor  # [rules, N, A]
    targets: Tensor | None  # [rules, N, A]

    def at(self, rows: Tensor) -> OpenSteps:
        """Steps of these numbers [K, m] as networks of the current context see them."""
        barred = self.barred[self.rule, rows].mT.contiguous()
        targets = None if self.targets is None else self.targets[self.rule, rows].mT.contiguous()
        return OpenSteps(self.inputs[rows], self.actions[rows], barred, targets=targets)

    @classmethod
    def of(
        cls,
        train: Trajectories,
        eligible: Sequence[BoolArray],
        inputs: Callable[[Tensor], Tensor],
        device: torch.device | str,
    ) -> "_ToClone":
        rules = {id(mask): mask for mask in eligible}
        targets = [_cloning_targets(train, mask, device) for mask in rules.values()]
        return cls(
            inputs=inputs(torch.tensor(train.contexts, device=device)),
            actions=torch.tensor(train.actions, device=device),
            rule=torch.tensor([[list(rules).index(id(mask))] for mask in eligible], device=device),
            barred=torch.stack([torch.tensor(~mask, device=device) for mask in rules.values()]),
            targets=None if targets[0] is None else torch.stack([own for own in targets if own is not None]),
        )


def leaves_a_choice(eligible: BoolArray) -> BoolArray:
    """Steps [N] with more than one eligible action."""
    return np.asarray(eligible.sum(axis=1) > 1)


def logged_eligible(train: Trajectories, eligible: BoolArray) -> BoolArray:
    """Whether the logged action of each step [N] is eligible."""
    return np.take_along_axis(eligible, train.actions[:, None], axis=1)[:, 0]


def refuse_no_weight(train: Trajectories, eligible: BoolArray) -> None:
    """Refuse a log without propensities, and a rule that leaves no episode any weight."""
    _ = train.logged_propensities
    if not np.logical_and.reduceat(logged_eligible(train, eligible), train.offsets[:-1]).any():
        raise InputError(
            f"every one of the {train.n_episodes} training episodes takes an ineligible action at some step, "
            "so all importance weights are zero: loosen the rule"
        )


def _runs(masks: Sequence[BoolArray]) -> list[slice]:
    """Runs of neighbours that are the same array."""
    starts = [number for number, mask in enumerate(masks) if number == 0 or mask is not masks[number - 1]]
    return [slice(start, end) for start, end in pairwise([*starts, len(masks)])]


def _padded(rows: Sequence[np.ndarray], device: torch.device | str) -> Tensor:
    """Arrays of different lengths as one tensor, filled up with zeros."""
    width = max(map(len, rows))
    filled = [own if len(own) == width else np.pad(own, (0, width - len(own))) for own in rows]
    return torch.as_tensor(np.stack(filled), device=device)


def _cloning_targets(train: Trajectories, eligible: BoolArray, device: torch.device | str) -> Tensor | None:
    """The behavior probabilities [N, A] over eligible actions; None where only those of logged actions are known."""
    if train.propensities is None or train.propensities.ndim == 1:
        return None
    targets: FloatArray = np.where(eligible, train.propensities, 0.0)
    totals = targets.sum(axis=1, keepdims=True)
    # Where the rule leaves only actions that the logging policy never takes, all eligible ones are as good.
    evenly = eligible / eligible.sum(axis=1, keepdims=True)
    targets = np.where(totals > 0, targets / np.where(totals > 0, totals, 1.0), evenly)
    return torch.tensor(targets, dtype=torch.float32, device=device)
