"""History as features: lagged contexts and actions give memoryless learners a fair chance on non-Markov logs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray, with_sound
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps, Policy
from poela.core.ragged import step_numbers
from poela.core.storage import Stored
from poela.core.typed import from_plain
from poela.core.validation import expect_contents, expect_names, expect_part, expect_sizes, refuse

if TYPE_CHECKING:
    from poela.data.action_space import ActionName
    from poela.data.trajectories import Trajectories


@dataclass(frozen=True)
class HistoryFeatures:
    """The current context; for each lag 1 … `steps` the context and (one-hot) action then and whether there was such
    a step (all zero where there was none); the number of steps so far; with `initial`, the episode's first context.

    >>> features = HistoryFeatures(steps=1, n_features=1, n_actions=2)
    >>> features.names(["size"], ["wait", "treat"])
    ('size', 'size[-1]', 'action=wait[-1]', 'action=treat[-1]', 'exists[-1]', 'elapsed_steps')
    >>> features.of(np.array([[5.0], [6.0]], np.float32), np.array([1, 0]), np.array([0, 2]))
    array([[5., 0., 0., 0., 0., 0.],
           [6., 5., 0., 1., 1., 1.]], dtype=float32)
    """

    steps: int
    n_features: int
    n_actions: int
    initial: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps is {self.steps}, but a history has at least 1 step")

    @property
    def width(self) -> int:
        """How many features there are with history."""
        return self.n_features * (1 + self.initial) + self.steps * self._width_of_lag + 1

    @property
    def _width_of_lag(self) -> int:
        return self.n_features + self.n_actions + 1

    def names(self, feature_names: Sequence[str], action_names: Sequence["ActionName"]) -> tuple[str, ...]:
        """The names of the features with history."""
        of_step = [*feature_names, *(f"action={name}" for name in action_names), "exists"]
        lagged = [f"{name}[-{lag}]" for lag in range(1, self.steps + 1) for name in of_step]
        first = [f"{name}[first]" for name in feature_names] if self.initial else []
        return (*feature_names, *lagged, "elapsed_steps", *first)

    def of(self, contexts: Float32Array, actions: IntArray, offsets: IntArray) -> Float32Array:
        """The features [N, width] along logged episodes."""
        numbers = step_numbers(offsets)
        rows = np.arange(len(contexts))
        result = np.zeros((len(contexts), self.width), np.float32)
        result[:, : self.n_features] = contexts
        for lag in range(1, self.steps + 1):
            there = numbers >= lag
            before = rows[there] - lag
            start = self.n_features + (lag - 1) * self._width_of_lag
            result[there, start : start + self.n_features] = contexts[before]
            result[there, start + self.n_features + actions[before]] = 1
            result[there, start + self._width_of_lag - 1] = 1
        elapsed = self.n_features + self.steps * self._width_of_lag
        result[:, elapsed] = numbers
        if self.initial:
            result[:, elapsed + 1 :] = contexts[rows - numbers]
        return result


class HistoryRecord:
    """The same features for n episodes as they run, from a record of their last steps.

    >>> record = HistoryRecord(HistoryFeatures(steps=1, n_features=1, n_actions=2), n=1)
    >>> record.features(np.array([[5.0]], np.float32))
    array([[5., 0., 0., 0., 0., 0.]], dtype=float32)
    >>> record.add(np.array([1]))
    >>> record.features(np.array([[6.0]], np.float32))
    array([[6., 5., 0., 1., 1., 1.]], dtype=float32)
    """

    def __init__(self, features: HistoryFeatures, n: int) -> None:
        self._layout = features
        self._lags = np.zeros((n, features.steps * features._width_of_lag), np.float32)
        self._contexts = np.zeros((n, features.n_features), np.float32)
        self._first = self._contexts
        self._step = 0

    def features(self, contexts: Float32Array) -> Float32Array:
        """The features [n, width] of the episodes' current contexts."""
        self._contexts = np.array(contexts, np.float32)
        if self._step == 0:
            self._first = self._contexts
        elapsed = np.full((len(contexts), 1), self._step, np.float32)
        first = [self._first] if self._layout.initial else []
        return np.concatenate([self._contexts, self._lags, elapsed, *first], axis=1)

    def add(self, actions: IntArray) -> None:
        """The actions [n] that were taken at the contexts last given."""
        taken = np.zeros((len(actions), self._layout.n_actions), np.float32)
        taken[np.arange(len(actions)), actions] = 1
        newest = np.concatenate([self._contexts, taken, np.ones((len(taken), 1), np.float32)], axis=1)
        self._lags = np.concatenate([newest, self._lags], axis=1)[:, : self._lags.shape[1]]
        self._step += 1


def history_of(plain: Any, n_features: int, n_actions: int) -> HistoryFeatures:
    """The layout that plain settings of a file describe, for this many features and actions."""
    features = from_plain(HistoryFeatures, plain, "history")
    if (features.n_features, features.n_actions) != (n_features, n_actions):
        refuse("history", features, f"for {n_features} features and {n_actions} actions")
    return features


