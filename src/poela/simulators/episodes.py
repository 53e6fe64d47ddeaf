"""Running a policy in a simulator, many episodes at once: the one loop behind data collection and roll-outs.

Every random number belongs to a seed, a purpose (environment or actions), a step, a call within the step and an
episode, and to nothing else. So episode 7 of seed 0 is the same patient with the same luck whatever policy acts,
however many episodes run, in whatever batches, and however long the other episodes last.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.policy import Actor, AnyPolicy, DensityPolicy, MemorylessActor, as_policy, sample_actions
from poela.data.action_space import ActionName
from poela.data.checks import ROW_SUM_TOLERANCE
from poela.data.trajectories import Trajectories

# How a policy acts in running episodes: by probabilities of a finite set, or by a density of real numbers.


class Acting(ABC):
    """Chooses actions in n episodes at once, and says what is to be logged of their chances."""

    known: ClassVar[str]  # what those logs call the chances
    draws: int  # uniform numbers that an episode takes at a step

    @abstractmethod
    def room(self, n: int, horizon: int) -> tuple[NDArray[Any], FloatArray]:
        """Empty arrays for actions and chances."""

    @abstractmethod
    def act(
        self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator
    ) -> tuple[NDArray[Any], FloatArray]:
        """The actions and their chances; what is said of ended episodes is ignored."""


class FiniteActing(Acting):
    """By probabilities."""

    known = "propensities"

    def __init__(self, actor: Actor, n_actions: int) -> None:
        self._actor, self._n_actions, self.draws = actor, n_actions, 1

    def room(self, n: int, horizon: int) -> tuple[IntArray, FloatArray]:
        """[n, horizon] and [n, horizon, A]."""
        return np.empty((n, horizon), np.int64), np.empty((n, horizon, self._n_actions))

    def act(self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """[n] and [n, A]."""
        chances = self._probabilities(contexts, running)
        chosen = np.where(running, sample_actions(chances, rng), 0)
        self._actor.record(chosen)
        return chosen, chances

    def _probabilities(self, contexts: Float32Array, running: BoolArray) -> FloatArray:
        """[n, A]; uniform rows for episodes that have ended."""
        result = np.full((len(running), self._n_actions), 1.0 / self._n_actions)
        # A policy without memory need not be asked about ended episodes; an actor with memory wants all its rows.
        asked = contexts[running] if isinstance(self._actor, MemorylessActor) else contexts
        rows = np.asarray(self._actor.probabilities(asked), np.float64)
        due = (len(asked), self._n_actions)
        if rows.shape != due:
            raise InputError(f"the policy gives probabilities of shape {rows.shape} where {due} is due")
        result[running] = rows if len(rows) == running.sum() else rows[running]
        bad = ~(np.abs(result.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE) | ~(result >= 0).all(axis=1)
        if bad.any():
            raise InputError(f"{bad.sum()} of {len(asked)} rows of the policy's probabilities are no distribution")
        return result


class RealActing(Acting):
    """By a density; all rows are asked, so that the same episode has the same luck whatever others do."""

    known = "log_densities"

    def __init__(self, policy: Any, n_components: int) -> None:
        if not isinstance(policy, DensityPolicy):
            raise InputError(
                f"{type(policy).__name__} cannot act here: actions are real numbers, and it has no methods "
                "log_density(contexts, actions) and sample(contexts, rng)"
            )
        self._policy, self.draws = policy, n_components

    def room(self, n: int, horizon: int) -> tuple[FloatArray, FloatArray]:
        """[n, horizon, m] and [n, horizon]."""
        return np.empty((n, horizon, self.draws)), np.empty((n, horizon))

    def act(
        self, contexts: Float32Array, running: BoolArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """[n, m] and [n]."""
        chosen = np.asarray(self._policy.sample(contexts, rng), np.float64)
        if chosen.shape != (len(contexts), self.draws):
            raise InputError(
                f"the policy gives actions of shape {chosen.shape} where {(len(contexts), self.draws)} is due"
            )
        return chosen, np.asarray(self._policy.log_density(contexts, chosen), np.float64)


# Draws from the rows of a matrix of probabilities.

TOLERANCE = 1e-9


class RowDraws:
    """Draws a column for each of the given rows of a matrix of probabilities, by one uniform number each.

    What a row lacks to 1 is the chance of the extra column at the end.

    >>> draws = RowDraws(np.array([[0.25, 0.25], [0.0, 1.0]]))
    >>> draws(np.array([0, 0, 0, 1]), np.array([0.1, 0.3, 0.9, 0.5]))
    array([0, 1, 2, 1])
    """

    def __init__(self, probabilities: FloatArray) -> None:
        lacking = 1 - probabilities.sum(axis=1, keepdims=True)
        lacking[lacking < TOLERANCE] = 0
        full = np.hstack([probabilities, lacking])
        rows, self._columns = np.nonzero(full)
        # Row r owns the stretch (r, r + 1] of one sorted array, so one search serves draws from any rows.
        self._ends = np.cumsum(np.bincount(rows, minlength=len(full)))
        within = np.cumsum(full, axis=1) / full.sum(axis=1, keepdims=True)
        self._bounds = rows + within[rows, self._columns]

    def __call__(self, rows: IntArray, uniform: FloatArray) -> IntArray:
        """[n] columns."""
        drawn = np.searchsorted(self._bounds, rows + uniform, side="right")
        # Adding the row to the uniform number may round it up into the next row.
        return np.asarray(self._columns[np.minimum(drawn, self._ends[rows] - 1)], np.int64)


Seed = int | tuple[int, ...]
# Joined to a seed by roll-outs that find out true values. Parts of logs are numbered from 0 in the same place, so this
# is a number that none of them has: the truth never meets the patients that a policy was learned or chosen by.
ROLL_OUTS = 2**31

ENVIRONMENT, ACTIONS = 0, 1
SMALLEST_UNIFORM = 2.0**-54


class Noise(ABC):
    """Random numbers for the n episodes at hand, one row each."""

    @abstractmethod
    def uniform(self, columns: int) -> FloatArray:
        """Uniform numbers in [0, 1), [n, columns]; every call gives new ones."""

    def normal(self, columns: int) -> FloatArray:
        """Standard normal numbers, [n, columns]: one uniform each, so that rows stay aligned."""
        from scipy.special import ndtri

        return np.asarray(ndtri(np.maximum(self.uniform(columns), SMALLEST_UNIFORM)))


class GeneratorNoise(Noise):
    """Noise from a generator, in the order of calls: what a Gymnasium environment has at hand.

    >>> GeneratorNoise(np.random.default_rng(0), n=2).uniform(3).shape
    (2, 3)
    """

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self._rng, self._n = rng, n

    def uniform(self, columns: int) -> FloatArray:
        """[n, columns]."""
        return self._rng.random((self._n, columns))


class StepNoise(Noise):
    """Noise of one step for the episodes first … first + n − 1 of a seed.

    >>> together = StepNoise(seed=0, step=2, first=0, n=5).uniform(3)
    >>> apart = StepNoise(seed=0, step=2, first=3, n=2).uniform(3)
    >>> np.array_equal(together[3:], apart)
    True
    """

    def __init__(self, seed: Seed, step: int, first: int, n: int, purpose: int = ENVIRONMENT) -> None:
        self._seed, self._key, self._first, self._n = seed, (purpose, step), first, n
        self._calls = 0

    def uniform(self, columns: int) -> FloatArray:
        """[n, columns]."""
        return self.generator(columns).random((self._n, columns))

    def generator(self, columns: int = 1) -> np.random.Generator:
        """A new stream, placed where the first of these episodes takes its `columns` uniform numbers."""
        stream = np.random.PCG64(np.random.SeedSequence(self._seed, spawn_key=(*self._key, self._calls)))
        stream.advance(self._first * columns)  # one step of the stream is one uniform number
        self._calls += 1
        return np.random.Generator(stream)


class Simulator(Protocol):
    """A vectorised environment core: functions of an opaque state of n episodes, with no memory of their own.

    Row i of a state may depend on row i alone, and all chance comes from `noise`. An episode that has ended is stepped
    on (with action 0) while others run, and what comes of it is ignored.
    """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each column of the contexts."""

    @property
    def action_names(self) -> tuple[ActionName, ...]:
        """One for each action."""

    @property
    def horizon(self) -> int:
        """The most steps that an episode can have."""

    def reset(self, n: int, noise: Noise) -> Any:
        """The state of n fresh episodes."""

    def contexts(self, state: Any) -> Float32Array:
        """What is observed, [n, d]."""

    def step(self, state: Any, actions: Any, noise: Noise) -> tuple[Any, FloatArray, BoolArray]:
        """The next state, the rewards [n] and which episodes have now ended [n]; the given state is left as it is."""


