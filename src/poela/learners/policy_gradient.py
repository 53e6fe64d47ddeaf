"""POELA, PO-mu and PO-CRM: one policy-gradient learner under three rules (algorithm 1 of the paper)."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain
from typing import Annotated

import torch
from torch import Tensor

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import PoelaError, PoelaWarning, TrainingError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.core.typed import Count, Discount, NonNegative, Positive, Share, Whole, one_of
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import Eligible, FittedEligibility
from poela.eligibility.quantiles import RadiusSetting, ReachSetting, quantile_of
from poela.eligibility.rules import (
    USUAL_SUPPORT,
    Eligibility,
    Fallback,
    FeatureMap,
    Metric,
    Neighbourhood,
    OwnMask,
    Search,
)
from poela.learners.active import ActiveEpisodes, Minibatches, crm_objective
from poela.learners.learner import Checkpoint, eligible_in_training
from poela.learners.stacked import Events, Member, StackedLearner, TrainingStack, in_parts
from poela.learners.training_batch import TrainingBatch, leaves_a_choice, refuse_no_weight
from poela.learners.warm_start import cloning_loss, warm_start
from poela.networks.modules import Device, Hidden, Network, NetworkKind, NetworkShape, device_of
from poela.networks.stack import RecurrentStack, Stack, members_at_a_time
from poela.policies.network import NetworkPolicy, policy_of

NOTHING_TO_CHOOSE = (
    "{}: the rule leaves a single eligible action at every logged context, so there is nothing to learn; "
    "loosen the rule (a larger radius, a lower probability)"
)

BROKEN = "{}: probabilities became NaN by step {}; lower the learning rate, or look for extreme rewards or contexts"


@dataclass(frozen=True, kw_only=True)
class PolicyGradient(StackedLearner):
    """Adam on SNTIS − λ·sqrt(Var), after a warm start that clones the logging policy.

    Each step sees the whole log or, if that is large, `batch_episodes` of it (see `Minibatches`); policies are then
    learned one at a time. With `least_ess` the policy is kept where that many effective episodes speak for it, so that
    it can be verified.
    """

    variance_penalty: NonNegative = 0.1  # of the estimate's spread (λ)
    least_ess: NonNegative = 0.0  # E₀: effective training episodes below which the objective falls steeply
    truncation: Positive = 1000.0  # largest weight of an episode (M)
    learning_rate: Positive = 3e-4  # step size of Adam (α)
    weight_decay: NonNegative = 1e-3  # of Adam
    steps: Count = 500  # of training
    hidden: Hidden = (32, 32)  # units of each hidden layer
    network: NetworkKind = "mlp"  # or "gru": a policy of the whole history
    warm_start_steps: Whole = 500  # of cloning before the ascent
    warm_start_episodes: Count = 100  # in one batch
    warm_start_last_steps: bool = True  # the authors' code leaves out each episode's last step
    standardise: bool = True  # False: raw inputs, as published
    relu_logits: bool = False  # True: as published
    batch_episodes: Count | None = None  # episodes at each step; None: the whole log
    discount: Discount = 1.0  # of rewards, per step
    checkpoints: Count = 10  # policies that are kept on the way
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.rule, NetworkShape(self.network, 1, 2, self.hidden)  # which refuse what they cannot be made of

    @property
    @abstractmethod
    def rule(self) -> Eligibility:
        """Which actions are eligible."""

    @property
    def stack_key(self) -> Hashable:
        """All settings that every policy gradient has, but for those of its objective; rules are each one's own."""
        own = ("variance_penalty", "least_ess")
        alike = self.network == "mlp" and self.batch_episodes is None
        shared = [field.name for field in fields(PolicyGradient) if field.name not in own]
        return ("policy gradient", *(getattr(self, name) for name in shared)) if alike else None

    def train_stack(self, members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> Events:
        """Train each member under its rule, if that leaves anything to learn."""
        rules: dict[Member, tuple[FittedEligibility, Eligible]] = {}

        @cache
        def ruled(rule: Eligibility) -> tuple[FittedEligibility, Eligible]:
            fitted, eligible = eligible_in_training(rule, train, behavior)
            refuse_no_weight(train, eligible.mask)
            return fitted, eligible

        def policy(member: Member, network: Network) -> NetworkPolicy:
            names = {"feature_names": train.feature_names, "action_names": train.action_names}
            return policy_of(network, eligibility=rules[member][0], **names)

        by_rule: dict[Eligibility, list[Member]] = {}
        for member in members:
            try:
                rules[member] = ruled(member.learner.rule)
            except PoelaError as error:
                yield member, error
                continue
            if leaves_a_choice(rules[member][1].mask).any():
                by_rule.setdefault(member.learner.rule, []).append(member)
            else:
                yield member, PoelaWarning(NOTHING_TO_CHOOSE.format(member.name))
                yield (
                    member,
                    Checkpoint(self.steps, policy(member, *self.training_stack([member], train).stack.members())),
                )
        for part in in_parts(
            [*chain(*by_rule.values())], members_at_a_time(self._shape(train), train.n_steps, device_of(self.device))
        ):
            yield from self._learn(
                self.training_stack(part, train), train, [rules[member][1] for member in part], policy
            )

    def _learn(
        self,
        trained: TrainingStack,
        train: Trajectories,
        eligible: Sequence[Eligible],
        policy: Callable[[Member, Network], Policy],
    ) -> Events:
        masks, prices = [own.mask for own in eligible], [own.penalty for own in eligible]
        stack, batch = trained.stack, self.batch_of(train, masks, trained.stack, prices)
        episodes: ActiveEpisodes | Minibatches = ActiveEpisodes(batch, self.truncation)
        if self.batch_episodes is not None:
            episodes = Minibatches(batch, self.truncation, self.batch_episodes, trained.members[0].seed)

        def of_each(setting: str) -> Tensor:
            values = [getattr(member.learner, setting) for member in trained.members]
            return torch.tensor(values, dtype=torch.float64, device=stack.device)

        penalty = of_each("variance_penalty")
        least_ess = of_each("least_ess") if any(member.learner.least_ess for member in trained.members) else None

        def loss(step: int) -> Tensor:
            log_weights = episodes.log_weights(stack, step)
            objective = crm_objective(log_weights, batch.returns, self.truncation, penalty, least_ess)
            if any(price is not None for price in prices):
                objective = objective - batch.costs(stack)
            return -objective

        with progress(trained.title, self.warm_start_steps + self.steps) as advance:
            for _ in warm_start(self, trained, train, masks):
                advance()
                yield from trained.pop_events()
            for done in trained.train(self, self.steps, loss):
                advance()
                if self.is_checkpoint(done):
                    for number in batch.broken_by(stack):
                        trained.emit(number, TrainingError(BROKEN.format(trained.members[number].name, done)))
                    trained.checkpoint(done, policy)
                yield from trained.pop_events()

    @property
    def warm_start_key(self) -> Hashable:
        """All settings that every policy gradient has, but for those of what follows the warm start."""
        later = ("variance_penalty", "least_ess", "truncation", "steps", "batch_episodes", "discount", "checkpoints")
        return tuple(getattr(self, field.name) for field in fields(PolicyGradient) if field.name not in later)

    def training_stack(self, members: Sequence[Member], train: Trajectories) -> TrainingStack:
        """These members with untrained networks."""
        return TrainingStack(members, self.new_stack(self._shape(train), members, train))

    def batch_of(
        self,
        train: Trajectories,
        eligible: Sequence[BoolArray],
        stack: Stack | RecurrentStack,
        penalties: Sequence[FloatArray | None] = (),
    ) -> TrainingBatch:
        """The log under the rules of some members."""
        return TrainingBatch(train, eligible, stack, discount=self.discount, penalties=penalties)

    def clone(self, trained: TrainingStack, train: Trajectories, batch: TrainingBatch) -> Iterator[int]:
        """Clone the logging policy; yields after each step."""
        loss = cloning_loss(trained, train, batch, self.warm_start_episodes, self.warm_start_last_steps)
        return trained.train(self, self.warm_start_steps, loss, stage=" warm start")

    def _shape(self, train: Trajectories) -> NetworkShape:
        return NetworkShape(self.network, train.n_features, train.n_actions, self.hidden, self.relu_logits)


@dataclass(frozen=True, kw_only=True)
class POELA(PolicyGradient):
    """Policy optimisation with eligible actions: only what cases like this one received may be done.

    By default a model of what was done says so, as strictly as barring 2% of logged decisions allows (`support`, see
    `Eligibility`). With a `radius` (δ) it is the paper's rule instead: actions logged within that distance of a
    context, between features as they stand (`POELA(radius=0.6)`), or a quantile of the training log's own distances
    between standardised features (`POELA(radius="q95")`), so that units do not matter. `scale` says it differently:
    `"standard"` (a number then counts standard deviations), one number for each feature, or None (as they stand, for a
    quantile too).

    With a `price` κ nothing is barred for want of support. Logits lose κ for each nat that an action falls short of
    it, in training as in acting, and the objective loses κ·Σ_a π(a|x)·shortfall(x, a), on average over all training
    steps, in units of returns: 0 is free, and the policy goes to the hard rule's as κ grows.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [0.0], [9.0]], [0, 1, 1], [0, 1, 0], [0, 1, 2, 3], propensities=[0.5, 0.5, 1.0])
    >>> policy = POELA(radius=0.1, steps=50, warm_start_steps=10).fit(logs, seed=0)
    >>> policy.probabilities([[9.0]])
    array([[0., 1.]])
    """

    radius: RadiusSetting | None = None  # farthest logged case of an action (δ); None: by learned support
    support: Annotated[str, one_of("auto")] | Share | None = "auto"  # 0.02, unless there is a radius
    price: NonNegative | None = None  # κ, of a nat of missing support; None: it is barred
    metric: Metric = "mean_squared"  # of distances: "mean_squared" (as published) or "euclidean"
    # "standard", "robust", numbers, None or "auto"
    scale: Annotated[str, one_of("auto", "standard", "robust")] | tuple[Positive, ...] | FeatureMap | None = "auto"
    feature_weights: tuple[NonNegative, ...] | None = None  # of the features' squared differences
    neighbours: Neighbourhood = "pooled"  # the logged contexts that count: of all steps ("pooled") or of the same one
    minimum_probability: Share | None = None  # least probability under practice; None: no such rule
    fallback: Fallback = "nearest"  # what decides where nothing is eligible
    search: Search = "exact"  # or "approximate", for logs of millions of steps
    reach: ReachSetting | None = None  # farthest logged context with any action; None: no limit
    allows: OwnMask | None = None  # somebody's rule, beside

    @property
    def rule(self) -> Eligibility:
        """The radius rule."""
        by_radius = None if self.radius is None or quantile_of(self.radius) is None else "standard"
        automatic = USUAL_SUPPORT if self.radius is None else None
        return Eligibility(
            support=automatic if isinstance(self.support, str) else self.support,
            price=self.price,
            radius=self.radius,
            metric=self.metric,
            scale=by_radius if self.scale == "auto" else self.scale,
            weights=self.feature_weights,
            neighbours=self.neighbours,
            minimum_probability=self.minimum_probability,
            fallback=self.fallback,
            search=self.search,
            reach=self.reach,
            allows=self.allows,
        )


@dataclass(frozen=True, kw_only=True)
class POMu(PolicyGradient):
    """PO-mu: only actions that the logging policy takes with at least `minimum_probability`."""

    minimum_probability: Share = 0.05  # least probability that practice gives an action
    fallback: Fallback = "nearest"  # what decides where nothing is eligible

    @property
    def rule(self) -> Eligibility:
        """The behavior-probability rule."""
        return Eligibility(minimum_probability=self.minimum_probability, fallback=self.fallback)


@dataclass(frozen=True, kw_only=True)
class POCRM(PolicyGradient):
    """PO-CRM: every action is eligible; only the variance penalty holds the weights back."""

    @property
    def rule(self) -> Eligibility:
        """No rule."""
        return Eligibility()


def as_published(learner: PolicyGradient) -> PolicyGradient:
    """The same learner as the authors' code has it: raw features, ReLU logits, every action where none is near.

    >>> as_published(POELA(radius=0.1)).relu_logits
    True
    """
    changes: dict[str, object] = {
        "standardise": False,
        "relu_logits": True,
        "warm_start_last_steps": False,
    }
    if not isinstance(learner, POCRM):
        changes["fallback"] = "all"
    if isinstance(learner, POELA) and learner.scale == "auto":
        changes["scale"] = None
    return replace(learner, **changes)  # type: ignore[arg-type]
