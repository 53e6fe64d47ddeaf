"""Two problems with real-valued doses whose truth is known in closed form: one dose, and ten adjustments of a rate."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.policy import gaussian_log_density, standard_normal
from poela.simulators.episodes import Noise


@dataclass(frozen=True)
class LinearGaussian:
    """A policy whose action is normal around intercept + slopes·context, in one column.

    >>> policy = LinearGaussian(intercept=1.0, slopes=(2.0,), std=0.5)
    >>> policy.log_density([[1.0]], [[3.0]]).round(4)
    array([-0.2258])
    """

    intercept: float
    slopes: tuple[float, ...]
    std: float

    def mean(self, contexts: ArrayLike) -> FloatArray:
        """[N, 1]."""
        return np.asarray(self.intercept + np.asarray(contexts, np.float64) @ np.array(self.slopes))[:, None]

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N]."""
        mean = self.mean(contexts)
        return gaussian_log_density(np.asarray(actions, np.float64), mean, np.full(mean.shape, self.std))

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """[N, 1]."""
        mean = self.mean(contexts)
        return mean + self.std * standard_normal(mean.shape, rng)


@dataclass(frozen=True)
class Dosing:
    """One dose for each patient: benefit falls with the square of its distance from the best one.

    The best dose is 4 + severity − clearance/2, at which the mean benefit is 10; severity and clearance are standard
    normal. The logging policy gives too little, and heeds severity too little.
    """

    noise: float = 1.0  # standard deviation of outcomes
    real_valued: Literal[True] = field(default=True, init=False)  # whether actions are real numbers
    feature_names: tuple[str, ...] = field(default=("severity", "clearance"), init=False)  # of the contexts
    action_names: tuple[str, ...] = field(default=("dose",), init=False)  # of the actions
    horizon: int = field(default=1, init=False)  # steps of an episode, at most

    @property
    def behavior(self) -> LinearGaussian:
        """The logging policy."""
        return LinearGaussian(3.2, (0.6, 0.0), 0.8)

    @property
    def best(self) -> LinearGaussian:
        """The best dose, with a spread that hardly matters."""
        return LinearGaussian(4.0, (1.0, -0.5), 1e-3)

    def value(self, policy: LinearGaussian) -> float:
        """The exact value of a linear policy."""
        off = np.array([policy.intercept - 4.0, policy.slopes[0] - 1.0, policy.slopes[1] + 0.5])
        return float(10.0 - off @ off - policy.std**2)

    def reset(self, n: int, noise: Noise) -> FloatArray:
        """Fresh patients."""
        return noise.normal(2)

    def contexts(self, state: FloatArray) -> Float32Array:
        """[n, 2]."""
        return state.astype(np.float32)

    def step(self, state: FloatArray, actions: FloatArray, noise: Noise) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The benefit of the dose."""
        off = actions[:, 0] - self.best.mean(self.contexts(state))[:, 0]
        return state, 10.0 - np.square(off) + self.noise * noise.normal(1)[:, 0], np.ones(len(state), np.bool_)


@dataclass(frozen=True)
class Titration:
    """Ten adjustments of an infusion that keeps a level near 0 while it drifts, each patient's in its own way.

    level′ = 0.8·level + drift − 0.5·rate + 0.3·ε, and a step is worth 1 − level′² − 0.02·rate². The logging policy
    answers too weakly to the level.
    """

    horizon: int = 10  # steps of an episode, at most
    real_valued: Literal[True] = field(default=True, init=False)  # whether actions are real numbers
    feature_names: tuple[str, ...] = field(default=("level", "drift"), init=False)  # of the contexts
    action_names: tuple[str, ...] = field(default=("rate",), init=False)  # of the actions

    @property
    def behavior(self) -> LinearGaussian:
        """The logging policy."""
        return LinearGaussian(0.0, (0.5, 1.5), 0.6)

    def value(self, policy: LinearGaussian) -> float:
        """The exact value of a linear policy: first and second moments of (1, level, drift), step by step."""
        moments = np.diag([1.0, 1.0, 0.09])  # E of the outer product: level is standard normal, drift has deviation 0.3
        acts = np.array([policy.intercept, *policy.slopes])
        moves = np.eye(3)
        moves[1] = np.array([0.0, 0.8, 1.0]) - 0.5 * acts
        total = 0.0
        for _ in range(self.horizon):
            rates = acts @ moments @ acts + policy.std**2
            moments = moves @ moments @ moves.T
            moments[1, 1] += (0.5 * policy.std) ** 2 + 0.3**2
            total += 1.0 - moments[1, 1] - 0.02 * rates
        return float(total)

    def reset(self, n: int, noise: Noise) -> FloatArray:
        """Fresh patients."""
        return np.asarray(noise.normal(2) * np.array([1.0, 0.3]))

    def contexts(self, state: FloatArray) -> Float32Array:
        """[n, 2]."""
        return state.astype(np.float32)

    def step(self, state: FloatArray, actions: FloatArray, noise: Noise) -> tuple[Any, FloatArray, BoolArray]:
        """One adjustment on; an episode ends by its horizon."""
        rate = actions[:, 0]
        level = 0.8 * state[:, 0] + state[:, 1] - 0.5 * rate + 0.3 * noise.normal(1)[:, 0]
        worth = 1.0 - np.square(level) - 0.02 * np.square(rate)
        return np.stack([level, state[:, 1]], axis=1), worth, np.zeros(len(state), np.bool_)
