"""Clone: the logging policy itself as a learned policy, to be beaten or to be followed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from poela.behavior.clone import CloneBehavior, CloneModel, RecurrentCloneBehavior
from poela.behavior.model import HeldOut
from poela.core.errors import TrainingError
from poela.core.policy import Policy
from poela.core.typed import Count, NonNegative, Positive
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyRule, as_rule
from poela.learners.learner import Checkpoint, Learner
from poela.networks.modules import GRU, MLP, Device, Hidden, Network, NetworkKind
from poela.policies.network import NetworkPolicy, policy_of

BEHAVIORS = {"mlp": CloneBehavior, "gru": RecurrentCloneBehavior}
NEVER = -1e4  # a logit whose exponential is exactly 0 beside any learned one


@dataclass(frozen=True, kw_only=True)
class Clone(Learner):
    """A network that imitates the logged actions, as `CloneBehavior` or (with a GRU) `RecurrentCloneBehavior` does.

    Under a rule, its probabilities are shared out among the eligible actions. Actions never logged get probability 0
    wherever another action is eligible.

    >>> import numpy as np
    >>> contexts = np.random.default_rng(0).normal(size=(400, 2))
    >>> logs = Trajectories(contexts, contexts[:, 0] > 0, np.zeros(400), np.arange(0, 401, 4), n_actions=3)
    >>> Clone(learning_rate=0.01, steps=100).fit(logs).probabilities([[-1.0, 0.0], [1.0, 0.0]]).round(1)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    network: NetworkKind = "mlp"  # or "gru": the logging policy may depend on the whole history
    rule: AnyRule | None = None  # which actions are eligible; None: by learned support
    hidden: Hidden | None = None  # None: as the behavior model's
    learning_rate: Positive = 3e-4  # step size of Adam
    steps: Count | None = None  # None: as many as the held-out likelihood asks for
    max_steps: Count = 5000  # of training, at most
    patience: Count = 10  # looks without a gain before training stops
    held_out: HeldOut = 0.1  # share of episodes that say when to stop
    weight_decay: NonNegative = 0.0  # of Adam
    batch_episodes: Count = 100  # episodes in a step of training
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one

    def __post_init__(self) -> None:
        super().__post_init__()
        self._behavior()  # which refuses what it cannot be made of

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the one policy; where training breaks down, first the best one before that."""
        eligibility = as_rule(self.rule).fit(train, behavior)
        settings = self._behavior()
        try:
            model = settings.fit_quietly(train, seed)
        except TrainingError as error:
            if isinstance(error.last_good, CloneModel):
                yield Checkpoint(0, _policy(error.last_good, eligibility, train), "before training broke down")
            raise
        yield Checkpoint(1, _policy(model, eligibility, train))

    def _behavior(self) -> CloneBehavior:
        kind = BEHAVIORS[self.network]
        return kind(
            hidden=kind().hidden if self.hidden is None else self.hidden,
            learning_rate=self.learning_rate,
            steps=self.steps,
            max_steps=self.max_steps,
            patience=self.patience,
            held_out=self.held_out,
            weight_decay=self.weight_decay,
            batch_episodes=self.batch_episodes,
            device=self.device,
        )


def _policy(model: CloneModel, eligibility: FittedEligibility, train: Trajectories) -> NetworkPolicy:
    return policy_of(
        _without(model.network, [action for action in range(train.n_actions) if action not in model.schema.seen]),
        eligibility=eligibility,
        feature_names=train.feature_names,
        action_names=train.action_names,
    )


@torch.no_grad()
def _without(network: Network, unseen: list[int]) -> Network:
    """The network with logits that never choose the given actions."""
    copy = network.on_cpu()
    assert isinstance(copy, MLP | GRU)
    output = copy.output if isinstance(copy, GRU) else copy.layers[-1]
    assert isinstance(output, torch.nn.Linear)
    output.weight[unseen] = 0.0
    output.bias[unseen] = NEVER
    return copy
