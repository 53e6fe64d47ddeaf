"""Balancing a pole on a cart (Barto, Sutton and Anderson 1983), as Gymnasium's CartPole has it, for 200 steps.

Logs come from Q-networks saved while one was trained, from beginner to expert; see `poela_experiments.cartpole_logs`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps
from poela.core.ragged import running_sums
from poela.simulators.episodes import Noise

STEPS = 200
GRAVITY, FORCE, TIME_STEP = 9.8, 10.0, 0.02
MASS_OF_POLE, MASS, HALF_LENGTH = 0.1, 1.1, 0.5  # the second is that of cart and pole together
FARTHEST, STEEPEST = 2.4, 12 * 2 * np.pi / 360
START = 0.05  # the largest of each number at the start

CHECKPOINTS = "cartpole_dqn.safetensors"
EPSILON = 0.1  # how often the logging policies act at random


@dataclass(frozen=True, eq=False)
class CartPoleState:
    """Position, velocity, angle and angular velocity [n, 4] of n carts after so many steps."""

    physics: FloatArray
    steps: int

    @property
    def fallen(self) -> BoolArray:
        """[n]: off the track or too steep."""
        return _fallen(self.physics)


@dataclass(frozen=True)
class CartPole:
    """Push a cart left or right; every step that the pole stands pays 1, for at most 200 steps.

    Without `markov` the pole's angular velocity is not shown.

    >>> CartPole(markov=False).feature_names
    ('position', 'velocity', 'angle')
    """

    markov: bool = True

    action_names: ClassVar[tuple[str, ...]] = ("left", "right")
    horizon: ClassVar[int] = STEPS

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What a context shows."""
        return ("position", "velocity", "angle", *(("angular velocity",) if self.markov else ()))

    def reset(self, n: int, noise: Noise) -> CartPoleState:
        """n carts near the middle, with poles almost upright."""
        return CartPoleState(START * (2 * noise.uniform(4) - 1), 0)

    def contexts(self, state: CartPoleState) -> Float32Array:
        """What is observed, [n, 3 or 4]."""
        return state.physics[:, : len(self.feature_names)].astype(np.float32)

    def step(
        self, state: CartPoleState, actions: IntArray, noise: Noise | None = None
    ) -> tuple[CartPoleState, FloatArray, BoolArray]:
        """A fiftieth of a second; nothing is left to chance. A pole that has fallen lies where it is."""
        moved = _moved(state.physics, np.where(np.asarray(actions) == 1, FORCE, -FORCE))
        after = CartPoleState(np.where(state.fallen[:, None], state.physics, moved), state.steps + 1)
        return after, np.ones(len(moved)), after.fallen | (after.steps == STEPS)


def _fallen(physics: FloatArray) -> BoolArray:
    return np.asarray((np.abs(physics[:, 0]) > FARTHEST) | (np.abs(physics[:, 2]) > STEEPEST))


def _moved(physics: FloatArray, force: FloatArray) -> FloatArray:
    """One explicit Euler step of the equations of motion."""
    _, velocity, angle, spin = physics.T
    push = (force + MASS_OF_POLE * HALF_LENGTH * spin**2 * np.sin(angle)) / MASS
    angular = (GRAVITY * np.sin(angle) - np.cos(angle) * push) / (
        HALF_LENGTH * (4 / 3 - MASS_OF_POLE * np.cos(angle) ** 2 / MASS)
    )
    linear = push - MASS_OF_POLE * HALF_LENGTH * angular * np.cos(angle) / MASS
    return np.asarray(physics + TIME_STEP * np.stack([velocity, linear, spin, angular], axis=1))


