"""IQL: implicit Q-learning of real-valued actions (Kostrikov, Nair & Levine 2022), which never asks about new actions.

V is an expectile of Q over logged actions, Q follows V, and the policy imitates logged actions the more, the better
they are than V. It takes contexts for states (the Markov assumption), which POELA does not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from poela.behavior.gaussian import GaussianModel
from poela.core.progress import progress
from poela.core.typed import Count, Discount, NonNegative, Positive, Range, Share
from poela.data.action_space import real_actions
from poela.data.trajectories import Trajectories
from poela.learners.advantages import batches, plain_outputs, returns_to_go
from poela.learners.continuous import ContinuousLearner
from poela.learners.learner import Checkpoint
from poela.networks.gaussian import gaussian_of, log_density_of
from poela.networks.modules import Network, NetworkShape, device_of
from poela.networks.training import train_steps
from poela.policies.gaussian import GaussianPolicy

MOST_WEIGHT = 100.0  # of one logged action in the imitation, as published


@dataclass(frozen=True, kw_only=True)
class IQL(ContinuousLearner):
    """Implicit Q-learning: advantage-weighted imitation under an expectile of Q.

    `temperature` says how much better actions count more (0: cloning), on a scale where returns have deviation 1.

    >>> rng = np.random.default_rng(0)
    >>> doses = rng.normal(size=(400, 1))
    >>> logs = Trajectories(np.zeros((400, 1)), doses, -np.square(doses[:, 0] - 1), np.arange(401))
    >>> mean, _ = IQL(steps=300).fit(logs).moments([[0.0]])
    >>> bool(0.3 < mean[0, 0] < 1.5)
    True
    """

    expectile: Annotated[float, Range(above=0, below=1)] = 0.7  # of Q that values stand for; 0.5: the mean
    temperature: NonNegative = 1.0  # how much better actions count more; 0: cloning
    discount: Discount = 0.99  # of rewards, per step
    target_share: Share = 0.005  # of the way that the target networks go at each step
    learning_rate: Positive = 1e-3  # step size of Adam
    weight_decay: NonNegative = 0.0  # of Adam
    batch_rows: Count = 1024  # decisions in a step of training
    steps: Count = 1000  # of training
    checkpoints: Count = 10  # policies that are kept on the way

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Any = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint, the final one last."""
        logs = real_actions(train, "learner 'iql'")
        rule, start = self.rule(logs), self.clone(logs, seed, behavior)
        nets = _Networks(self, logs, start, seed)
        every = max(self.steps // self.checkpoints, 1)
        with progress("IQL", self.steps) as advance:
            for done in train_steps(
                nets,
                nets.loss(seed),
                name="IQL",
                steps=self.steps,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
            ):
                advance()
                nets.follow()
                if done % every == 0 or done == self.steps:
                    model = start.with_network(nets.policy)
                    yield Checkpoint(done, GaussianPolicy(model=model, eligibility=rule, schema=logs.schema))


class _Networks(nn.Module):
    """The policy, V, two Q with their targets, and the logs as tensors."""

    def __init__(self, settings: IQL, logs: Trajectories, start: GaussianModel, seed: int) -> None:
        super().__init__()
        device = device_of(settings.device)
        self._settings, self._device = settings, device
        actions = start.standardised(logs.actions).astype(np.float32)
        pairs = np.concatenate([logs.contexts, actions], axis=1)
        self.policy = start.network
        self.value = _network(logs.contexts, settings, seed)
        self.q = nn.ModuleList([_network(pairs, settings, seed + 1 + number) for number in range(2)])
        self.target = nn.ModuleList([_network(pairs, settings, seed + 1 + number) for number in range(2)])
        for parameter in self.target.parameters():
            parameter.requires_grad_(False)
        self.to(device)
        scale = float(returns_to_go(logs, settings.discount).std()) or 1.0
        last = np.zeros(logs.n_steps, np.bool_)
        last[logs.offsets[1:] - 1] = True
        self._contexts, self._actions = (torch.tensor(rows, device=device) for rows in (logs.contexts, actions))
        self._pairs = torch.tensor(pairs, device=device)
        self._rewards = torch.tensor(logs.rewards / scale, dtype=torch.float32, device=device)
        self._next = torch.tensor(np.minimum(np.arange(logs.n_steps) + 1, logs.n_steps - 1), device=device)
        self._goes_on = torch.tensor(~last, dtype=torch.float32, device=device)

    def loss(self, seed: int) -> Callable[[int], Tensor]:
        """All three losses together: none reaches into the network of another."""
        draw = batches(len(self._contexts), self._settings.batch_rows, seed, self._device)
        settings = self._settings

        def loss(step: int) -> Tensor:
            rows = draw()
            contexts, pairs = self._contexts[rows], self._pairs[rows]
            with torch.no_grad():
                judged = torch.minimum(*(_values(net, pairs) for net in self.target))
                following = _values(self.value, self._contexts[self._next[rows]]) * self._goes_on[rows]
                wanted = self._rewards[rows] + settings.discount * following
            value = _values(self.value, contexts)
            surprise = judged - value
            lean = torch.where(surprise > 0, settings.expectile, 1 - settings.expectile)
            by_value = (lean * surprise.square()).mean()
            by_q = sum(((_values(net, pairs) - wanted).square().mean() for net in self.q), torch.zeros(()))
            worth = torch.exp(settings.temperature * surprise.detach()).clamp(max=MOST_WEIGHT)
            density = log_density_of(*gaussian_of(self.policy, contexts), self._actions[rows])
            return by_value + by_q - (worth * density).mean()

        return loss

    @torch.no_grad()
    def follow(self) -> None:
        """The targets go a little of the way to the networks."""
        for target, source in zip(self.target.parameters(), self.q.parameters(), strict=True):
            target.lerp_(source, self._settings.target_share)


def _network(inputs: Any, settings: IQL, seed: int) -> Network:
    network = NetworkShape("mlp", inputs.shape[1], 1, settings.hidden).build(seed)
    network.standardise_by(inputs)
    return network


def _values(network: nn.Module, inputs: Tensor) -> Tensor:
    assert isinstance(network, Network)
    return plain_outputs(network, inputs)[:, 0]
