"""BCQ, PQL and CQL: one discrete Q learner. They believe that the context tells all (the Markov assumption)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from poela.core.arrays import BoolArray
from poela.core.errors import InputError, TrainingError
from poela.core.policy import Policy
from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.density import Density, low_density
from poela.learners.learner import Checkpoint, Learner
from poela.networks.modules import Network, NetworkShape, device_of
from poela.networks.training import LOOK_EVERY, train_steps
from poela.policies.value import GreedyQPolicy

DIVERGED = 10.0  # values this many times above any reachable return are divergence, not learning


@dataclass(frozen=True, kw_only=True)
class QLearning(Learner):
    """Double Q-learning on minibatches of logged transitions, with a slowly moving target network."""

    rule: Eligibility | None = None  # None: every action that passes the threshold, if there is one
    steps: int = 1000
    batch_size: int = 100
    learning_rate: float = 3e-4
    weight_decay: float = 1e-3
    discount: float = 0.99
    target_rate: float = 0.005  # Polyak τ
    hidden: tuple[int, ...] = (32, 32)
    standardise: bool = True
    checkpoints: int = 10
    device: str = "auto"

    def eligibility_rule(self) -> Eligibility:
        """Which actions may be taken, and bootstrapped from."""
        return self.rule or Eligibility()

    def conservative_term(self, values: Tensor, actions: Tensor) -> Tensor | float:
        """What is added to the temporal-difference loss; nothing, but for CQL."""
        return 0.0

    def pessimistic_steps(self, train: Trajectories, seed: int) -> tuple[BoolArray, float]:
        """Contexts [N] whose value is not believed, and the value taken instead; none, but for PQL."""
        return np.zeros(train.n_steps, np.bool_), 0.0

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the greedy policy at each checkpoint, the final one last."""
        device = device_of(self.device)
        eligibility = self.eligibility_rule().fit(train, behavior)
        transitions = _Transitions.of(train, eligibility.mask(train.contexts, train.step_numbers), device)
        pessimistic, floor = self.pessimistic_steps(train, seed)
        transitions = transitions.with_pessimism(pessimistic, floor)
        network = self._network(train, seed).to(device)
        target = self._network(train, seed).to(device)
        every = max(self.steps // max(self.checkpoints, 1), 1)
        with progress(type(self).__name__, self.steps) as advance:
            for done in self._learn(network, target, transitions, train, seed):
                advance()
                if done % every == 0 or done == self.steps:
                    policy = GreedyQPolicy(
                        network=network.on_cpu(),
                        eligibility=eligibility,
                        feature_names=train.feature_names,
                        action_names=train.action_names,
                    )
                    yield Checkpoint(done, policy)

    def _network(self, train: Trajectories, seed: int) -> Network:
        network = NetworkShape("mlp", train.n_features, train.n_actions, self.hidden).build(seed)
        if self.standardise:
            network.standardise_by(train.contexts)
        return network

    def _learn(
        self, network: Network, target: Network, data: "_Transitions", train: Trajectories, seed: int
    ) -> Iterator[int]:
        rng = np.random.default_rng([seed, 2])
        batches = torch.as_tensor(rng.integers(train.n_steps, size=(self.steps, self.batch_size)), device=data.device)
        reachable = _reachable_return(train, self.discount)
        slow: list[Tensor] = list(target.parameters())
        fast: list[Tensor] = list(network.parameters())

        def loss(step: int) -> Tensor:
            rows = batches[step]
            values = network.along(data.contexts[rows], data.actions[rows], None)
            chosen = values.gather(1, data.actions[rows, None])[:, 0]
            goal = data.goals(rows, network, target, self.discount)
            if step % LOOK_EVERY == 0:
                _refuse_divergence(type(self).__name__, step, values, reachable)
            return huber_loss(chosen, goal) + self.conservative_term(values, data.actions[rows])

        @torch.no_grad()
        def follow(step: int) -> None:
            torch._foreach_lerp_(slow, fast, self.target_rate)

        return train_steps(
            network,
            loss,
            name=type(self).__name__,
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

    threshold: float = 0.0

    def eligibility_rule(self) -> Eligibility:
        """The rule together with the threshold on relative behavior probabilities."""
        return replace(self.rule or Eligibility(), relative_probability=self.threshold)


@dataclass(frozen=True, kw_only=True)
class PQL(BCQ):
    """Pessimistic Q-learning: BCQ that believes no value at contexts of low density, and takes `lowest_value` there."""

    percentile: float = 2.0  # b: contexts below this percentile of the training scores are not believed
    density: Density = "vae"
    density_steps: int = 10_000
    lowest_value: float | None = None  # v_min; None: the lowest return-to-go in the training log

    def pessimistic_steps(self, train: Trajectories, seed: int) -> tuple[BoolArray, float]:
        """Contexts of low density, and the lowest value."""
        low = low_density(train.contexts, self.density, self.percentile, self.density_steps, seed, self.device)
        floor = self.lowest_value
        return low, _lowest_return_to_go(train, self.discount) if floor is None else floor


@dataclass(frozen=True, kw_only=True)
class CQL(QLearning):
    """Discrete conservative Q-learning: values of actions that were not taken are pushed down."""

    conservatism: float = 1.0  # α

    def conservative_term(self, values: Tensor, actions: Tensor) -> Tensor | float:
        """α · mean(log Σ_a exp Q(x, a) − Q(x, logged))."""
        logged = values.gather(1, actions[:, None])[:, 0]
        return self.conservatism * (torch.logsumexp(values, dim=1) - logged).mean()


@dataclass(frozen=True, eq=False)
class _Transitions:
    """Logged steps as flat tensors; the next step of row i is row i + 1 unless it was the episode's last."""

    contexts: Tensor  # [N, d]
    actions: Tensor  # [N]
    rewards: Tensor  # [N]
    last: Tensor  # [N] bool
    eligible: Tensor  # [N, A]
    disbelieved: Tensor  # [N] bool: the context's own value is replaced by `floor`
    floor: float = 0.0

    @classmethod
    def of(cls, train: Trajectories, eligible: BoolArray, device: torch.device) -> "_Transitions":
        last = np.zeros(train.n_steps, np.bool_)
        last[train.offsets[1:] - 1] = True
        return cls(
            contexts=torch.tensor(train.contexts, device=device),
            actions=torch.tensor(train.actions, device=device),
            rewards=torch.tensor(train.rewards, dtype=torch.float32, device=device),
            last=torch.tensor(last, device=device),
            eligible=torch.tensor(eligible, device=device),
            disbelieved=torch.zeros(train.n_steps, dtype=torch.bool, device=device),
        )

    def with_pessimism(self, disbelieved: BoolArray, floor: float) -> "_Transitions":
        return replace(self, disbelieved=torch.tensor(disbelieved, device=self.device), floor=floor)

    @property
    def device(self) -> torch.device:
        return self.contexts.device

    @torch.no_grad()
    def goals(self, rows: Tensor, network: Network, target: Network, discount: float) -> Tensor:
        """r + γ·Q_target(x′, best eligible action by the online network)."""
        following = (rows + 1).clamp(max=len(self.actions) - 1)
        contexts = self.contexts[following]
        liked = network.along(contexts, self.actions[following], None)
        best = liked.masked_fill(~self.eligible[following], -torch.inf).argmax(dim=1, keepdim=True)
        value = target.along(contexts, self.actions[following], None).gather(1, best)[:, 0]
        value = torch.where(self.disbelieved[following], torch.full_like(value, self.floor), value)
        return self.rewards[rows] + discount * value.masked_fill(self.last[rows], 0.0)


def _reachable_return(train: Trajectories, discount: float) -> float:
    longest = int(train.lengths.max())
    steps = float(longest) if discount == 1 else (1 - discount**longest) / (1 - discount)
    return max(float(np.abs(train.rewards).max()) * steps, 1e-6)


def _lowest_return_to_go(train: Trajectories, discount: float) -> float:
    if not 0 <= discount <= 1:
        raise InputError(f"discount must lie in [0, 1], not {discount}")
    to_go = np.zeros(train.n_episodes)
    lowest = np.inf
    for step in range(int(train.lengths.max()) - 1, -1, -1):
        running = train.lengths > step
        to_go[running] = train.rewards[train.offsets[:-1][running] + step] + discount * to_go[running]
        lowest = min(lowest, float(to_go[running].min()))
    return lowest


def _refuse_divergence(name: str, step: int, values: Tensor, reachable: float) -> None:
    largest = float(values.detach().abs().max())
    if largest > DIVERGED * reachable:
        raise TrainingError(
            f"{name}: values diverged at step {step}: {largest:.3g} is more than {DIVERGED:g} times the largest "
            f"reachable return {reachable:.3g}; lower the learning rate or tighten the rule"
        )
