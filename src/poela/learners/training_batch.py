"""The training log on the device, as the policy-gradient objective sees it."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.networks.modules import Network
from poela.networks.packing import Packing


@dataclass(frozen=True, eq=False)
class Steps:
    """Some steps of the log, in order."""

    contexts: Tensor  # [N, d]
    actions: Tensor  # [N]
    eligible: Tensor  # [N, A]
    packing: Packing | None  # for networks that remember

    def log_policy(self, network: Network) -> Tensor:
        """log π [N, A] over the eligible actions; −inf elsewhere."""
        logits = network.along(self.contexts, self.actions, self.packing)
        return torch.log_softmax(logits.masked_fill(~self.eligible, -math.inf), dim=1)

    def of_logged(self, log_policy: Tensor) -> Tensor:
        """The entries [N] of the logged actions."""
        return log_policy.gather(1, self.actions[:, None])[:, 0]


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """The whole log, with what the objective and the warm start need."""

    steps: Steps
    undecided: Steps  # steps with a choice to make: where a single action is eligible, no network is asked
    undecided_rows: Tensor
    decided_log_policy: Tensor  # [N]: 0 where the only eligible action was logged, −inf where it was not
    log_propensities: Tensor  # [N], float64
    targets: Tensor | None  # [N, A] behavior probabilities over eligible actions, where they are known
    returns: Tensor  # [n], float64
    lengths: Tensor  # [n]
    offsets: IntArray

    @classmethod
    def of(
        cls, train: Trajectories, eligible: BoolArray, discount: float, remembers: bool, device: torch.device
    ) -> "TrainingBatch":
        """The log as tensors; refuses one in which no episode can have any weight."""
        logged_eligible = refuse_no_weight(train, eligible)
        rows = np.arange(train.n_steps) if remembers else np.flatnonzero(eligible.sum(axis=1) > 1)
        packing = Packing.of(train.offsets, device) if remembers else None

        def steps(chosen: IntArray) -> Steps:
            return Steps(
                contexts=torch.tensor(train.contexts[chosen], device=device),
                actions=torch.tensor(train.actions[chosen], device=device),
                eligible=torch.tensor(eligible[chosen], device=device),
                packing=packing,
            )

        return cls(
            steps=steps(np.arange(train.n_steps)),
            undecided=steps(rows),
            undecided_rows=torch.tensor(rows, device=device),
            decided_log_policy=torch.tensor(
                np.where(logged_eligible, 0.0, -np.inf), dtype=torch.float32, device=device
            ),
            log_propensities=torch.tensor(np.log(train.logged_propensities), device=device),
            targets=cloning_targets(train, eligible, device),
            returns=torch.tensor(train.returns(discount), device=device),
            lengths=torch.tensor(train.lengths, device=device),
            offsets=train.offsets,
        )

    @property
    def nothing_to_choose(self) -> bool:
        """Whether every step has a single eligible action."""
        return not bool((self.steps.eligible.sum(dim=1) > 1).any())

    @torch.no_grad()
    def broken_by(self, network: Network) -> bool:
        """Whether the network gives NaN on the training log, so that it must not become a checkpoint."""
        return bool(torch.isnan(self.log_weights(network)).any())

    def log_weights(self, network: Network) -> Tensor:
        """log ∏W for each episode [n], in float64; −inf where a logged action is ineligible."""
        chosen = self.undecided.of_logged(self.undecided.log_policy(network))
        logged = self.decided_log_policy.index_copy(0, self.undecided_rows, chosen)
        return _episode_sums(logged.double() - self.log_propensities, self.lengths)

    def cloning_loss(self, network: Network, episodes: IntArray, last_steps: bool) -> Tensor:
        """Cross-entropy to the behavior probabilities (or to the logged actions) on some episodes."""
        steps, rows, ends = self._some(network, episodes)
        log_policy = steps.log_policy(network)
        if self.targets is None:
            losses = -steps.of_logged(log_policy)
            losses = losses.masked_fill(~torch.isfinite(losses), 0.0)  # an ineligible logged action cannot be cloned
        else:
            losses = -(self.targets[rows] * log_policy.masked_fill(~steps.eligible, 0.0)).sum(dim=1)
        if last_steps:
            return losses.mean()
        kept = torch.ones_like(losses)
        kept[ends] = 0.0
        return (losses * kept).sum() / kept.sum().clamp(min=1.0)

    def _some(self, network: Network, episodes: IntArray) -> tuple[Steps, Tensor, Tensor]:
        flat, offsets = rows_of_episodes(episodes, self.offsets)
        device = self.steps.contexts.device
        rows = torch.as_tensor(flat, device=device)
        packing = Packing.of(offsets, device) if network.remembers else None
        steps = Steps(self.steps.contexts[rows], self.steps.actions[rows], self.steps.eligible[rows], packing)
        return steps, rows, torch.as_tensor(offsets[1:] - 1, device=device)


def _episode_sums(values: Tensor, lengths: Tensor) -> Tensor:
    length = len(values) // len(lengths)
    if length * len(lengths) == len(values) and bool((lengths == length).all()):
        return values.reshape(-1, length).sum(dim=1)
    return torch.segment_reduce(values, "sum", lengths=lengths)


def refuse_no_weight(train: Trajectories, eligible: BoolArray) -> BoolArray:
    """Whether the logged action of each step [N] is eligible; refuses a rule that leaves no episode any weight."""
    logged_eligible: BoolArray = np.take_along_axis(eligible, train.actions[:, None], axis=1)[:, 0]
    if not np.logical_and.reduceat(logged_eligible, train.offsets[:-1]).any():
        raise InputError(
            f"every one of the {train.n_episodes} training episodes takes an ineligible action at some step, "
            "so all importance weights are zero: loosen the rule"
        )
    return logged_eligible


def cloning_targets(train: Trajectories, eligible: BoolArray, device: torch.device) -> Tensor | None:
    """The behavior probabilities [N, A] over eligible actions; None where only those of logged actions are known."""
    if train.propensities is None or train.propensities.ndim == 1:
        return None
    targets: FloatArray = np.where(eligible, train.propensities, 0.0)
    totals = targets.sum(axis=1, keepdims=True)
    # Where the rule leaves only actions that the logging policy never takes, all eligible ones are as good.
    evenly = eligible / eligible.sum(axis=1, keepdims=True)
    targets = np.where(totals > 0, targets / np.where(totals > 0, totals, 1.0), evenly)
    return torch.tensor(targets, dtype=torch.float32, device=device)