def run(simulator: Simulator, policy: AnyPolicy, episodes: int, seed: Seed = 0, batch: int = 10_000) -> Trajectories:
    """Episodes of a policy (anything with `probabilities(contexts)`), with the propensities of every action.

    A simulator of real-valued actions takes policies with `log_density` and `sample`, and its logs have log densities.
    Equal seeds give equal bits. The batch size bounds memory and changes nothing else, as long as the policy computes
    a row alike whatever stands beside it (matrix products may round differently).

    >>> from poela.simulators.tumor import TumorGrowth, TumorBehavior
    >>> run(TumorGrowth(), TumorBehavior(), episodes=10, seed=0)
    Trajectories(10 episodes, 300 steps, 3 features, 2 actions, full propensities)
    """
    parts = list(run_in_batches(simulator, policy, episodes, seed, batch))
    if len(parts) == 1:
        return parts[0]
    known = [name for name in Trajectories.by_step if getattr(parts[0], name) is not None]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in known}
    lengths = np.concatenate([part.lengths for part in parts])
    return _trajectories(simulator, joined, lengths)


def run_in_batches(
    simulator: Simulator, policy: Any, episodes: int, seed: Seed = 0, batch: int = 10_000
) -> Iterator[Trajectories]:
    """The same episodes as `run`, a batch at a time."""
    if episodes < 1 or batch < 1:
        raise InputError(f"episodes ({episodes}) and batch ({batch}) must be at least 1")
    width = len(simulator.action_names)
    for first in range(0, episodes, batch):
        n = min(batch, episodes - first)
        real = getattr(simulator, "real_valued", False)
        acting = RealActing(policy, width) if real else FiniteActing(as_policy(policy).actor(n), width)
        yield _run_batch(simulator, acting, n, first, seed)


