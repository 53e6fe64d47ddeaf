"""POELA, PO-mu and PO-CRM: one policy-gradient learner under three rules (algorithm 1 of the paper)."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from poela.core.errors import PoelaWarning, TrainingError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.core.typed import Count, Discount, NonNegative, Positive, Share, Whole
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility, Fallback, Metric, Neighbourhood, RadiusSetting, Scale
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint, Learner
from poela.learners.objective import crm_objective
from poela.learners.training_batch import TrainingBatch
from poela.networks.modules import Device, Hidden, Network, NetworkKind, NetworkShape, device_of
from poela.networks.training import train_steps
from poela.policies.network import policy_of

NOTHING_TO_CHOOSE = (
    "{}: the rule leaves a single eligible action at every logged context, so there is nothing to learn; "
    "loosen the rule (a larger radius, a lower probability)"
)

BROKEN = "{}: probabilities became NaN by step {}; lower the learning rate, or look for extreme rewards or contexts"


@dataclass(frozen=True, kw_only=True)
class PolicyGradient(Learner):
    """Full-batch Adam on SNTIS − λ·sqrt(Var), after a warm start that clones the logging policy."""

    variance_penalty: NonNegative = 0.1  # λ
    truncation: Positive = 1000.0  # M
    learning_rate: Positive = 3e-4  # α
    weight_decay: NonNegative = 1e-3
    steps: Count = 500
    hidden: Hidden = (32, 32)
    network: NetworkKind = "mlp"  # or "gru": a policy of the whole history
    warm_start_steps: Whole = 500
    warm_start_episodes: Count = 100  # in one batch
    warm_start_last_steps: bool = True  # the authors' code leaves out each episode's last step
    standardise: bool = True  # False: raw inputs, as published
    relu_logits: bool = False  # True: as published
    discount: Discount = 1.0
    checkpoints: Count = 10
    device: Device = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.rule, NetworkShape(self.network, 1, 2, self.hidden)  # which refuse what they cannot be made of

    @property
    @abstractmethod
    def rule(self) -> Eligibility:
        """Which actions are eligible."""

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint, the final one last."""
        eligibility, eligible = eligible_in_training(self.rule, train, behavior)
        device = device_of(self.device)
        batch = TrainingBatch.of(train, eligible, self.discount, self.network == "gru", device)
        shape = NetworkShape(self.network, train.n_features, train.n_actions, self.hidden, self.relu_logits)
        network = shape.build(seed)
        if self.standardise:
            network.standardise_by(train.contexts)
        network.to(device)

        def checkpoint(step: int) -> Checkpoint:
            if batch.broken_by(network):
                raise TrainingError(BROKEN.format(type(self).__name__, step))
            names = {"feature_names": train.feature_names, "action_names": train.action_names}
            return Checkpoint(step, policy_of(network.on_cpu(), eligibility=eligibility, **names))

        if batch.nothing_to_choose:
            warnings.warn(NOTHING_TO_CHOOSE.format(type(self).__name__), PoelaWarning, stacklevel=2)
            yield checkpoint(self.steps)
            return
        every = max(self.steps // self.checkpoints, 1)
        with progress(type(self).__name__, self.warm_start_steps + self.steps) as advance:
            for _ in self._clone(network, train, batch, seed):
                advance()
            for done in self._ascend(network, batch):
                advance()
                if done % every == 0 or done == self.steps:
                    yield checkpoint(done)

    def _ascend(self, network: Network, batch: TrainingBatch) -> Iterator[int]:
        def loss(step: int) -> Tensor:
            log_weights = batch.log_weights(network)
            return -crm_objective(log_weights, batch.returns, self.truncation, self.variance_penalty)

        return train_steps(
            network,
            loss,
            name=type(self).__name__,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )

    def _clone(self, network: Network, train: Trajectories, batch: TrainingBatch, seed: int) -> Iterator[int]:
        rng = np.random.default_rng([seed, 1])
        size = min(self.warm_start_episodes, train.n_episodes)

        def loss(step: int) -> Tensor:
            episodes = np.sort(rng.choice(train.n_episodes, size, replace=False))
            return batch.cloning_loss(network, episodes, self.warm_start_last_steps)

        return train_steps(
            network,
            loss,
            name=f"{type(self).__name__} warm start",
            steps=self.warm_start_steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True, kw_only=True)
class POELA(PolicyGradient):
    """Policy optimisation with eligible actions: only actions logged within `radius` of a context may be taken there.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [0.0], [9.0]], [0, 1, 1], [0, 1, 0], [0, 1, 2, 3], propensities=[0.5, 0.5, 1.0])
    >>> policy = POELA(radius=0.1, steps=50, warm_start_steps=10).fit(logs, seed=0)
    >>> policy.probabilities([[9.0]])
    array([[0., 1.]])
    """

    radius: RadiusSetting = 0.1  # δ
    metric: Metric = "mean_squared"
    scale: Scale = None
    feature_weights: tuple[NonNegative, ...] | None = None
    neighbours: Neighbourhood = "pooled"
    minimum_probability: Share | None = None
    fallback: Fallback = "nearest"

    @property
    def rule(self) -> Eligibility:
        """The radius rule."""
        return Eligibility(
            radius=self.radius,
            metric=self.metric,
            scale=self.scale,
            weights=self.feature_weights,
            neighbours=self.neighbours,
            minimum_probability=self.minimum_probability,
            fallback=self.fallback,
        )


@dataclass(frozen=True, kw_only=True)
class POMu(PolicyGradient):
    """PO-mu: only actions that the logging policy takes with at least `minimum_probability`."""

    minimum_probability: Share = 0.05
    fallback: Fallback = "nearest"

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
    """The same learner in the form of the authors' code: raw inputs, ReLU logits, every action where none is near.

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
    return replace(learner, **changes)  # type: ignore[arg-type]