def with_history(logs: "Trajectories", steps: int, initial: bool = False) -> "Trajectories":
    """The logs with history features in place of their contexts; all else is kept.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[5.0], [6.0]], [1, 0], [0, 0], [0, 2])
    >>> with_history(logs, steps=1).n_features
    6
    """
    features = HistoryFeatures(steps, logs.n_features, logs.n_actions, initial)
    names = features.names(logs.feature_names, logs.action_names)
    if len(set(names)) < len(names):
        raise InputError("these logs seem to carry history features already: start from the plain logs")
    contexts = features.of(logs.contexts, logs.actions, logs.offsets)
    return with_sound(logs, contexts=contexts, feature_names=names, schema=None)


@dataclass(frozen=True, eq=False)
class WithHistory:
    """A policy of plain episodes, made of one that expects history features.

    A policy that was learned on `logs.with_history(steps=2)` is evaluated on plain logs and rolled out in a simulator
    as `WithHistory.of(policy, logs, steps=2)`.

    >>> from poela.core.policy import Memoryless
    >>> class TreatsAtFirst(Memoryless):
    ...     def probabilities(self, contexts):
    ...         return np.where(np.asarray(contexts)[:, -1:] == 0, [[0.0, 1.0]], [[1.0, 0.0]])
    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[5.0], [6.0]], [1, 0], [0, 0], [0, 2])
    >>> WithHistory.of(TreatsAtFirst(), logs, steps=1).along(logs)
    array([[0., 1.],
           [1., 0.]])
    """

    policy: Policy
    features: HistoryFeatures
    feature_names: tuple[str, ...]
    action_names: tuple["ActionName", ...]

    @classmethod
    def of(cls, policy: Policy, logs: "Trajectories", steps: int, initial: bool = False) -> "WithHistory":
        """For a policy learned on `logs.with_history(steps, initial)`; `logs` are the plain ones."""
        features = HistoryFeatures(steps, logs.n_features, logs.n_actions, initial)
        return cls(policy, features, logs.feature_names, logs.action_names)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """How many plain features there are."""
        return len(self.feature_names)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: loose contexts have no history."""
        raise InputError("this policy looks at earlier steps: use along(trajectories) or actor(n), not loose contexts")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along plain logged episodes."""
        self._check_width(trajectories.contexts)
        contexts = self.features.of(trajectories.contexts, trajectories.actions, trajectories.offsets)
        # The names as given, so that an inner policy that looks at the order of features can refuse another one.
        feature_names = getattr(trajectories, "feature_names", self.feature_names)
        names = self.features.names(feature_names, self.action_names)
        propensities = getattr(trajectories, "propensities", None)
        steps = StepsToFollow(contexts, trajectories.actions, trajectories.offsets, names, propensities)
        return self.policy.along(steps)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, with a record of their last steps."""
        return _HistoryActor(self.policy.actor(n), self, n)

    def stored(self) -> Stored:
        """As plain settings, with the inner policy as a part."""
        policy: Any = self.policy
        names = {"feature_names": list(self.feature_names), "action_names": list(self.action_names)}
        settings = {**asdict(self.features), **names}
        return Stored("with_history", settings, parts={"policy": policy.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "WithHistory":
        """The inverse of `stored`."""
        names, layout = ("feature_names", "action_names"), ("steps", "n_features", "n_actions", "initial")
        expect_contents(stored, settings=(*names, *layout), parts=("policy",))
        feature_names, action_names = expect_names(stored)
        plain = {name: stored.settings[name] for name in layout}
        features = history_of(plain, len(feature_names), len(action_names))
        policy = expect_part(stored, "policy", load_part, Policy, "a policy")
        expect_sizes("policy", policy, features.width, features.n_actions)
        return cls(policy, features, feature_names, action_names)

    def _check_width(self, contexts: Float32Array) -> None:
        if contexts.ndim != 2 or contexts.shape[1] != self.features.n_features:
            raise InputError(
                f"contexts have shape {contexts.shape}; this policy takes {self.features.n_features} plain features "
                "(it adds the history itself)"
            )


@dataclass(frozen=True, eq=False)
class StepsToFollow:
    """Episodes without rewards: all that a policy needs to follow them."""

    contexts: Float32Array
    actions: IntArray
    offsets: IntArray
    feature_names: tuple[str, ...]
    propensities: FloatArray | None = None  # of every action [N, A], where cases bring them
    before: IntArray | None = None  # [n], steps before the first row of each episode, where only their number counts


class _HistoryActor:
    def __init__(self, inner: Actor, policy: WithHistory, n: int) -> None:
        self._inner, self._policy = inner, policy
        self._record = HistoryRecord(policy.features, n)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = np.asarray(contexts, np.float32)
        self._policy._check_width(rows)
        return self._inner.probabilities(self._record.features(rows))

    def record(self, actions: IntArray) -> None:
        self._record.add(actions)
        self._inner.record(actions)
