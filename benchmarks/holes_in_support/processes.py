"""Processes with holes in support: cases that never get the third action, which would harm them and helps the others.

Three actions; the first two are worth the same, so that all that a policy gains or loses comes from the third. Truths
are integrals over contexts (or, for several steps, over roll-outs) without the noise of rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.policy import sample_actions
from poela.data.trajectories import Trajectories

ACTIONS, THIRD = 3, 2
USUAL, IN_HOLE = (0.4, 0.4, 0.2), (0.5, 0.5, 0.0)  # practice
_POINTS = 18  # 2^18 contexts
_AT_ONCE = 2**15  # contexts asked about together
_ROLL_OUTS = 20_000
_TRUTH_SEED = 1


class Truth(NamedTuple):
    """What a policy truly gains over practice, and how often it takes the third action in the hole (None: no hole)."""

    gain: float
    in_hole: float | None


class Process(Protocol):
    """How logs are made, and what policies are truly worth there."""

    def simulate(self, n: int, seed: int) -> Trajectories:
        """Logged episodes with the propensities of all actions."""

    def truth(self, policy: Any) -> Truth:
        """Of a policy: anything with `along` and `actor`."""


@dataclass(frozen=True, eq=False)
class OneStep:
    """One decision, y = 0.5·x₂ + noise + the effect of the third action: `better`, but `harm` in some places."""

    names: tuple[str, ...]  # of the features; the second is x₂
    contexts: Callable[[FloatArray], FloatArray]  # from uniform numbers [n, columns]
    columns: int
    harmed: Callable[[FloatArray], BoolArray]  # of contexts [n, d]
    practice: Callable[[FloatArray], FloatArray]  # [n, A], of contexts
    hole: bool = True  # whether those who are harmed never get it
    better: float = 1.0
    harm: float = -5.0

    def effect(self, x: FloatArray) -> FloatArray:
        """Of the third action [n]."""
        return np.where(self.harmed(x), self.harm, self.better)

    def simulate(self, n: int, seed: int) -> Trajectories:
        """Logged episodes with the propensities of all actions."""
        rng = np.random.default_rng(seed)
        x = self.contexts(rng.random((n, self.columns)))
        mu = self.practice(x)
        actions = sample_actions(mu, rng)
        rewards = 0.5 * x[:, 1] + rng.normal(size=n) + np.where(actions == THIRD, self.effect(x), 0.0)
        return Trajectories(x, actions, rewards, np.arange(n + 1), mu, ACTIONS, feature_names=self.names)

    @cached_property
    def integration(self) -> FloatArray:
        """Contexts that the truth is a mean over: a quasi-random sequence, far more exact than chance."""
        from scipy.stats import qmc

        return self.contexts(qmc.Sobol(self.columns, seed=_TRUTH_SEED).random_base2(_POINTS))

    def truth(self, policy: Any) -> Truth:
        """By integration."""
        x, third = self.integration, self._third(policy)
        hole = self.harmed(x)
        gain = float(((third - self.practice(x)[:, THIRD]) * self.effect(x)).mean())
        return Truth(gain, float(third[hole].mean()) if self.hole else None)

    def _third(self, policy: Any) -> FloatArray:
        """How probable the third action is [N], at all contexts of the integration."""
        told = getattr(policy, "builds_on_propensities", False)
        parts = []
        for start in range(0, len(self.integration), _AT_ONCE):
            x = self.integration[start : start + _AT_ONCE]
            n, mu = len(x), self.practice(x) if told else None
            fresh = Trajectories(
                x, np.zeros(n, np.int64), np.zeros(n), np.arange(n + 1), mu, ACTIONS, feature_names=self.names
            )
            parts.append(policy.along(fresh)[:, THIRD])
        return np.concatenate(parts)


@dataclass(frozen=True)
class Steps:
    """Several decisions on each case: those with x₁ > 1, which stays, never get the third action.

    x₂ … x₄ move from step to step (x₃ a little more after a third action), and each step pays.
    """

    steps: int
    hole: bool = True
    better: float = 0.4
    harm: float = -2.0
    names: tuple[str, ...] = ("x1", "x2", "x3", "x4")

    def practice(self, x: FloatArray) -> FloatArray:
        """[n, A]."""
        return usual_practice(x[:, 0] > 1) if self.hole else np.tile(USUAL, (len(x), 1))

    def effect(self, x: FloatArray) -> FloatArray:
        """Of the third action [n]."""
        return np.where(x[:, 0] > 1, self.harm, self.better)

    def simulate(self, n: int, seed: int) -> Trajectories:
        """Logged episodes with the propensities of all actions."""
        rng = np.random.default_rng(seed)
        contexts, actions, chances = self._acted(rng.normal(size=n), rng, None)
        x, a = contexts.reshape(-1, len(self.names)), actions.ravel()
        rewards = 0.5 * x[:, 1] + rng.normal(size=len(x)) + np.where(a == THIRD, self.effect(x), 0.0)
        offsets = np.arange(0, len(x) + 1, self.steps)
        return Trajectories(x, a, rewards, offsets, chances.reshape(-1, ACTIONS), ACTIONS, feature_names=self.names)

    def truth(self, policy: Any) -> Truth:
        """By roll-outs, with the mean over actions in the place of the drawn one, and every quantile of x₁ alike."""
        from scipy.special import ndtri

        rng = np.random.default_rng(_TRUTH_SEED)
        fixed = ndtri((rng.permutation(_ROLL_OUTS) + 0.5) / _ROLL_OUTS)
        contexts, _, chances = self._acted(fixed, rng, policy)
        x, third = contexts.reshape(-1, len(self.names)), chances[..., THIRD].ravel()
        gained = (third - self.practice(x)[:, THIRD]) * self.effect(x)
        in_hole = float(third[x[:, 0] > 1].mean()) if self.hole else None
        return Truth(self.steps * float(gained.mean()), in_hole)

    def _acted(
        self, fixed: FloatArray, rng: np.random.Generator, policy: Any
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Contexts [n, steps, d], actions [n, steps] and what was probable [n, steps, A]; None is practice."""
        n, moving = len(fixed), rng.normal(size=(len(fixed), 3))
        contexts = np.empty((n, self.steps, 4))
        actions, chances = np.zeros((n, self.steps), np.int64), np.empty((n, self.steps, ACTIONS))
        actor = None if policy is None else policy.actor(n)
        for step in range(self.steps):
            seen = np.column_stack([fixed, moving]).astype(np.float32)
            x = seen.astype(np.float64)
            rows = self.practice(x) if actor is None else actor.probabilities(seen)
            taken = sample_actions(rows, rng)
            if actor is not None:
                actor.record(taken)
            contexts[:, step], actions[:, step], chances[:, step] = x, taken, rows
            moving = 0.5 * moving + np.sqrt(0.75) * rng.normal(size=moving.shape)
            moving[:, 1] += 0.3 * (taken == THIRD)
        return contexts, actions, chances


def usual_practice(hole: BoolArray) -> FloatArray:
    """Practice [n, A]: the third action for a fifth of cases, and for none of the hole.

    >>> usual_practice(np.array([True, False]))
    array([[0.5, 0.5, 0. ],
           [0.4, 0.4, 0.2]])
    """
    return np.where(hole[:, None], IN_HOLE, USUAL)


def normals(uniform: FloatArray) -> FloatArray:
    """Standard normal numbers, one from each uniform number; as exact as the logs keep them.

    >>> normals(np.array([[0.5, 0.975]])).round(2)
    array([[0.  , 1.96]])
    """
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform.clip(1e-12, 1 - 1e-12)).astype(np.float32), np.float64)
