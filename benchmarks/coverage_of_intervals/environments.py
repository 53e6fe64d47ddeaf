"""Logs with a known truth, and target policies at any distance from the logging policy: where coverage is measured.

The target is always the logging policy tilted towards what is better, π ∝ μ·exp(tilt · merit), as learned policies are:
heavy weights then go with high returns, which is what makes intervals fail.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import FloatArray
from poela.core.errors import PoelaWarning
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import true_value
from poela.evaluation.weights import log_weights
from poela.simulators.episodes import Seed, run
from poela.simulators.tabular import TablePolicy, TabularMDP
from poela.simulators.tumor import MONTHS, Schedule, TumorBehavior, TumorGrowth
from poela.stats.bounds import Bounds
from poela.stats.weights import effective_share

_AT_ONCE = 60_000  # episodes simulated together
_CALIBRATION = 12  # logs on which a tilt is chosen
_STEEPEST = 20.0
TRUNCATION = 1000.0
_ROLL_OUTS = 400_000


class Environment(Protocol):
    """A logging policy, its tilts, and their true values."""

    @property
    def name(self) -> str:
        """As in the tables."""

    @property
    def episodes(self) -> int:
        """In each log."""

    def simulate(self, episodes: int, seed: Seed) -> Trajectories:
        """Logged episodes."""

    def target(self, tilt: float) -> Memoryless:
        """The policy to evaluate."""

    def truth(self, tilt: float) -> float:
        """Its value."""

    @property
    def bounds(self) -> Bounds | None:
        """What is known of returns and truncated weights."""


@dataclass(frozen=True, eq=False)
class TiltedMDP:
    """A finite problem, whose values are exact; with `noise`, skewed heavy-tailed noise is added to each reward."""

    name: str
    problem: TabularMDP
    behavior: FloatArray  # [S, A]
    episodes: int
    noise: float = 0.0
    return_range: tuple[float, float] | None = None

    @cached_property
    def merit(self) -> FloatArray:
        """The value of each action [S, A] under the best policy, at the first step."""
        return np.asarray(self.problem.q_values(self.problem.optimal()[1])[0])

    def simulate(self, episodes: int, seed: Seed) -> Trajectories:
        """Logged episodes."""
        logs = run(self.problem, TablePolicy(self.problem, self.behavior), episodes, seed)
        if not self.noise:
            return logs
        extra = np.random.default_rng(seed).lognormal(size=logs.n_steps) - np.exp(0.5)
        rewards = logs.rewards + self.noise * extra
        return Trajectories(logs.contexts, logs.actions, rewards, logs.offsets, logs.propensities)

    def table(self, tilt: float) -> FloatArray:
        """The target policy [S, A]."""
        logits = np.log(self.behavior) + tilt * (self.merit - self.merit.max(axis=1, keepdims=True))
        table = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def target(self, tilt: float) -> Memoryless:
        """The policy to evaluate."""
        return TablePolicy(self.problem, self.table(tilt))

    def truth(self, tilt: float) -> float:
        """By backward induction."""
        return self.problem.value(self.table(tilt))

    @property
    def bounds(self) -> Bounds | None:
        """What is known of returns and truncated weights."""
        return None if self.return_range is None else Bounds(*self.return_range, largest_weight=1000.0)


@dataclass(frozen=True)
class TiltedTumor:
    """Tumor growth; the target leans towards treating in the first five months only."""

    name: str = "tumor"
    episodes: int = 1000
    bounds: Bounds | None = None

    def simulate(self, episodes: int, seed: Seed) -> Trajectories:
        """Logged episodes."""
        return run(TumorGrowth(), TumorBehavior(), episodes, seed)

    def target(self, tilt: float) -> Memoryless:
        """The policy to evaluate."""
        month = np.arange(MONTHS)
        logged = TumorBehavior().probabilities(month[:, None])[:, 1]
        odds = logged / (1 - logged) * np.exp(tilt * np.where(month < 5, 1.0, -1.0))
        return Schedule(tuple(odds / (1 + odds)))

    def truth(self, tilt: float) -> float:
        """By roll-outs, whose error is far below any interval's width."""
        return true_value(self.target(tilt), TumorGrowth(), _ROLL_OUTS, seed=0).value


