"""POELA, PO-mu and PO-CRM, many at once: algorithm 1 with a leading axis for the policies."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray
from poela.core.errors import PoelaError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.core.ragged import rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint
from poela.learners.objective import crm_objective
from poela.learners.policy_gradient import BROKEN, PolicyGradient
from poela.learners.stacked import Learned, Member, Watch, fit_alone, in_parts
from poela.learners.training_batch import cloning_targets, refuse_no_weight
from poela.networks.modules import MLP, NetworkShape, device_of
from poela.networks.stack import Stack, members_at_a_time
from poela.networks.training import train_steps
from poela.policies.network import policy_of

# What all members have in common; rules, variance penalties and seeds are their own.
SHARED = (
    "truncation",
    "learning_rate",
    "weight_decay",
    "steps",
    "hidden",
    "warm_start_steps",
    "warm_start_episodes",
    "warm_start_last_steps",
    "standardise",
    "relu_logits",
    "discount",
    "checkpoints",
    "device",
)


def fit_policy_gradients(members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> list[Learned]:
    """The paths of all members."""
    learned: dict[Member, Learned] = {}
    rules = _Rules(train, behavior)
    for member in members:
        try:
            if not rules.leaves_a_choice(_learner(member)):
                learned[member] = fit_alone(member, train, behavior)
        except PoelaError as error:
            learned[member] = Learned(error=error)
    first = _learner(members[0])
    shape = NetworkShape("mlp", train.n_features, train.n_actions, first.hidden, first.relu_logits)
    left = [member for member in members if member not in learned]
    for part in in_parts(left, members_at_a_time(shape, train.n_steps, device_of(first.device))) if left else ():
        learned.update(zip(part, _fit(part, shape, rules), strict=True))
    return [learned[member] for member in members]


class _Rules:
    """Every rule over the training log, fitted once."""

    def __init__(self, train: Trajectories, behavior: Policy | None) -> None:
        self.train, self._behavior = train, behavior
        self._known: dict[object, tuple[FittedEligibility, BoolArray]] = {}

    def of(self, learner: PolicyGradient) -> tuple[FittedEligibility, BoolArray]:
        """The fitted rule and the eligible actions [N, A]."""
        if learner.rule not in self._known:
            self._known[learner.rule] = eligible_in_training(learner.rule, self.train, self._behavior)
        return self._known[learner.rule]

    def leaves_a_choice(self, learner: PolicyGradient) -> bool:
        """Whether some step has two eligible actions; refuses a rule under which no episode has weight."""
        eligible = self.of(learner)[1]
        refuse_no_weight(self.train, eligible)
        return bool((eligible.sum(axis=1) > 1).any())


def _fit(members: Sequence[Member], shape: NetworkShape, rules: _Rules) -> list[Learned]:
    train, settings = rules.train, _learner(members[0])
    device = device_of(settings.device)
    networks = [shape.build(member.seed) for member in members]
    if settings.standardise:
        for network in networks:
            network.standardise_by(train.contexts)
    stack = Stack([network for network in networks if isinstance(network, MLP)]).to(device)
    batch = _Batch(members, rules, settings, device)
    learned = [Learned() for _ in members]
    watch = Watch(stack, members, learned)
    every = max(settings.steps // settings.checkpoints, 1)
    with progress(f"{len(members)} policies", settings.warm_start_steps + settings.steps) as advance:
        for _ in _train(stack, batch.clone(stack), settings.warm_start_steps, settings, watch):
            advance()
        for done in _train(stack, batch.ascend(stack), settings.steps, settings, watch):
            advance()
            if done % every == 0 or done == settings.steps:
                watch.stop(batch.broken_by(stack), lambda name, step=done: BROKEN.format(name, step))  # type: ignore[misc]
                _add_checkpoints(learned, members, stack, rules, done)
    return learned


def _train(stack: Stack, losses: Iterator[Tensor], steps: int, settings: PolicyGradient, watch: Watch) -> Iterator[int]:
    return train_steps(
        stack,
        lambda step: next(losses),
        name="stack",
        steps=steps,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        look=watch,
    )


def _add_checkpoints(
    learned: Sequence[Learned], members: Sequence[Member], stack: Stack, rules: _Rules, step: int
) -> None:
    names = {"feature_names": rules.train.feature_names, "action_names": rules.train.action_names}
    for own, member, network in zip(learned, members, stack.members(), strict=True):
        if own.error is None:
            eligibility = rules.of(_learner(member))[0]
            own.checkpoints.append(Checkpoint(step, policy_of(network, eligibility=eligibility, **names)))


def _learner(member: Member) -> PolicyGradient:
    assert isinstance(member.learner, PolicyGradient)
    return member.learner


class _Batch:
    """The training log on the device, with each member's own eligible actions [K, N, A] and penalty [K]."""

    def __init__(
        self, members: Sequence[Member], rules: _Rules, settings: PolicyGradient, device: torch.device
    ) -> None:
        train = rules.train
        masks: dict[object, BoolArray] = {_learner(m).rule: rules.of(_learner(m))[1] for m in members}
        own = torch.tensor([list(masks).index(_learner(m).rule) for m in members], device=device)
        eligible = torch.stack([torch.tensor(mask, device=device) for mask in masks.values()])
        targets = [cloning_targets(train, mask, device) for mask in masks.values()]
        self._own, self._eligible_by_rule = own[:, None], eligible
        self._targets_by_rule = None if targets[0] is None else torch.stack([t for t in targets if t is not None])
        self._barred = ~eligible[own]
        self._contexts = torch.tensor(train.contexts, device=device)
        self._actions = torch.tensor(train.actions, device=device)
        self._log_propensities = torch.tensor(np.log(train.logged_propensities), device=device)
        self._returns = torch.tensor(train.returns(settings.discount), device=device)
        self._lengths = torch.tensor(train.lengths, device=device)
        self._penalties = torch.tensor([_learner(m).variance_penalty for m in members], device=device).double()
        self._seeds = [member.seed for member in members]
        self._train, self._settings = train, settings

    def log_weights(self, stack: Stack) -> Tensor:
        """log ∏W of each episode under each policy [K, n], in float64."""
        log_policy = torch.log_softmax(stack.logits(self._contexts).masked_fill(self._barred, -math.inf), dim=2)
        logged = log_policy.gather(2, self._actions.expand(len(stack), -1)[:, :, None])[:, :, 0]
        ratios = logged.double() - self._log_propensities
        # Along the first axis: its sums always run in the same order, on a GPU too.
        return torch.segment_reduce(ratios.T.contiguous(), "sum", lengths=self._lengths).T

    @torch.no_grad()
    def broken_by(self, stack: Stack) -> Tensor:
        """Which policies [K] give NaN on the training log."""
        return torch.isnan(self.log_weights(stack)).any(dim=1)

    def ascend(self, stack: Stack) -> Iterator[Tensor]:
        """The loss of each step: the sum over policies, none of which sees another's part."""
        while True:
            values = crm_objective(self.log_weights(stack), self._returns, self._settings.truncation, self._penalties)
            yield -values.sum()

    def clone(self, stack: Stack) -> Iterator[Tensor]:
        """The loss of each step of the warm start; members with the same seed see the same episodes."""
        generators = {seed: np.random.default_rng([seed, 1]) for seed in self._seeds}
        size = min(self._settings.warm_start_episodes, self._train.n_episodes)
        while True:
            drawn = {
                seed: np.sort(rng.choice(self._train.n_episodes, size, replace=False))
                for seed, rng in generators.items()
            }
            yield self._cloning_losses(stack, *self._padded(drawn)).sum()

    def _padded(self, drawn: dict[int, np.ndarray]) -> tuple[Tensor, Tensor]:
        """Rows [K, m] of the drawn episodes, and the share of each row in its member's mean (0: padding)."""
        rows, shares = {}, {}
        for seed, episodes in drawn.items():
            rows[seed], offsets = rows_of_episodes(episodes, self._train.offsets)
            kept = np.ones(len(rows[seed]))
            if not self._settings.warm_start_last_steps:
                kept[offsets[1:] - 1] = 0.0
            shares[seed] = kept / max(kept.sum(), 1.0)
        width = max(map(len, rows.values()))

        def padded(found: dict[int, np.ndarray]) -> Tensor:
            filled = {seed: np.pad(own, (0, width - len(own))) for seed, own in found.items()}
            return torch.as_tensor(np.stack([filled[seed] for seed in self._seeds]), device=self._contexts.device)

        return padded(rows), padded(shares).float()

    def _cloning_losses(self, stack: Stack, rows: Tensor, shares: Tensor) -> Tensor:
        eligible = self._eligible_by_rule[self._own, rows]
        logits = stack.logits(self._contexts[rows])
        log_policy = torch.log_softmax(logits.masked_fill(~eligible, -math.inf), dim=2)
        if self._targets_by_rule is None:
            losses = -log_policy.gather(2, self._actions[rows][:, :, None])[:, :, 0]
            losses = losses.masked_fill(~torch.isfinite(losses), 0.0)  # an ineligible logged action cannot be cloned
        else:
            targets = self._targets_by_rule[self._own, rows]
            losses = -(targets * log_policy.masked_fill(~eligible, 0.0)).sum(dim=2)
        return (losses * shares).sum(dim=1)
