"""Logs of many kinds with a known truth: rare yes/no outcomes, heavy tails, hidden traits, clusters, one step or many.

Every process is one small simulator with different settings. The target is the logging policy tilted towards what is
better (or worse), as learned policies are. There are two sets: limits were set on the first; the second had no part.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import Seed
from poela.stats.bounds import Bounds

FEATURES = 3
ROLL_OUTS, AT_ONCE = 400_000, 100_000
TRUTH = 77  # seeds of roll-outs have nothing to do with those of logs

Outcome = Literal["yes/no", "normal", "log-normal", "t3", "mostly zero"]
Propensities = Literal["all", "logged", "estimated"]


@dataclass(frozen=True)
class Process:
    """A logging policy in a world with a few features, and its tilts; every setting adds one difficulty."""

    name: str
    episodes: int
    actions: int
    outcome: Outcome
    seed: int
    steps: int = 1
    rate: float = 0.5  # of yes, under the logging policy
    spread: float = 0.8  # of the logging policy's logits
    effect: float = 0.5
    least_propensity: float = 0.0
    ends: Literal["never", "at random", "when well"] = "never"
    trait: float = 0.0  # what episodes share that no context shows, in the logging policy and the outcome
    early: bool = False  # the first action decides, and the last step pays
    rare_action: float = 0.0  # by how much each further action is rarer; the target leans towards the rarest
    worse: bool = False  # the target leans towards what is worse
    cluster_size: int = 1
    propensities: Propensities = "all"

    @property
    def bounds(self) -> Bounds | None:
        """What is known of returns and truncated weights, for intervals that must be told."""
        return Bounds(0.0, 1.0, largest_weight=1000.0) if self.outcome == "yes/no" else None

    @cached_property
    def _world(self) -> dict[str, FloatArray]:
        rng = np.random.default_rng(self.seed)
        a = self.actions
        return {
            "logging": self.spread * rng.normal(size=(FEATURES, a)),
            "merit": self.effect * rng.normal(size=(FEATURES, a)),
            "base": self.effect * rng.normal(size=a),
            "drift": 0.35 * rng.normal(size=(FEATURES, FEATURES)),
            "push": 0.4 * rng.normal(size=(a, FEATURES)),
            "trait": rng.normal(size=a),
        }

    def merit(self, contexts: FloatArray) -> FloatArray:
        """How good each action is [N, A]."""
        return np.asarray(contexts @ self._world["merit"] + self._world["base"])

    def logging(self, contexts: FloatArray, trait: FloatArray | None = None) -> FloatArray:
        """The logging policy [N, A]; without a trait, that of the average episode."""
        logits = contexts @ self._world["logging"] - self.rare_action * np.arange(self.actions)
        if trait is not None:
            logits = logits + self.trait * trait[:, None] * self._world["trait"]
        return self.least_propensity + (1 - self.actions * self.least_propensity) * _softmax(logits)

    def tilted(self, contexts: FloatArray, tilt: float) -> FloatArray:
        """The target policy [N, A]."""
        leaning = np.broadcast_to(np.arange(self.actions) * 1.0, (len(contexts), self.actions))
        merit = leaning if self.rare_action else self.merit(contexts) * (-1 if self.worse else 1)
        return _softmax(np.log(self.logging(contexts)) + tilt * (merit - merit.max(axis=1, keepdims=True)))

    def target(self, tilt: float) -> "TiltedProcess":
        """The policy to evaluate."""
        return TiltedProcess(self, tilt)

    def truth(self, tilt: float) -> float:
        """The target's value (of no tilt: the logging policy's), by roll-outs whose error is below any width."""
        return _mean_return(self, tilt or None)

    def simulate(self, episodes: int, seed: Seed) -> Trajectories:
        """Logged episodes."""
        rolled = self._roll_out(episodes, None, np.random.default_rng(seed))
        running, chances = rolled.running, rolled.chances[rolled.running]
        actions = rolled.actions[running]
        given = chances if self.propensities == "all" else chances[np.arange(len(actions)), actions]
        clusters = np.arange(episodes) // self.cluster_size if self.cluster_size > 1 else None
        offsets = np.append(0, np.cumsum(running.sum(axis=1)))
        logs = Trajectories(
            rolled.contexts[running],
            actions,
            rolled.rewards[running],
            offsets,
            None if self.propensities == "estimated" else given,
            n_actions=self.actions,
            clusters=clusters,
        )
        return logs

    def _roll_out(self, n: int, tilt: float | None, rng: np.random.Generator) -> "_RollOut":
        """Episodes of the target with this tilt, or of the logging policy."""
        trait = np.repeat(rng.normal(size=-(-n // self.cluster_size)), self.cluster_size)[:n]
        x = rng.normal(size=(n, FEATURES)) + (0.8 * trait[:, None] if self.cluster_size > 1 else 0.0)
        going, total = np.ones(n, np.bool_), np.zeros(n)
        rows = np.arange(n)
        parts: list[tuple[FloatArray, IntArray, FloatArray, FloatArray, BoolArray]] = []
        for step in range(self.steps):
            chances = self.logging(x, trait) if tilt is None else self.tilted(x, tilt)
            action = (rng.random((n, 1)) > np.cumsum(chances, axis=1)).sum(axis=1).clip(max=self.actions - 1)
            good = self.merit(x)[rows, action]
            counts = going & (not self.early or step == 0)
            total = total + np.where(counts, good, 0.0)
            parts.append((x, action, self._paid(good, rng), chances, going.copy()))
            x = 1.5 * np.tanh(
                x @ self._world["drift"] + self._world["push"][action] + 0.6 * x + 0.5 * rng.normal(size=x.shape)
            )
            going = going & ~self._ended(total, rng)
        contexts, actions, rewards, chances_, running = (np.stack(each, axis=1) for each in zip(*parts, strict=True))
        expected = self._settle(rewards, running, total, trait, rng)
        return _RollOut(contexts, actions, rewards, chances_, running, expected)

    def _paid(self, good: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The reward of a step, where steps pay."""
        n = len(good)
        if self.outcome == "yes/no" or self.early:
            return np.zeros(n)
        if self.outcome == "normal":
            return good + rng.normal(size=n)
        if self.outcome == "t3":
            return good + rng.standard_t(3, size=n)
        if self.outcome == "log-normal":
            return np.asarray(np.exp(0.5 * good + 1.3 * rng.normal(size=n)))
        return np.asarray((rng.random(n) < 0.2) * np.exp(0.5 * good + rng.normal(size=n)))

    def _ended(self, total: FloatArray, rng: np.random.Generator) -> BoolArray:
        chance = np.full(len(total), {"never": 0.0, "at random": 0.15, "when well": 0.5}[self.ends])
        if self.ends == "when well":
            chance = chance / (1 + np.exp(1.5 - total))
        return np.asarray(rng.random(len(total)) < chance)

    def _settle(
        self, rewards: FloatArray, running: BoolArray, total: FloatArray, trait: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Put what the last step pays into the rewards; returns what each episode is expected to bring."""
        n = len(total)
        last = running.sum(axis=1) - 1
        shared = trait if self.trait or self.cluster_size > 1 else np.zeros(n)
        if self.outcome == "yes/no":
            chance = 1 / (1 + np.exp(-(self._intercept + total + 0.6 * shared)))
            rewards[np.arange(n), last] = rng.random(n) < chance
            return np.asarray(chance)
        rewards[np.arange(n), last] += 1.5 * shared
        if self.early:
            rewards[np.arange(n), last] += 2 * total + 0.3 * rng.normal(size=n)
        if self.ends == "when well":
            rewards[np.arange(n), last] += 3.0 * (last < self.steps - 1)
        return np.asarray((rewards * running).sum(axis=1))

    @cached_property
    def _intercept(self) -> float:
        """That gives the logging policy its rate of yes."""
        if self.outcome != "yes/no":
            return 0.0
        low, high = -15.0, 15.0
        for _ in range(20):
            middle = (low + high) / 2
            trial = replace(self)
            trial.__dict__["_intercept"] = middle
            chance = trial._roll_out(20_000, None, np.random.default_rng(TRUTH)).expected.mean()
            low, high = (low, middle) if chance > self.rate else (middle, high)
        return (low + high) / 2


@dataclass(frozen=True, eq=False)
class _RollOut:
    contexts: FloatArray  # [n, H, d]
    actions: IntArray  # [n, H]
    rewards: FloatArray  # [n, H]
    chances: FloatArray  # [n, H, A]
    running: BoolArray  # [n, H]
    expected: FloatArray  # [n]: the return, less the chance of its yes or no


@dataclass(frozen=True)
class TiltedProcess(Memoryless):
    """The target policy of a process."""

    process: Process
    tilt: float

    def probabilities(self, contexts: object) -> FloatArray:
        """[N, A]."""
        return self.process.tilted(np.asarray(contexts, np.float64), self.tilt)


def _mean_return(process: Process, tilt: float | None) -> float:
    rounds = range(ROLL_OUTS // AT_ONCE)
    means = [
        process._roll_out(AT_ONCE, tilt, np.random.default_rng((TRUTH, number))).expected.mean() for number in rounds
    ]
    return float(np.mean(means))


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


# Both sets, and how much of them is measured.
DESCRIBED = tomllib.loads(Path(__file__).with_name("processes.toml").read_text(encoding="utf-8"))
FIRST, SECOND = (tuple(Process(**given) for given in DESCRIBED[which]) for which in ("first", "second"))
