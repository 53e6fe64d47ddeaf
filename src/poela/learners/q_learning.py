"""BCQ, PQL and CQL: one discrete Q learner. They believe that the context tells all (the Markov assumption)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from poela.core.arrays import BoolArray
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.core.ragged import returns_to_go
from poela.core.typed import Count, Discount, NonNegative, Positive, Range, Share
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.density import Density, low_density
from poela.learners.divergence import reachable_return, refuse_divergence
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint, Learner
from poela.learners.transitions import Transitions
from poela.networks.modules import MLP, Device, Hidden, NetworkShape, device_of
from poela.networks.training import LOOK_EVERY, train_steps
from poela.policies.value import GreedyQPolicy


@dataclass(frozen=True, kw_only=True)
class QLearning(Learner):
    """Double Q-learning on minibatches of logged transitions, with a slowly moving target network."""

    rule: Eligibility | None = None  # None: every action that passes the threshold, if there is one
    steps: Count = 1000
    batch_size: Count = 100
    learning_rate: Positive = 3e-4
    weight_decay: NonNegative = 1e-3
    discount: Discount = 0.99
    target_rate: Discount = 0.005  # Polyak τ
    hidden: Hidden = (32, 32)
    standardise: bool = True
    checkpoints: Count = 10
    device: Device = "auto"

    def eligibility_rule(self) -> Eligibility:
        """Which actions may be taken, and bootstrapped from."""
        return self.rule or Eligibility()

    def conservative_term(self, values: Tensor, logged: Tensor) -> Tensor | float:
        """What is added to the temporal-difference loss; nothing, but for CQL."""
        return 0.0

    def pessimistic_steps(self, train: Trajectories, seed: int) -> tuple[BoolArray, float]:
        """Contexts [N] whose value is not believed, and the value taken instead; none, but for PQL."""
        return np.zeros(train.n_steps, np.bool_), 0.0

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the greedy policy at each checkpoint, the final one last."""
        device, name = device_of(self.device), type(self).__name__
        eligibility, eligible = eligible_in_training(self.eligibility_rule(), train, behavior)
        disbelieved, floor = self.pessimistic_steps(train, seed)
        network = self._network(train, seed)
        data = Transitions.of(
            train,
            network,
            eligible=eligible,
            discount=self.discount,
            disbelieved=disbelieved,
            floor=floor,
            device=device,
        )
        weights = list(network.to(device).parameters())
        # What an untrained network says is no divergence, even where all rewards are tiny.
        reachable = max(reachable_return(train, self.discount), abs(floor), data.largest_value(weights))
        every = max(self.steps // self.checkpoints, 1)
        with progress(name, self.steps) as advance:
            for done in self._learn(network, data, reachable, seed):
                advance()
                if done % every == 0 or done == self.steps:
                    refuse_divergence(name, f"step {done}", data.largest_value(weights), reachable)
                    policy = GreedyQPolicy(
                        network=network.on_cpu(),
                        eligibility=eligibility,
                        feature_names=train.feature_names,
                        action_names=train.action_names,
                    )
                    yield Checkpoint(done, policy)

    def _network(self, train: Trajectories, seed: int) -> MLP:
        network = NetworkShape("mlp", train.n_features, train.n_actions, self.hidden).build(seed)
        assert isinstance(network, MLP)
        if self.standardise:
            network.standardise_by(train.contexts)
        return network

    def _learn(self, network: MLP, data: Transitions, reachable: float, seed: int) -> Iterator[int]:
        name, batches = type(self).__name__, data.batches(self.batch_size, seed)
        fast: list[Tensor] = list(network.parameters())
        slow = [weight.detach().clone() for weight in fast]

        def loss(step: int) -> Tensor:
            rows = next(batches)
            values, goals = data.values(rows, fast, slow)
            if step % LOOK_EVERY == 0:
                refuse_divergence(name, f"step {step}", float(values.detach().abs().max()), reachable)
            logged = values.gather(1, data.actions[rows])[:, 0]
            return huber_loss(logged, goals) + self.conservative_term(values, logged)

        @torch.no_grad()
        def follow(step: int) -> None:
            torch._foreach_lerp_(slow, fast, self.target_rate)

        return train_steps(
            network,
            loss,
            name=name,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            after_step=follow,
        )


@dataclass(frozen=True, kw_only=True)
class BCQ(QLearning):
    """Discrete BCQ: an action is allowed where behavior / (highest behavior) is above `threshold`.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [0, 1], [0, 1, 2], propensities=[[0.9, 0.1], [0.9, 0.1]])
    >>> BCQ(threshold=0.2, steps=5).fit(logs, seed=0).probabilities([[0.0]])
    array([[1., 0.]])
    """

    threshold: Share = 0.0

    def eligibility_rule(self) -> Eligibility:
        """The rule together with the threshold on relative behavior probabilities."""
        return replace(self.rule or Eligibility(), relative_probability=self.threshold)


@dataclass(frozen=True, kw_only=True)
class PQL(BCQ):
    """Pessimistic Q-learning: BCQ that believes no value at contexts of low density, and takes `lowest_value` there."""

    percentile: Annotated[float, Range(least=0, most=100)] = 2.0  # b: contexts below it are not believed
    density: Density = "vae"
    density_steps: Count = 10_000
    lowest_value: float | None = None  # v_min; None: the lowest return-to-go in the training log

    def pessimistic_steps(self, train: Trajectories, seed: int) -> tuple[BoolArray, float]:
        """Contexts of low density, and the lowest value."""
        low = low_density(train.contexts, self.density, self.percentile, self.density_steps, seed)
        floor = self.lowest_value
        if floor is None:
            floor = float(returns_to_go(train.rewards, train.offsets, self.discount).min())
        return low, floor


@dataclass(frozen=True, kw_only=True)
class CQL(QLearning):
    """Discrete conservative Q-learning: values of actions that were not taken are pushed down."""

    conservatism: NonNegative = 1.0  # α

    def conservative_term(self, values: Tensor, logged: Tensor) -> Tensor | float:
        """α · mean(log Σ_a exp Q(x, a) − Q(x, logged))."""
        return self.conservatism * (torch.logsumexp(values, dim=1) - logged).mean()
