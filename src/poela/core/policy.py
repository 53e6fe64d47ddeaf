"""What a policy is: probabilities of every action, at contexts, along logged episodes, or acting live."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.log_cache import cached
from poela.core.ragged import step_numbers

# What a policy of real-valued actions is: a log density of any action, and draws; and the Gaussian ones of both.

SMALLEST_UNIFORM = 2.0**-54
HALF_LOG_TWO_PI = float(np.log(2 * np.pi) / 2)


@runtime_checkable
class DensityPolicy(Protocol):
    """A policy whose actions are real numbers, m to each decision."""

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """The log density [N] of actions [N, m] at contexts [N, d]; −inf where the policy never acts so."""

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context."""


def as_density_policy(candidate: object) -> DensityPolicy:
    """Any object with a log density and draws; else one sentence.

    >>> as_density_policy(1.0)
    Traceback (most recent call last):
    poela.core.errors.InputError: float is no policy of real-valued actions: it has no methods log_density(contexts, ...
    """
    if isinstance(candidate, DensityPolicy):
        return candidate
    raise InputError(
        f"{type(candidate).__name__} is no policy of real-valued actions: it has no methods "
        "log_density(contexts, actions) and sample(contexts, rng)"
    )


def gaussian_log_density(actions: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """The log density [N] of independent normal columns.

    >>> gaussian_log_density(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([-1.8379])
    """
    scaled = (actions - mean) / std
    return np.asarray((-0.5 * np.square(scaled) - np.log(std) - HALF_LOG_TWO_PI).sum(axis=-1))


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Standard normal numbers by one uniform number each, so that equal seeds give common random numbers."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(rng.random(shape), SMALLEST_UNIFORM)))


class LoggedSteps(Protocol):
    """The part of `Trajectories` that a policy needs to follow logged episodes."""

    @property
    def contexts(self) -> Float32Array:
        """[N, d]."""

    @property
    def actions(self) -> IntArray:
        """[N]."""

    @property
    def offsets(self) -> IntArray:
        """[n + 1]."""


def steps_of(logs: LoggedSteps) -> IntArray:
    """How many steps of its episode came before each row [N]: also those that are not told, where `before` counts them.

    >>> from poela.data.history import StepsToFollow
    >>> rows = np.zeros((3, 1), np.float32), np.zeros(3, np.int64), np.array([0, 2, 3])
    >>> steps_of(StepsToFollow(*rows, ("size",))), steps_of(StepsToFollow(*rows, ("size",), before=np.array([0, 7])))
    (array([0, 1, 0]), array([0, 1, 7]))
    """
    numbers, before = step_numbers(logs.offsets), getattr(logs, "before", None)
    return numbers if before is None else numbers + np.repeat(before, np.diff(logs.offsets))


class Actor(Protocol):
    """A policy acting in n episodes at once."""

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        """[n, A], for the episodes' current contexts; rows of ended episodes are ignored."""

    def record(self, actions: IntArray) -> None:
        """Tell the actor which action each episode took."""


@runtime_checkable
class Policy(Protocol):
    """Rows of `probabilities` sum to 1, and do not depend on the order of rows."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes: what evaluation calls."""

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once: what roll-outs and servers call."""


@runtime_checkable
class HasProbabilities(Protocol):
    """The least that a policy is: what `as_policy` makes a whole one of."""

    def probabilities(self, contexts: Any) -> Any:
        """[N, A]."""


class HasDensity(Protocol):
    """The least that a policy of real-valued actions is."""

    def log_density(self, contexts: Any, actions: Any, /) -> Any:
        """[N]."""

    def sample(self, contexts: Any, rng: np.random.Generator, /) -> Any:
        """[N, m]."""


# What can be evaluated, rolled out and tried: of a finite set of actions, or of real-valued ones.
AnyPolicy = HasProbabilities | HasDensity


class MemorylessActor:
    """The actor of a policy that looks only at the current context."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        """[n, A]."""
        result: FloatArray = self._policy.probabilities(contexts)
        return result

    def record(self, actions: IntArray) -> None:
        """Nothing to remember."""


class Memoryless:
    """Gives `along`, `actor` and `sample` to policies that define only `probabilities(contexts)`."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        raise TypeError(f"{type(self).__name__} must define probabilities(contexts)")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return self.probabilities(trajectories.contexts)

    def log_prob(self, logs: LoggedSteps) -> FloatArray:
        """The log of the probability with which each logged action is taken [N]."""
        return log_prob_of(self, logs)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return MemorylessActor(self)

    def sample(self, contexts: ArrayLike, seed: int) -> IntArray:
        """One action for each context, drawn with this seed."""
        return sample_actions(self.probabilities(contexts), np.random.default_rng(seed))


class _OnlyProbabilities(Memoryless):
    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.asarray(self.wrapped.probabilities(contexts), np.float64)


def as_policy(candidate: Any) -> Policy:
    """Any object with `probabilities(contexts)` as a full policy."""
    if isinstance(candidate, Policy):
        return candidate
    if callable(getattr(candidate, "probabilities", None)):
        return _OnlyProbabilities(candidate)
    raise TypeError(f"{type(candidate).__name__} is no policy: it has no method probabilities(contexts)")


def log_prob_of(policy: Any, logs: LoggedSteps) -> FloatArray:
    """The log of the probability, or of the density where actions are real numbers, of each logged action [N].

    >>> from poela.data.history import StepsToFollow
    >>> class Coin:
    ...     def probabilities(self, contexts):
    ...         return np.full((len(contexts), 2), 0.5)
    >>> steps = StepsToFollow(np.zeros((2, 1), np.float32), np.array([0, 1]), np.array([0, 2]), ("size",))
    >>> log_prob_of(Coin(), steps).round(2)
    array([-0.69, -0.69])
    """
    if callable(getattr(policy, "log_density", None)):
        return np.asarray(policy.log_density(logs.contexts, logs.actions), np.float64)
    rows = as_policy(policy).along(logs)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(rows[np.arange(len(rows)), logs.actions]))


def sample_actions(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One action for each row, by one uniform number each (so that equal seeds give common random numbers).

    >>> sample_actions(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    return actions_at(probabilities, rng.random(len(probabilities)))


def actions_at(probabilities: FloatArray, uniform: FloatArray) -> IntArray:
    """The action of each row [N, A] at a number in [0, 1) [N]: actions lie side by side, as wide as they are likely.

    >>> actions_at(np.array([[0.2, 0.8], [0.2, 0.8], [0.0, 1.0]]), np.array([0.1, 0.2, 0.0]))
    array([0, 1, 1])
    """
    cumulative = np.cumsum(probabilities, axis=1)
    # Scaling by the last entry keeps u < total even where rounding leaves the total below 1.
    return np.asarray((cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1), np.int64)


def along_once(policy: Any, trajectories: LoggedSteps) -> FloatArray:
    """`policy.along(trajectories)` [N, A], worked out once: the points of a path ask the same model again and again."""
    return cached(trajectories, "along", policy, lambda: as_policy(policy).along(trajectories))
