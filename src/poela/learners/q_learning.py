"""BCQ, PQL and CQL: one discrete Q learner. They believe that the context tells all (the Markov assumption)."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from poela.core.arrays import BoolArray
from poela.core.errors import PoelaError, TrainingError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.core.ragged import returns_to_go
from poela.core.typed import Count, Discount, NonNegative, Positive, Range, Share
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyRule, Eligibility, as_rule
from poela.learners.density import Density, low_density
from poela.learners.learner import eligible_in_training
from poela.learners.stacked import Events, Member, StackedLearner, TrainingStack, in_parts
from poela.learners.value_learner import reachable_return, refuse_divergence
from poela.networks.modules import Device, Hidden, Network, NetworkShape, device_of
from poela.networks.stack import Layers, Stack, members_at_a_time, stacked_outputs
from poela.networks.training import CHECK_EVERY
from poela.policies.network import GreedyQPolicy

# Logged steps as flat tensors for Q-learning, with everything worked out that no training step changes.

ROWS_AT_A_TIME = 65536
BATCHES_AT_A_TIME = 1000


@dataclass(frozen=True, eq=False)
class Limits:
    """What holds a Q function back: actions that are barred, and contexts whose value is not believed."""

    eligible: BoolArray  # [N, A]
    disbelieved: BoolArray  # [N], their value counts as `floor`, whatever the network says
    floor: float


@dataclass(frozen=True, eq=False)
class Transitions:
    """Logged steps; the goal of each is `sure` + `passed_on` · (value of the best eligible action at `following`).

    K networks have V different limits.
    """

    inputs: Tensor  # [N, d], on the networks' own scale
    actions: Tensor  # [N, 1]
    following: Tensor  # [N], the next row; the row itself after an episode's last step
    whose: Tensor  # [K, 1], which limits are each network's
    sure: Tensor  # [V, N], the reward, and what does not depend on the network
    passed_on: Tensor  # [V, N], γ; 0 after the last step, and where the next context's value is not believed
    barred: Tensor  # [V, N, A], 0 where eligible, else −inf

    @classmethod
    @torch.no_grad()
    def of(cls, train: Trajectories, stack: Stack, limits: Sequence[Limits], discount: float) -> "Transitions":
        """`limits` of each network; those with the same have the same object."""
        following = np.arange(train.n_steps) + 1
        following[train.offsets[1:] - 1] -= 1
        goes_on = following > np.arange(train.n_steps)
        each = list(dict.fromkeys(limits))
        believed = [~own.disbelieved[following] for own in each]
        sure = [train.rewards + discount * own.floor * (goes_on & ~b) for own, b in zip(each, believed, strict=True)]

        def floats(values: Sequence[np.ndarray]) -> Tensor:
            return torch.tensor(np.stack(values), dtype=torch.float32, device=stack.device)

        return cls(
            inputs=stack.inputs(torch.tensor(train.contexts, device=stack.device)),
            actions=torch.tensor(train.actions[:, None], device=stack.device),
            following=torch.tensor(following, device=stack.device),
            whose=torch.tensor([[each.index(own)] for own in limits], device=stack.device),
            sure=floats(sure),
            passed_on=floats([discount * (goes_on & own) for own in believed]),
            barred=floats([np.where(own.eligible, 0.0, -np.inf) for own in each]),
        )

    @torch.no_grad()
    def largest_values(self, layers: Layers) -> Tensor:
        """The largest value [K], up to its sign, that each network gives at any logged context."""
        outputs = (stacked_outputs(layers, part) for part in torch.split(self.inputs, ROWS_AT_A_TIME))
        return torch.stack([values.abs().amax(dim=(1, 2)) for values in outputs]).amax(dim=0)

    def values(self, rows: Tensor, layers: Layers, target: Layers) -> tuple[Tensor, Tensor]:
        """Each network's values [K, m, A] at its rows [K, m], and the goals [K, m] of the logged actions (double Q)."""
        following = self.following[rows]
        with torch.no_grad():
            next_inputs = self.inputs[following]
            allowed = stacked_outputs(layers, next_inputs) + self.barred[self.whose, following]
            value = stacked_outputs(target, next_inputs).gather(2, allowed.argmax(dim=2, keepdim=True))[:, :, 0]
            goals = torch.addcmul(self.sure[self.whose, rows], self.passed_on[self.whose, rows], value)
        return stacked_outputs(layers, self.inputs[rows]), goals

    def batches(self, size: int, seeds: Sequence[int]) -> Iterator[Tensor]:
        """Random rows [K, size], many batches drawn at a time; equal seeds draw the same."""
        generators = {seed: np.random.default_rng([seed, 2]) for seed in seeds}
        shape = (BATCHES_AT_A_TIME, size)
        while True:
            drawn = {seed: rng.integers(len(self.actions), size=shape) for seed, rng in generators.items()}
            yield from torch.as_tensor(np.stack([drawn[seed] for seed in seeds], axis=1), device=self.actions.device)


