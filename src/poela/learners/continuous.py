"""Policies of real-valued actions: cloning, and POELA with weights of whole episodes or clipped ratios of steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from poela.behavior.gaussian import GaussianBehavior, GaussianModel
from poela.behavior.model import HeldOut
from poela.core.errors import InputError
from poela.core.progress import progress
from poela.core.typed import Count, Discount, NonNegative, Positive, Range, Share, one_of
from poela.data.action_space import ActionSpace, Box, real_actions
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import Cells
from poela.eligibility.continuous import NEAREST, ContinuousEligibility, FittedContinuousEligibility, fitted
from poela.eligibility.quantiles import RadiusSetting
from poela.learners.active import crm_objective
from poela.learners.advantages import batches, fitted_values, generalised_advantages
from poela.learners.learner import Checkpoint, Learner
from poela.networks.gaussian import gaussian_of, log_density_of
from poela.networks.modules import Device, Hidden, Network, device_of
from poela.networks.training import train_steps
from poela.policies.gaussian import GaussianPolicy

LONG = 30  # mean steps of an episode above which weights of whole episodes are hopeless
Ratios = Annotated[str, one_of("auto", "episode", "step")]


@dataclass(frozen=True, kw_only=True)
class ContinuousLearner(Learner):
    """What learners of Gaussian policies share: a network that begins as a clone of the logging policy, and a rule."""

    acts_in: ClassVar[type[ActionSpace] | None] = Box

    hidden: Hidden = (32, 32)  # units of each hidden layer
    radius: RadiusSetting | None = None  # None: every action is eligible
    action_weight: Positive = 1.0  # how much actions count beside contexts (κ)
    neighbours: Count | None = None  # None: 32, or as many as a rule over several action columns allows
    clone_learning_rate: Positive = 1e-3  # step size of Adam while cloning
    clone_steps: Count | None = None  # None: as many as the held-out likelihood asks for
    held_out: HeldOut = 0.1  # share of episodes that say when to stop
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one

    def fit(self, train: Trajectories, seed: int = 0, behavior: Any = None) -> Any:
        """The final policy."""
        logs: Any = train
        return super().fit(logs, seed, behavior)

    def clone(self, logs: Trajectories, seed: int, behavior: Any = None) -> GaussianModel:
        """A model of the logging policy, to begin from: the given one, where it is of this form."""
        if isinstance(behavior, GaussianModel) and behavior.network.shape.hidden == self.hidden:
            return behavior.with_network(behavior.network)
        settings = GaussianBehavior(
            hidden=self.hidden,
            learning_rate=self.clone_learning_rate,
            steps=self.clone_steps,
            held_out=self.held_out,
            device=self.device,
            linear=False,
        )
        return settings.fit_quietly(logs, seed)

    def rule(self, logs: Trajectories) -> FittedContinuousEligibility | None:
        """The hard rule over the training logs, where there is one."""
        if self.radius is None:
            return None
        return ContinuousEligibility(self.radius, self.action_weight, self.neighbours).fit(logs)


@dataclass(frozen=True, kw_only=True)
class ContinuousClone(ContinuousLearner):
    """A Gaussian network that imitates the logged actions, within the rule if there is one.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 1))
    >>> logs = Trajectories(x, x + rng.normal(size=(300, 1)), np.zeros(300), np.arange(301))
    >>> ContinuousClone(clone_steps=50).fit(logs).sample([[0.0]], np.random.default_rng(0)).shape
    (1, 1)
    """

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Any = None) -> Iterator[Checkpoint]:
        """Yield the one policy."""
        logs = real_actions(train, "learner 'continuousclone'")
        yield Checkpoint(
            1, GaussianPolicy(model=self.clone(logs, seed, behavior), eligibility=self.rule(logs), schema=logs.schema)
        )


@dataclass(frozen=True, kw_only=True)
class ContinuousPOELA(ContinuousLearner):
    """Policy optimisation with eligible actions, where actions are real numbers.

    `ratios="episode"` maximises SNTIS less its spread (algorithm 1) over weights of whole episodes, and keeps at least
    `least_ess` effective ones; "step" maximises clipped ratios of single steps times their advantages, for episodes so
    long that no product of ratios means anything; "auto" decides by the length of episodes. `radius` is a hard rule;
    `distance_penalty` (β) is the paper's smooth one: β times the mean distance of what the policy would do from the
    nearest logged pair.

    >>> rng = np.random.default_rng(0)
    >>> doses = rng.normal(size=(400, 1))
    >>> densities = -np.square(doses[:, 0]) / 2 - 0.919
    >>> worth = -np.square(doses[:, 0] - 1)
    >>> logs = Trajectories(np.zeros((400, 1)), doses, worth, np.arange(401), log_densities=densities)
    >>> mean, _ = ContinuousPOELA(steps=100, least_ess=50).fit(logs).moments([[0.0]])
    >>> bool(0.5 < mean[0, 0] < 1.5)
    True
    """

    ratios: Ratios = "auto"  # "episode", "step" or "auto"
    variance_penalty: NonNegative = 0.1  # λ, of episode weights
    least_ess: NonNegative = 0.0  # E₀, of episode weights
    truncation: Positive = 1000.0  # largest weight of an episode (M)
    clip: Annotated[float, Range(above=0, below=1)] = 0.2  # ε, of step ratios
    trace: Share = 0.95  # λ of the advantages; 1: returns alone, without a Markov assumption
    value_steps: Count = 1000  # of training the values of single steps
    batch_rows: Count = 4096  # of step ratios
    distance_penalty: NonNegative = 0.0  # of the distance from logged pairs (β)
    discount: Discount = 1.0  # of rewards, per step
    learning_rate: Positive = 3e-3  # step size of Adam
    weight_decay: NonNegative = 1e-4  # of Adam
    steps: Count = 500  # of training
    checkpoints: Count = 10  # policies that are kept on the way

    def for_more(self, times: float) -> "ContinuousPOELA":
        """The same share of episodes stays effective: a bound for few of many would let the weights run away."""
        return replace(self, least_ess=self.least_ess * times)

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Any = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint, the final one last."""
        logs = real_actions(train, "learner 'continuouspoela'")
        _ = logs.log_propensities  # which must be known
        rule, start, device = self.rule(logs), self.clone(logs, seed, behavior), device_of(self.device)
        network = start.network.to(device)
        assert isinstance(network, Network)
        batch = _Batch(logs, start, rule, device)
        by_step = self.ratios == "step" or (self.ratios == "auto" and float(logs.lengths.mean()) > LONG)
        value = self._by_step(batch, network, seed) if by_step else self._by_episode(batch, network)
        penalty = self._penalty(batch, network, seed)
        every = max(self.steps // self.checkpoints, 1)
        with progress("ContinuousPOELA", self.steps) as advance:
            for done in train_steps(
                network,
                lambda step: penalty() - value(),
                name="ContinuousPOELA",
                steps=self.steps,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
            ):
                advance()
                if done % every == 0 or done == self.steps:
                    model = start.with_network(network)
                    yield Checkpoint(done, GaussianPolicy(model=model, eligibility=rule, schema=logs.schema))

    def _by_episode(self, batch: "_Batch", network: Network) -> Callable[[], Tensor]:
        returns = torch.tensor(batch.logs.returns(self.discount), device=batch.device)
        scale = float(returns.std()) or 1.0  # so that the learning rate need not know the units of rewards
        least = torch.tensor(self.least_ess, dtype=torch.float64, device=batch.device) if self.least_ess else None

        def value() -> Tensor:
            weights = batch.episode_log_weights(network)
            return crm_objective(weights, returns / scale, self.truncation, self.variance_penalty, least)

        return value

    def _by_step(self, batch: "_Batch", network: Network, seed: int) -> Callable[[], Tensor]:
        logs = batch.logs
        values = fitted_values(logs, self.discount, self.hidden, self.value_steps, seed, batch.device)
        gains = generalised_advantages(logs.rewards, values, logs.offsets, self.discount, self.trace)
        gains = (gains - gains.mean()) / (gains.std() or 1.0)
        advantages = torch.tensor(gains, device=batch.device)
        draw = batches(logs.n_steps, self.batch_rows, seed, batch.device)

        def value() -> Tensor:
            rows = draw()
            ratios = torch.exp(batch.log_ratios(network, rows).clamp(max=np.log(self.truncation)))
            own = advantages[rows]
            return torch.minimum(ratios * own, ratios.clamp(1 - self.clip, 1 + self.clip) * own).mean()

        return value

    def _penalty(self, batch: "_Batch", network: Network, seed: int) -> Callable[[], Tensor]:
        """β times the mean distance of drawn actions from the nearest logged pair; contexts are looked up once."""
        if self.distance_penalty == 0:
            return lambda: torch.zeros((), dtype=torch.float64, device=batch.device)
        near = self.neighbours or NEAREST
        logged = fitted(ContinuousEligibility(0.0, self.action_weight, near), batch.logs)
        found, squared = logged.nearest(batch.logs.contexts)
        pairs = torch.tensor(logged.actions[found], dtype=torch.float32, device=batch.device)  # [N, K, m]
        apart = torch.tensor(squared, dtype=torch.float32, device=batch.device)
        draw = batches(batch.logs.n_steps, self.batch_rows, seed + 1, batch.device)
        generator = torch.Generator(device=batch.device).manual_seed(seed)

        def penalty() -> Tensor:
            rows = draw()
            mean, log_std = gaussian_of(network, batch.contexts[rows])
            noise = torch.randn(mean.shape, generator=generator, device=batch.device)
            drawn = mean + torch.exp(log_std) * noise
            actions = (drawn[:, None] - pairs[rows]).square().mean(dim=2)
            distances = (apart[rows] + self.action_weight * actions).amin(dim=1)
            return self.distance_penalty * distances.mean().double()

        return penalty


class _Batch:
    """The training log as tensors, with the cells of eligible actions where a rule leaves not all of them."""

    def __init__(
        self,
        logs: Trajectories,
        model: GaussianModel,
        rule: FittedContinuousEligibility | None,
        device: torch.device,
    ) -> None:
        self.logs, self.device = logs, device
        self.contexts = torch.tensor(logs.contexts, device=device)
        self._actions = torch.tensor(model.standardised(logs.actions), device=device)
        # The logged densities in the network's units, where an action is measured in deviations.
        self._logged = torch.tensor(logs.log_propensities + np.log(model.spread).sum(), device=device)
        self._cells = None if rule is None else _standardised_cells(rule, logs, model)
        if rule is not None and not rule.eligible(logs.contexts, logs.actions).any():
            raise InputError("every logged action is ineligible, so all weights are zero: loosen the rule")
        self._lengths = torch.tensor(logs.lengths, device=device)

    def log_ratios(self, network: Network, rows: Tensor | None = None) -> Tensor:
        """log π − log μ [N] of the logged actions, in float64."""
        some = slice(None) if rows is None else rows
        mean, log_std = (part.double() for part in gaussian_of(network, self.contexts[some]))
        density = log_density_of(mean, log_std, self._actions[some])
        if self._cells is not None:
            cells = self._cells if rows is None else _rows_of(self._cells, rows.cpu().numpy())
            density = density - cells.log_mass(mean, torch.exp(log_std))
        return density - self._logged[some]

    def episode_log_weights(self, network: Network) -> Tensor:
        """[n]."""
        return torch.segment_reduce(self.log_ratios(network)[:, None], "sum", lengths=self._lengths)[:, 0]


def _standardised_cells(rule: FittedContinuousEligibility, logs: Trajectories, model: GaussianModel) -> Cells:
    boxes, _ = rule.boxes(logs.contexts)
    lower, upper = ((side - model.centre) / model.spread for side in (boxes.lower, boxes.upper))
    return replace(boxes, lower=lower, upper=upper).cells()


def _rows_of(cells: Cells, rows: Any) -> Cells:
    return Cells(tuple(edges[rows] for edges in cells.edges), cells.covered[rows])