@dataclass(frozen=True, eq=False)
class QNetworks:
    """Q-networks of one shape: for each layer the weights [networks, outputs, inputs] and biases [networks, outputs].

    >>> expert = QNetworks.published().take([-1])
    >>> expert.q_values([[0.0, 0.0, 0.1, 0.5]]).argmax(axis=-1)  # the pole falls to the right: push right
    array([[1]])
    """

    layers: tuple[tuple[FloatArray, FloatArray], ...]

    @classmethod
    def of(cls, networks: Sequence[Sequence[ArrayLike]]) -> "QNetworks":
        """From each network's parameters: weights and biases of its layers in turn."""
        stacked = [readonly(np.stack(same), np.float64) for same in zip(*networks, strict=True)]
        return cls(tuple(zip(stacked[::2], stacked[1::2], strict=True)))

    @classmethod
    @lru_cache(maxsize=1)
    def published(cls) -> "QNetworks":
        """Those that come with the package, from beginner to expert."""
        return cls.from_bytes(files("poela.simulators").joinpath("data", CHECKPOINTS).read_bytes())

    @classmethod
    def from_bytes(cls, content: bytes) -> "QNetworks":
        """From the content of a safetensors file."""
        from safetensors.numpy import load

        arrays = load(content)
        return cls(
            tuple(
                (readonly(arrays[f"{layer}.weight"], np.float64), readonly(arrays[f"{layer}.bias"], np.float64))
                for layer in range(len(arrays) // 2)
            )
        )

    def to_bytes(self) -> bytes:
        """As the content of a safetensors file, in single precision."""
        from safetensors.numpy import save

        arrays: dict[str, Float32Array] = {}
        for layer, (weight, bias) in enumerate(self.layers):
            arrays |= {f"{layer}.weight": weight.astype(np.float32), f"{layer}.bias": bias.astype(np.float32)}
        return save(arrays)

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def take(self, which: ArrayLike) -> "QNetworks":
        """Some of the networks."""
        chosen = np.asarray(which, np.int64)
        return QNetworks(tuple((weight[chosen], bias[chosen]) for weight, bias in self.layers))

    def q_values(self, contexts: ArrayLike) -> FloatArray:
        """[networks, N, 2]."""
        # In double precision, so that near-ties fall alike whatever stands in the other rows; network by network, so
        # that the hidden layers of long logs take little memory.
        seen = np.asarray(contexts, np.float64)
        result = np.empty((len(self), len(seen), self.layers[-1][1].shape[1]))
        for network in range(len(self)):
            hidden = seen
            for layer, (weight, bias) in enumerate(self.layers):
                hidden = (hidden if layer == 0 else np.maximum(hidden, 0)) @ weight[network].T + bias[network]
            result[network] = hidden
        return result


class CartPoleBehavior:
    """A checkpoint is drawn for each episode and acts greedily, but at random with probability `epsilon`.

    Which one was drawn stays unknown, so a propensity is that of the action given the episode so far: the checkpoints'
    probabilities, weighted by how well each explains the actions before. Such actions have the law of those of a drawn
    checkpoint, and the product of their propensities is the exact probability of the episode's actions.

    >>> from poela.simulators.episodes import run
    >>> run(CartPole(), CartPoleBehavior(), episodes=3, seed=0).lengths.max() <= 200
    np.True_
    """

    def __init__(self, checkpoints: QNetworks | None = None, epsilon: float = EPSILON) -> None:
        if not 0 < epsilon <= 1:
            raise InputError(f"epsilon must lie in (0, 1], not {epsilon}")
        self.checkpoints = QNetworks.published() if checkpoints is None else checkpoints
        self.epsilon = epsilon

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 2], of first steps."""
        return np.asarray(self.of_each(contexts).mean(axis=1))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, 2] along logged episodes that show all four features."""
        each = self.of_each(trajectories.contexts)
        taken = np.log(np.take_along_axis(each, trajectories.actions[:, None, None], axis=2)[:, :, 0])
        # The evidence at a step is that of the steps before it.
        return _mixed(each, running_sums(taken, trajectories.offsets) - taken)

    def actor(self, n: int) -> "CartPoleActor":
        """Acts in n episodes at once."""
        return CartPoleActor(self, n)

    def of_each(self, contexts: ArrayLike) -> FloatArray:
        """Each checkpoint's own probabilities, [N, checkpoints, 2]."""
        seen = np.asarray(contexts, np.float64)
        if seen.ndim != 2 or seen.shape[1] != 4:
            raise InputError(
                f"the logging policy needs contexts [N, 4], not {seen.shape}: show it CartPole(markov=True)"
            )
        result = np.full((len(seen), len(self.checkpoints), 2), 0.5)
        standing = ~_fallen(seen)  # only those are still to be decided about
        greedy = self.checkpoints.q_values(seen[standing]).argmax(axis=2).T
        result[standing] = np.where(greedy[:, :, None] == [0, 1], 1 - self.epsilon / 2, self.epsilon / 2)
        return result


class CartPoleActor:
    """Acts in n episodes, and remembers how well each checkpoint explains what was done."""

    def __init__(self, behavior: CartPoleBehavior, n: int) -> None:
        self._behavior = behavior
        self._evidence = np.zeros((n, len(behavior.checkpoints)))
        self._each = np.empty((n, len(behavior.checkpoints), 2))

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        """[n, 2]."""
        self._each = self._behavior.of_each(contexts)
        return _mixed(self._each, self._evidence)

    def record(self, actions: IntArray) -> None:
        """Weigh the checkpoints by the actions taken."""
        taken = np.take_along_axis(self._each, actions[:, None, None], axis=2)[:, :, 0]
        self._evidence = self._evidence + np.log(taken)


def _mixed(each: FloatArray, evidence: FloatArray) -> FloatArray:
    """[N, 2] from probabilities [N, checkpoints, 2] and log evidence [N, checkpoints]."""
    weights = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    return np.asarray((weights[:, :, None] * each).sum(axis=1) / weights.sum(axis=1, keepdims=True))
