"""Hopper and Walker2D of Gymnasium, the policies that make the logs, and their roll-outs (extra `mujoco`).

The package carries the policies: `benchmarks/mujoco_policies.py` trained them with PPO of Stable-Baselines3.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import PoelaError
from poela.core.registry import how_to_install

ENVIRONMENTS = {"hopper": "Hopper-v5", "walker2d": "Walker2d-v5"}
LEVELS = ("random", "medium", "expert")
MOST_STEPS = 1000  # after which an episode is cut short, which is no end: the robot still stands
TOGETHER = 100  # episodes at a time
CLIP = 10.0  # of scaled observations, in deviations, as in training

Sampler = Callable[[FloatArray, np.random.Generator], FloatArray]  # actions of contexts [N, d]: [N, m]


@dataclass(frozen=True)
class PpoPolicy:
    """A Gaussian around the output of a small network, one deviation for each action component.

    The environment clips what is drawn to ±1; the density is that of what was drawn.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    mean: FloatArray  # of the observations in training [d]
    deviation: FloatArray
    log_std: FloatArray  # [m]

    @classmethod
    def of(cls, arrays: Any) -> "PpoPolicy":
        """From the arrays of a file, by name."""
        layers = range(sum(name.startswith("weight") for name in arrays))
        weights, biases = (tuple(np.asarray(arrays[f"{k}_{i}"], float) for i in layers) for k in ("weight", "bias"))
        return cls(weights, biases, *(np.asarray(arrays[name], float) for name in ("mean", "deviation", "log_std")))

    def means(self, contexts: FloatArray) -> FloatArray:
        """Of the actions [N, m]."""
        values = np.clip((np.asarray(contexts) - self.mean) / self.deviation, -CLIP, CLIP)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.tanh(values @ weight.T + bias)
        return np.asarray(values @ self.weights[-1].T + self.biases[-1])

    def sample(self, contexts: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One action for each context [N, m], not clipped."""
        means = self.means(contexts)
        return np.asarray(means + np.exp(self.log_std) * rng.standard_normal(means.shape))

    def log_density(self, contexts: FloatArray, actions: FloatArray) -> FloatArray:
        """[N]."""
        scaled = (np.asarray(actions) - self.means(contexts)) / np.exp(self.log_std)
        return np.asarray(-0.5 * (scaled**2 + np.log(2 * np.pi)).sum(axis=1) - self.log_std.sum())


@cache
def shipped_policy(robot: str, level: str) -> PpoPolicy:
    """The policy that makes the logs of this level.

    >>> shipped_policy("hopper", "medium").sample(np.zeros((2, 11)), np.random.default_rng(0)).shape
    (2, 3)
    """
    file = files("poela_experiments").joinpath("data", "mujoco", f"{robot}-{level}.npz")
    return PpoPolicy.of(np.load(io.BytesIO(file.read_bytes()), allow_pickle=False))


@dataclass(frozen=True)
class Episodes:
    """What was seen, done and earned, episode after episode."""

    contexts: FloatArray  # [N, d]
    actions: FloatArray  # [N, m], as drawn, before the environment clips them
    rewards: FloatArray  # [N]
    offsets: IntArray  # [episodes + 1]
    fell: BoolArray  # [episodes], True: the episode ended; False: it was cut short

    @property
    def returns(self) -> FloatArray:
        """[episodes]."""
        return np.asarray(np.add.reduceat(self.rewards, self.offsets[:-1]))


@cache
def _environment(name: str, place: int) -> Any:
    """One for each episode that runs at a time, used again by later ones."""
    try:
        import gymnasium
        import mujoco  # noqa: F401
    except ImportError:
        raise PoelaError(f"the robots need MuJoCo: {how_to_install('mujoco')}") from None
    return gymnasium.make(name, disable_env_checker=True)


def roll_out(robot: str, sample: Sampler, episodes: int, seed: int) -> Episodes:
    """So many episodes of a policy; the same seed gives the same ones."""
    parts = []
    rng = np.random.default_rng((seed, 1))
    starts = np.random.default_rng((seed, 0)).integers(2**31, size=episodes)
    for first in range(0, episodes, TOGETHER):
        parts += _together(ENVIRONMENTS[robot], sample, starts[first : first + TOGETHER], rng)
    contexts, actions, rewards, fell = zip(*parts, strict=True)
    offsets = np.cumsum([0, *map(len, rewards)])
    seen, done, earned = (np.concatenate(part) for part in (contexts, actions, rewards))
    return Episodes(seen, done, earned, offsets, np.asarray(fell))


def _together(name: str, sample: Sampler, seeds: IntArray, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Episodes side by side, so that the policy is asked once for each step of all that still run."""
    environments = [_environment(name, place) for place in range(len(seeds))]
    seen = np.stack([e.reset(seed=int(seed))[0] for e, seed in zip(environments, seeds, strict=True)])
    steps: list[list[tuple[Any, ...]]] = [[] for _ in seeds]
    fell = np.zeros(len(seeds), bool)
    running = np.arange(len(seeds))
    while len(running):
        actions = np.asarray(sample(seen[running], rng), float)
        going = []
        for index, action in zip(running, actions, strict=True):
            after, reward, ended, cut, _ = environments[index].step(np.clip(action, -1, 1))
            steps[index].append((seen[index].copy(), action, reward))
            seen[index], fell[index] = after, ended
            if not (ended or cut):
                going.append(index)
        running = np.asarray(going, int)
    columns = ([np.asarray(column, float) for column in zip(*own, strict=True)] for own in steps)
    return [(*own, ended) for own, ended in zip(columns, fell, strict=True)]