def _run_batch(simulator: Simulator, acting: Acting, n: int, first: int, seed: Seed) -> Trajectories:
    horizon = simulator.horizon
    contexts = np.empty((n, horizon, len(simulator.feature_names)), np.float32)
    rewards = np.empty((n, horizon))
    actions, logged = acting.room(n, horizon)
    ran = np.zeros((n, horizon), np.bool_)
    running = np.ones(n, np.bool_)
    state = simulator.reset(n, StepNoise(seed, 0, first, n))
    for step in range(horizon):
        safe_point()
        ran[:, step] = running
        contexts[:, step] = seen = simulator.contexts(state)
        chance = StepNoise(seed, step, first, n, ACTIONS).generator(acting.draws)
        actions[:, step], logged[:, step] = acting.act(seen, running, chance)
        state, rewards[:, step], ended = simulator.step(state, actions[:, step], StepNoise(seed, step + 1, first, n))
        running = running & ~ended
        if not running.any():
            break
    flat = {"contexts": contexts[ran], "actions": actions[ran], "rewards": rewards[ran], acting.known: logged[ran]}
    return _trajectories(simulator, flat, ran.sum(axis=1))


def _trajectories(simulator: Simulator, arrays: Mapping[str, Any], lengths: IntArray) -> Trajectories:
    for array in arrays.values():
        array.flags.writeable = False  # ours to give away: saves a copy
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names: Any = {"feature_names": simulator.feature_names, "action_names": simulator.action_names}
    return Trajectories(**arrays, offsets=offsets, **names)
