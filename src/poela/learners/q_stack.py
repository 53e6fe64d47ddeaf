"""BCQ, PQL and CQL, many at once: double Q-learning with a leading axis for the networks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from poela.core.arrays import BoolArray
from poela.core.errors import PoelaError, TrainingError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.learners.divergence import reachable_return, refuse_divergence
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint
from poela.learners.q_learning import CQL, PQL, QLearning
from poela.learners.stacked import Learned, Member, Watch, in_parts
from poela.learners.transitions import BATCHES_AT_A_TIME, ROWS_AT_A_TIME, Transitions
from poela.networks.modules import MLP, NetworkShape, device_of
from poela.networks.stack import Stack, members_at_a_time, stacked_outputs
from poela.networks.training import LOOK_EVERY, train_steps
from poela.policies.value import GreedyQPolicy

# What all members have in common; rules, thresholds, densities, conservatism and seeds are their own.
SHARED = (
    "steps",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "discount",
    "target_rate",
    "hidden",
    "standardise",
    "checkpoints",
    "device",
)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What a member has worked out before training."""

    eligibility: FittedEligibility
    eligible: BoolArray
    disbelieved: BoolArray
    floor: float


def fit_q_functions(members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> list[Learned]:
    """The paths of all members."""
    learned: dict[Member, Learned] = {}
    prepared: dict[Member, _Prepared] = {}
    preparation = _Preparation(train, behavior)
    for member in members:
        try:
            prepared[member] = preparation.of(member)
        except PoelaError as error:
            learned[member] = Learned(error=error)
    first = _learner(members[0])
    shape = NetworkShape("mlp", train.n_features, train.n_actions, first.hidden)
    most = members_at_a_time(shape, ROWS_AT_A_TIME, device_of(first.device))
    for part in in_parts(list(prepared), most) if prepared else ():
        learned.update(zip(part, _fit(part, [prepared[member] for member in part], shape, train), strict=True))
    return [learned[member] for member in members]


class _Preparation:
    """Rules and densities, each worked out once for all members that share it."""

    def __init__(self, train: Trajectories, behavior: Policy | None) -> None:
        self._train, self._behavior = train, behavior
        self._rules: dict[object, tuple[FittedEligibility, BoolArray]] = {}
        self._pessimism: dict[object, tuple[BoolArray, float]] = {}

    def of(self, member: Member) -> _Prepared:
        learner = _learner(member)
        rule = learner.eligibility_rule()
        if rule not in self._rules:
            self._rules[rule] = eligible_in_training(rule, self._train, self._behavior)
        names = ("percentile", "density", "density_steps", "lowest_value") if isinstance(learner, PQL) else ()
        key = (member.seed if names else None, *(getattr(learner, name) for name in names))
        if key not in self._pessimism:
            self._pessimism[key] = learner.pessimistic_steps(self._train, member.seed)
        return _Prepared(*self._rules[rule], *self._pessimism[key])


def _fit(
    members: Sequence[Member], prepared: Sequence[_Prepared], shape: NetworkShape, train: Trajectories
) -> list[Learned]:
    settings = _learner(members[0])
    device = device_of(settings.device)
    networks = [shape.build(member.seed) for member in members]
    if settings.standardise:
        for network in networks:
            network.standardise_by(train.contexts)
    mlps = [network for network in networks if isinstance(network, MLP)]
    data = _StackedTransitions.of(train, mlps[0], prepared, settings.discount, device)
    stack = Stack(mlps).to(device)
    learned = [Learned() for _ in members]
    watch = Watch(stack, members, learned)
    # What an untrained network says is no divergence, even where all rewards are tiny.
    of_returns = reachable_return(train, settings.discount)
    untrained = data.largest_values(stack).tolist()
    reachable = [max(of_returns, abs(own.floor), largest) for own, largest in zip(prepared, untrained, strict=True)]

    def stop_divergence(where: str, largest: Tensor) -> None:
        for own, member, value, most in zip(learned, members, largest.tolist(), reachable, strict=True):
            try:
                refuse_divergence(type(member.learner).__name__, where, value, most)
            except TrainingError as error:
                own.error = own.error or error

    every = max(settings.steps // settings.checkpoints, 1)
    with progress(f"{len(members)} Q functions", settings.steps) as advance:
        for done in _learn(stack, data, members, watch, stop_divergence):
            advance()
            if done % every == 0 or done == settings.steps:
                stop_divergence(f"step {done}", data.largest_values(stack))
                _add_checkpoints(learned, prepared, stack, train, done)
    return learned


def _add_checkpoints(
    learned: Sequence[Learned], prepared: Sequence[_Prepared], stack: Stack, train: Trajectories, step: int
) -> None:
    for own, rule, network in zip(learned, prepared, stack.members(), strict=True):
        if own.error is None:
            policy = GreedyQPolicy(
                network=network,
                eligibility=rule.eligibility,
                feature_names=train.feature_names,
                action_names=train.action_names,
            )
            own.checkpoints.append(Checkpoint(step, policy))


def _learn(
    stack: Stack,
    data: "_StackedTransitions",
    members: Sequence[Member],
    watch: Watch,
    stop_divergence: Callable[[str, Tensor], None],
) -> Iterator[int]:
    settings = _learner(members[0])
    batches = data.batches(settings.batch_size, [member.seed for member in members])
    fast: list[Tensor] = [*stack.weights, *stack.biases]
    slow = [weight.detach().clone() for weight in fast]
    conservatism = torch.tensor([_conservatism(member) for member in members], device=data.actions.device)
    conservative = bool(conservatism.any())

    def loss(step: int) -> Tensor:
        rows = next(batches)
        values, goals = data.values(rows, fast, slow)
        if step % LOOK_EVERY == 0:
            stop_divergence(f"step {step}", values.detach().abs().amax(dim=(1, 2)))
        logged = values.gather(2, data.actions[rows])[:, :, 0]
        losses = huber_loss(logged, goals, reduction="none").mean(dim=1)
        if conservative:
            losses = losses + conservatism * (torch.logsumexp(values, dim=2) - logged).mean(dim=1)
        return losses.sum()

    @torch.no_grad()
    def follow(step: int) -> None:
        torch._foreach_lerp_(slow, fast, settings.target_rate)

    return train_steps(
        stack,
        loss,
        name="stack",
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        after_step=follow,
        look=watch,
    )


def _learner(member: Member) -> QLearning:
    assert isinstance(member.learner, QLearning)
    return member.learner


def _conservatism(member: Member) -> float:
    return member.learner.conservatism if isinstance(member.learner, CQL) else 0.0


@dataclass(frozen=True, eq=False)
class _StackedTransitions:
    """`Transitions` of several members: those that share a rule and a density share its tensors, too."""

    inputs: Tensor  # [N, d]
    actions: Tensor  # [N, 1]
    following: Tensor  # [N]
    own: Tensor  # [K, 1], which of the variants below is whose
    sure: Tensor  # [V, N]
    passed_on: Tensor  # [V, N]
    barred: Tensor  # [V, N, A]

    @classmethod
    def of(
        cls,
        train: Trajectories,
        network: MLP,
        prepared: Sequence[_Prepared],
        discount: float,
        device: torch.device,
    ) -> "_StackedTransitions":
        """The same for all members but for rules and disbelief."""
        keys = [(id(own.eligible), id(own.disbelieved), own.floor) for own in prepared]
        variants = dict(zip(keys, prepared, strict=True))
        each = [
            Transitions.of(
                train,
                network,
                eligible=own.eligible,
                discount=discount,
                disbelieved=own.disbelieved,
                floor=own.floor,
                device=device,
            )
            for own in variants.values()
        ]
        order = list(variants)
        return cls(
            inputs=each[0].inputs,
            actions=each[0].actions,
            following=each[0].following,
            own=torch.tensor([[order.index(key)] for key in keys], device=device),
            sure=torch.stack([one.sure for one in each]),
            passed_on=torch.stack([one.passed_on for one in each]),
            barred=torch.stack([one.barred for one in each]),
        )

    @torch.no_grad()
    def largest_values(self, stack: Stack) -> Tensor:
        """The largest value [K] of each network in the log, up to its sign."""
        parts = torch.split(self.inputs, ROWS_AT_A_TIME)
        outputs = (stacked_outputs([*stack.weights], [*stack.biases], part) for part in parts)
        return torch.stack([found.abs().amax(dim=(1, 2)) for found in outputs]).amax(dim=0)

    def values(self, rows: Tensor, fast: Sequence[Tensor], slow: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The networks' values [K, m, A] at each one's rows [K, m], and the goals [K, m] (double Q)."""
        following = self.following[rows]
        with torch.no_grad():
            next_inputs = self.inputs[following]
            best = (_outputs(fast, next_inputs) + self.barred[self.own, following]).argmax(dim=2, keepdim=True)
            value = _outputs(slow, next_inputs).gather(2, best)[:, :, 0]
            goals = torch.addcmul(self.sure[self.own, rows], self.passed_on[self.own, rows], value)
        return _outputs(fast, self.inputs[rows]), goals

    def batches(self, size: int, seeds: Sequence[int]) -> Iterator[Tensor]:
        """Random rows [K, size], many batches drawn at a time; equal seeds draw the same."""
        generators = {seed: np.random.default_rng([seed, 2]) for seed in seeds}
        shape = (BATCHES_AT_A_TIME, size)
        while True:
            drawn = {seed: rng.integers(len(self.actions), size=shape) for seed, rng in generators.items()}
            rows = np.stack([drawn[seed] for seed in seeds], axis=1)
            yield from torch.as_tensor(rows, device=self.actions.device)


def _outputs(parameters: Sequence[Tensor], inputs: Tensor) -> Tensor:
    half = len(parameters) // 2
    return stacked_outputs(parameters[:half], parameters[half:], inputs)