def tabular(seed: int = 20) -> TiltedMDP:
    """A random problem of five states, four actions and ten steps.

    >>> tabular().problem.horizon
    10
    """
    rng = np.random.default_rng(seed)
    problem = _random_problem(rng, states=5, actions=4, horizon=10)
    reach = (10 * problem.rewards.min(), 10 * problem.rewards.max())
    return TiltedMDP("tabular", problem, _softmax(rng.normal(size=(5, 4))), 1000, return_range=reach)


def heavy_tailed(seed: int = 22) -> TiltedMDP:
    """Four steps, four actions, log-normal noise in every reward, 600 episodes.

    >>> heavy_tailed().episodes
    600
    """
    rng = np.random.default_rng(seed)
    problem = _random_problem(rng, states=4, actions=4, horizon=4)
    return TiltedMDP("heavy-tailed", problem, _softmax(rng.normal(size=(4, 4))), 600, noise=1.0)


def sepsis_like(seed: int = 21) -> TiltedMDP:
    """25 actions of very unequal probability, ragged episodes of eight steps on average, return 0 or 100.

    >>> logs = sepsis_like().simulate(1000, seed=0)
    >>> np.unique(logs.returns()), round(logs.lengths.mean())
    (array([  0., 100.]), 9)
    """
    rng = np.random.default_rng(seed)
    live, actions = 20, 25
    severity = np.linspace(-1, 1, live)[:, None]
    death = 1 / (1 + np.exp(1.8 - 1.2 * severity - 0.6 * rng.normal(size=(live, actions))))
    # The last state is recovery, which pays 100 and ends; death ends at once.
    transitions = np.zeros((live + 1, actions, live + 1))
    transitions[:live, :, :live] = 7 / 8 * rng.dirichlet(np.full(live, 0.4), size=(live, actions))
    transitions[:live, :, live] = (1 - death) / 8
    rewards = np.zeros((live + 1, actions))
    rewards[live] = 100.0
    initial = np.append(np.full(live, 1 / live), 0.0)
    states = np.arange(live + 1)[:, None]
    problem = TabularMDP(transitions, rewards, initial, horizon=40, observations=states)
    behavior = _softmax(1.3 * rng.normal(size=(live + 1, actions)))
    return TiltedMDP("sepsis-like", problem, behavior, 3000, return_range=(0.0, 100.0))


def tilt_for(environment: Environment, ess: float, seed: Seed) -> tuple[float, float]:
    """The tilt at which the median effective sample size of a log is about `ess`, and what it is there.

    Some targets stay near the logging policy however far they are tilted.

    >>> environment = tabular()
    >>> tilt_for(environment, 900.0, seed=0)[0] < tilt_for(environment, 100.0, seed=0)[0]
    True
    """
    logs = [annotated(log) for log in simulated(environment, _CALIBRATION, seed)]

    def median_ess(tilt: float) -> float:
        target = environment.target(tilt)
        found = [effective_share(log_weights(target, log).truncated(TRUNCATION), log.clusters) for log in logs]
        return float(np.median(found)) * logs[0].n_units

    low, high = 0.0, _STEEPEST
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if median_ess(middle) > ess else (low, middle)
    return (low + high) / 2, median_ess((low + high) / 2)


def annotated(log: Trajectories) -> Trajectories:
    """The log with propensities, estimated where it carries none."""
    if log.propensities is not None:
        return log
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)
        return MultinomialBehavior().annotate(log)


def simulated(environment: Environment, logs: int, seed: Seed) -> Iterator[Trajectories]:
    """Independent logs, simulated many at once.

    >>> [log.n_episodes for log in simulated(heavy_tailed(), 2, seed=0)]
    [600, 600]
    """
    size = environment.episodes
    together = max(1, _AT_ONCE // size)
    base = (seed,) if isinstance(seed, int) else seed
    for start in range(0, logs, together):
        count = min(together, logs - start)
        episodes = environment.simulate(count * size, (*base, start))
        for index in range(count):
            yield episodes.take(np.arange(index * size, (index + 1) * size))


def _random_problem(rng: np.random.Generator, states: int, actions: int, horizon: int) -> TabularMDP:
    transitions = rng.dirichlet(np.full(states, 0.5), size=(states, actions))
    rewards = rng.normal(size=(states, actions))
    return TabularMDP(transitions, rewards, rng.dirichlet(np.ones(states)), horizon)


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