@dataclass(frozen=True, kw_only=True)
class QLearning(StackedLearner):
    """Double Q-learning on minibatches of logged transitions, with a slowly moving target network."""

    rule: AnyRule | None = None  # None: every action that passes the threshold, if there is one
    steps: Count = 1000  # of training
    batch_size: Count = 100  # transitions in a step of training
    learning_rate: Positive = 3e-4  # step size of Adam
    weight_decay: NonNegative = 1e-3  # of Adam
    discount: Discount = 0.99  # of rewards, per step
    target_rate: Discount = 0.005  # Polyak τ
    hidden: Hidden = (32, 32)  # units of each hidden layer
    standardise: bool = True  # whether features are standardised first
    checkpoints: Count = 10  # policies that are kept on the way
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one

    def eligibility_rule(self) -> Eligibility:
        """Which actions may be taken, and bootstrapped from."""
        return as_rule(self.rule)

    def pessimistic_steps(self, train: Trajectories, seeds: Sequence[int]) -> tuple[Sequence[BoolArray], float]:
        """For each seed the contexts [N] whose value is not believed, and what counts instead; only PQL has any."""
        return [np.zeros(train.n_steps, np.bool_)] * len(seeds), 0.0

    @property
    def pessimism_key(self) -> Hashable:
        """Equal for members of a stack that have the same pessimistic steps, seed by seed."""
        return None

    @property
    def stack_key(self) -> Hashable:
        """All settings that every Q learner has, but for the rule; those of one kind alone are each one's own."""
        return "Q-learning", *(getattr(self, field.name) for field in fields(QLearning) if field.name != "rule")

    def train_stack(self, members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> Events:
        """Train each member within its limits."""
        shape = NetworkShape("mlp", train.n_features, train.n_actions, self.hidden)
        prepared: dict[Member, tuple[FittedEligibility, Limits]] = {}
        prepare = _Preparation(members, train, behavior)
        for member in members:
            try:
                prepared[member] = prepare(member)
            except PoelaError as error:
                yield member, error

        def policy(member: Member, network: Network) -> GreedyQPolicy:
            return GreedyQPolicy(
                network=network,
                eligibility=prepared[member][0],
                feature_names=train.feature_names,
                action_names=train.action_names,
            )

        for part in in_parts(list(prepared), members_at_a_time(shape, ROWS_AT_A_TIME, device_of(self.device))):
            stack = self.new_stack(shape, part, train)
            assert isinstance(stack, Stack)
            limits = [prepared[member][1] for member in part]
            data = Transitions.of(train, stack, limits, self.discount)
            # What an untrained network says is no divergence, even where all rewards are tiny.
            of_returns, untrained = reachable_return(train, self.discount), data.largest_values(stack.layers).tolist()
            reachable = [max(of_returns, abs(own.floor), most) for own, most in zip(limits, untrained, strict=True)]
            yield from self._learn(TrainingStack(part, stack), stack, data, reachable, policy)

    def _learn(
        self,
        trained: TrainingStack,
        stack: Stack,
        data: Transitions,
        reachable: Sequence[float],
        policy: Callable[[Member, Network], Policy],
    ) -> Events:
        target = [(weight.detach().clone(), bias.detach().clone()) for weight, bias in stack.layers]
        fast, slow = [*chain(*stack.layers)], [*chain(*target)]
        batches = data.batches(self.batch_size, [member.seed for member in trained.members])
        conservatism = [getattr(member.learner, "conservatism", 0.0) for member in trained.members]
        alphas = torch.tensor(conservatism, device=stack.device) if any(conservatism) else None

        def check(step: int, largest: Tensor) -> None:
            for number, (value, most) in enumerate(zip(largest.tolist(), reachable, strict=True)):
                try:
                    refuse_divergence(trained.members[number].name, f"step {step}", value, most)
                except TrainingError as error:
                    trained.emit(number, error)

        def loss(step: int) -> Tensor:
            rows = next(batches)
            values, goals = data.values(rows, stack.layers, target)
            if step % CHECK_EVERY == 0:
                check(step, values.detach().abs().amax(dim=(1, 2)))
            logged = values.gather(2, data.actions[rows])[:, :, 0]
            losses = huber_loss(logged, goals, reduction="none").mean(dim=1)
            return losses if alphas is None else losses + alphas * conservative_terms(values, logged)

        with progress(trained.title, self.steps) as advance:
            for done in trained.train(self, self.steps, loss):
                advance()
                with torch.no_grad():
                    torch._foreach_lerp_(slow, fast, self.target_rate)
                if self.is_checkpoint(done):
                    check(done, data.largest_values(stack.layers))
                    trained.checkpoint(done, policy)
                yield from trained.pop_events()


class _Preparation:
    """Rules and pessimism, each worked out once for all members that share it."""

    def __init__(self, members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> None:
        self._members, self._train = members, train
        self._ruled = cache(lambda rule: eligible_in_training(rule, train, behavior))
        self._pessimism: dict[Hashable, dict[int, tuple[BoolArray, float]]] = {}
        self._limits: dict[Hashable, Limits] = {}

    def __call__(self, member: Member) -> tuple[FittedEligibility, Limits]:
        rule, key = member.learner.eligibility_rule(), member.learner.pessimism_key
        eligibility, eligible = self._ruled(rule)
        if key not in self._pessimism:
            seeds = list(dict.fromkeys(one.seed for one in self._members if one.learner.pessimism_key == key))
            masks, floor = member.learner.pessimistic_steps(self._train, seeds)
            self._pessimism[key] = {seed: (mask, floor) for seed, mask in zip(seeds, masks, strict=True)}
        limits = Limits(eligible.free, *self._pessimism[key][member.seed])
        return eligibility, self._limits.setdefault((rule, key, key and member.seed), limits)


def conservative_terms(values: Tensor, logged: Tensor) -> Tensor:
    """Mean over the batch of log Σ_a exp Q(x, a) − Q(x, logged), for each of K networks: [K]."""
    return (torch.logsumexp(values, dim=2) - logged).mean(dim=1)


@dataclass(frozen=True, kw_only=True)
class BCQ(QLearning):
    """Discrete BCQ: an action is allowed where behavior / (highest behavior) is above `threshold`.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [0, 1], [0, 1, 2], propensities=[[0.9, 0.1], [0.9, 0.1]])
    >>> BCQ(threshold=0.2, steps=5).fit(logs, seed=0).probabilities([[0.0]])
    array([[1., 0.]])
    """

    threshold: Share = 0.0  # least share of the likeliest action's probability

    def eligibility_rule(self) -> Eligibility:
        """The rule together with the threshold on relative behavior probabilities."""
        return replace(as_rule(self.rule), relative_probability=self.threshold)


@dataclass(frozen=True, kw_only=True)
class PQL(BCQ):
    """Pessimistic Q-learning: BCQ that believes no value at contexts of low density, and takes `lowest_value` there."""

    percentile: Annotated[float, Range(least=0, most=100)] = 2.0  # b: contexts below it are not believed
    density: Density = "vae"  # what models the density of contexts: "vae" or "nearest"
    density_steps: Count = 10_000  # of training the density
    lowest_value: float | None = None  # v_min; None: the lowest return-to-go in the training log

    def pessimistic_steps(self, train: Trajectories, seeds: Sequence[int]) -> tuple[Sequence[BoolArray], float]:
        """Contexts of low density, and the lowest value."""
        low = low_density(train.contexts, self.density, self.percentile, self.density_steps, seeds)
        floor = self.lowest_value
        if floor is None:
            floor = float(returns_to_go(train.rewards, train.offsets, self.discount).min())
        return low, floor

    @property
    def pessimism_key(self) -> Hashable:
        """What the pessimistic steps come from."""
        return type(self), self.percentile, self.density, self.density_steps, self.lowest_value


@dataclass(frozen=True, kw_only=True)
class CQL(QLearning):
    """Discrete conservative Q-learning: values of actions that were not taken are pushed down."""

    conservatism: NonNegative = 1.0  # weight of the penalty on actions not logged (α)
