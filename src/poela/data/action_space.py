"""What can be done: a finite set of named actions (`Finite`), or real numbers in named columns (`Box`).

Nobody else asks which of both it is: they ask the space what they want to know. What a room above knows of its own,
such as a page's sections, it keeps in one table by `kind`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.checks import constant_amounts, finite_shapes, finite_values, real_shapes, real_values, too_few_choices
from poela.data.mdp_arrays import count, numbers, whole
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    from poela.data.layout import LogLayout
    from poela.data.trajectories import Trajectories

ActionName = str | int

PREFIX, PROPENSITY, DENSITY = "propensity_", "propensity", "log_density"  # columns
# Where `to_table` keeps the names and order of actions, since some may never occur, and the columns of real ones.
METADATA, ACTION_COLUMNS = b"poela.actions", b"poela.action_columns"
MOST_ACTIONS = 100_000
NOT_BESIDE = {"episode", "step", "reward", DENSITY, "cluster", ""}  # names that a column of amounts cannot have
NO_LIMITS = "allowed= and forbid= need a finite set of actions, and these are real numbers: leave them out"
NEEDS_FINITE = (
    "{} needs a finite set of actions, and these logs have real numbers as actions: choose what does without, such as "
    "the estimator 'sntis', or divide them into levels first"
)
NEEDS_REAL = "{} needs real-valued actions, and these logs have a finite set: choose another learner"


@dataclass(frozen=True)
class ActionSpace(ABC):
    """What can be done: one of a finite set of named actions, or an amount in each of some named columns.

    >>> from poela.data.trajectories import Trajectories
    >>> Trajectories([[0.0]], [1], [1.0], [0, 1]).action_space
    Finite(names=(0, 1))
    >>> Trajectories([[0.0]], [[0.5]], [1.0], [0, 1]).action_space
    Box(names=('action',))
    """

    names: tuple[ActionName, ...]  # of the actions, or of the columns; none where a layout leaves them to the table

    kind: ClassVar[str]  # by which tables of other rooms are kept
    in_words: ClassVar[str]
    chances: ClassVar[str]  # what is known of the logging policy, in words
    of_one: ClassVar[str]  # what a policy says of a logged action, in words
    known_in: ClassVar[str]  # the field of `Trajectories` that holds what is known of the logging policy
    logged_column: ClassVar[str]  # of a table, for what is known of the logged action alone
    every: ClassVar[str]  # what of the logging policy would show how large weights can be; empty where nothing can

    @property
    def n_components(self) -> int:
        """How many columns of real numbers an action has."""
        return 0

    def must_be(self, kind: type["ActionSpace"], otherwise: str) -> None:
        """Nothing, or this sentence where actions are of the other kind."""
        if not isinstance(self, kind):
            raise InputError(otherwise)

    @staticmethod
    @abstractmethod
    def fields(
        actions: NDArray[Any], n_actions: int | None, names: tuple[ActionName, ...], known: FloatArray | None
    ) -> dict[str, Any]:
        """The fields of logs with these actions: checked as far as they must be to be kept."""

    @abstractmethod
    def log_chances(self, logs: "Trajectories") -> FloatArray:
        """The log of what the logging policy gave to the logged actions [N]."""

    @abstractmethod
    def kinds(self, actions: NDArray[Any]) -> IntArray:
        """Which of the actions each is [N]; amounts are all of one kind."""

    @abstractmethod
    def columns(self, actions: NDArray[Any]) -> FloatArray:
        """Actions as numbers [N, names]: 1 in the column of what was done, or the amounts."""

    @abstractmethod
    def free_columns(self, actions: NDArray[Any]) -> FloatArray:
        """The columns that do not follow from the others: without that of the first of a finite set."""

    @abstractmethod
    def by_episode(self, logs: "Trajectories") -> FloatArray:
        """How often each action but the first was taken in each episode, or the mean of each amount [n, …]."""

    @abstractmethod
    def table(self, logs: "Trajectories") -> tuple[dict[str, Any], dict[str, Any]]:
        """The columns of actions, and those of what is known of the logging policy, as `read_logs` finds them."""

    @property
    @abstractmethod
    def metadata(self) -> dict[bytes, bytes]:
        """What is noted beside these columns."""

    @abstractmethod
    def as_layout(self) -> Mapping[str, Any]:
        """What a layout says of actions that are these."""

    @abstractmethod
    def labels(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the action columns that hold names of actions."""

    @abstractmethod
    def density_in(self, columns: Sequence[str]) -> str | None:
        """The column of log densities among these, where there may be one."""

    @abstractmethod
    def layout_problems(self, layout: "LogLayout") -> list[str]:
        """What a layout says that makes no sense of such actions."""

    @abstractmethod
    def gymnasium(self) -> Any:
        """The space in Gymnasium's words."""

    @abstractmethod
    def shape_problems(self, logs: "Trajectories") -> list[str]:
        """Arrays of logs that do not fit each other."""

    @abstractmethod
    def value_problems(self, logs: "Trajectories", sound: bool) -> list[str]:
        """Values that are wrong; `sound` says that those of contexts and rewards are not."""

    @abstractmethod
    def learning_problems(self, logs: "Trajectories") -> list[str]:
        """Why there is nothing to choose."""


class Finite(ActionSpace):
    """Named actions, numbered from 0."""

    kind, in_words = "finite", "a finite set of actions"
    chances, of_one = "propensities", "log probabilities"
    known_in, logged_column = "propensities", PROPENSITY
    every = "the propensities of every action"

    def __str__(self) -> str:
        return f"{len(self.names)} actions"

    @staticmethod
    def fields(
        actions: NDArray[Any], n_actions: int | None, names: tuple[ActionName, ...], known: FloatArray | None
    ) -> dict[str, Any]:
        """Whole numbers, as many as are declared, named or listed; else as the data show."""
        taken = numbers("actions", whole(actions), np.int64)
        listed = 0 if known is None or known.ndim == 1 else known.shape[1]
        many = count("n_actions", n_actions) or len(names) or listed or int(taken.max(initial=-1)) + 1
        if many > MOST_ACTIONS:
            raise InputError(f"there are {many} actions: at most {MOST_ACTIONS}, from 0 on, can be read")
        return {"actions": taken, "n_actions": many, "action_names": names or tuple(range(many))}

    def log_chances(self, logs: "Trajectories") -> FloatArray:
        """The log of propensities."""
        return np.asarray(np.log(logs.logged_propensities))

    def kinds(self, actions: NDArray[Any]) -> IntArray:
        """The actions themselves."""
        return actions

    def columns(self, actions: NDArray[Any]) -> FloatArray:
        """An indicator of each action."""
        indicators: FloatArray = np.eye(len(self.names))[actions]
        return indicators

    def free_columns(self, actions: NDArray[Any]) -> FloatArray:
        """Without the first action's."""
        return self.columns(actions)[:, 1:]

    def by_episode(self, logs: "Trajectories") -> FloatArray:
        """Counts."""
        taken = [np.bincount(logs.episode_of_step, logs.actions == action) for action in range(1, len(self.names))]
        return np.stack(taken, axis=1)

    def table(self, logs: "Trajectories") -> tuple[dict[str, Any], dict[str, Any]]:
        """One column of names; propensities of the logged action, or of every one."""
        import pyarrow as pa

        known, done = logs.propensities, {"action": pa.array(logs.action_names).take(pa.array(logs.actions))}
        if known is None or known.ndim == 1:
            return done, {} if known is None else {PROPENSITY: known}
        names = zip(self.names, known.T, strict=True)
        return done, {f"{PREFIX}{name}": np.ascontiguousarray(column) for name, column in names}

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """All names, in their order."""
        return {METADATA: json.dumps(list(self.names)).encode()}

    def as_layout(self) -> Mapping[str, Any]:
        """These names."""
        return {"actions": self.names}

    def labels(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """All of them."""
        return columns

    def density_in(self, columns: Sequence[str]) -> str | None:
        """None."""
        return None

    def layout_problems(self, layout: "LogLayout") -> list[str]:
        """None."""
        return []

    def gymnasium(self) -> Any:
        """A discrete choice."""
        from gymnasium.spaces import Discrete

        return Discrete(len(self.names))

    def shape_problems(self, logs: "Trajectories") -> list[str]:
        """Of actions, propensities and names."""
        return finite_shapes(logs)

    def value_problems(self, logs: "Trajectories", sound: bool) -> list[str]:
        """Actions that are none, or forbidden, and propensities that are no probabilities."""
        return finite_values(logs, sound)

    def learning_problems(self, logs: "Trajectories") -> list[str]:
        """One action alone, or as many as rows."""
        return too_few_choices(logs)


class Box(ActionSpace):
    """Real numbers in named columns, such as doses."""

    kind, in_words = "box", "real-valued actions"
    chances, of_one = "log densities", "log densities"
    known_in, logged_column = "log_densities", DENSITY
    every = ""

    def __str__(self) -> str:
        return counted(len(self.names), "action column")

    @property
    def n_components(self) -> int:
        """As many as names."""
        return len(self.names)

    @staticmethod
    def fields(
        actions: NDArray[Any], n_actions: int | None, names: tuple[ActionName, ...], known: FloatArray | None
    ) -> dict[str, Any]:
        """Real numbers, whose columns have usual names if they are given none."""
        width = actions.shape[1]
        usual = ("action",) if width == 1 else tuple(f"action_{place}" for place in range(width))
        done = numbers("actions", actions, np.float64)
        return {"actions": done, "n_actions": 0, "action_names": tuple(map(str, names)) or usual}

    def log_chances(self, logs: "Trajectories") -> FloatArray:
        """Log densities."""
        if logs.log_densities is None:
            raise InputError(
                "these logs carry no log densities: name their column, or estimate them (GaussianBehavior().annotate)"
            )
        return logs.log_densities

    def kinds(self, actions: NDArray[Any]) -> IntArray:
        """0."""
        return np.zeros(len(actions), np.int64)

    def columns(self, actions: NDArray[Any]) -> FloatArray:
        """The amounts."""
        return np.asarray(actions, np.float64)

    def free_columns(self, actions: NDArray[Any]) -> FloatArray:
        """All of them."""
        return self.columns(actions)

    def by_episode(self, logs: "Trajectories") -> FloatArray:
        """Means."""
        sums = [np.bincount(logs.episode_of_step, column) for column in self.columns(logs.actions).T]
        return np.asarray(np.stack(sums, axis=1) / logs.lengths[:, None])

    def table(self, logs: "Trajectories") -> tuple[dict[str, Any], dict[str, Any]]:
        """A column for each; log densities."""
        names = [str(name) for name in self.names]
        if taken := NOT_BESIDE & set(names):
            raise InputError(f"actions {quoted(sorted(taken))} have no name or that of another column: rename them")
        done = {name: np.ascontiguousarray(column) for name, column in zip(names, logs.actions.T, strict=True)}
        return done, {} if logs.log_densities is None else {DENSITY: logs.log_densities}

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The columns of actions."""
        return {ACTION_COLUMNS: json.dumps(list(map(str, self.names))).encode()}

    def as_layout(self) -> Mapping[str, Any]:
        """These columns."""
        return {"action": tuple(map(str, self.names)), "actions": None}

    def labels(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """None."""
        return ()

    def density_in(self, columns: Sequence[str]) -> str | None:
        """The one that is called so."""
        return DENSITY if DENSITY in columns else None

    def layout_problems(self, layout: "LogLayout") -> list[str]:
        """Names and probabilities of actions, and what is allowed."""
        problems = []
        if layout.actions is not None or layout.propensity is not None:
            problems.append(
                "actions= and propensity= are of a finite set of actions: of real numbers, name a log_density="
            )
        if layout.allowed is not None or layout.forbid:
            problems.append(NO_LIMITS)
        return problems

    def gymnasium(self) -> Any:
        """A box without ends."""
        from gymnasium.spaces import Box as Numbers

        return Numbers(-np.inf, np.inf, (len(self.names),), np.float64)

    def shape_problems(self, logs: "Trajectories") -> list[str]:
        """Of actions, log densities and names."""
        return real_shapes(logs)

    def value_problems(self, logs: "Trajectories", sound: bool) -> list[str]:
        """Numbers that are none."""
        return real_values(logs)

    def learning_problems(self, logs: "Trajectories") -> list[str]:
        """A column that never changes."""
        return constant_amounts(logs)


def kind_of(actions: NDArray[Any]) -> type[ActionSpace]:
    """The kind of space that these actions come from: real numbers have columns.

    >>> kind_of(np.array([0, 1])).kind, kind_of(np.array([[0.5]])).kind
    ('finite', 'box')
    """
    return Box if actions.ndim == 2 else Finite


def said_space(action: str | tuple[str, ...], names: tuple[ActionName, ...] = ()) -> ActionSpace:
    """The space by the columns that a layout names: those of real numbers, or that of named actions.

    >>> said_space("drug"), said_space(("dose",))
    (Finite(names=()), Box(names=('dose',)))
    """
    return Finite(names) if isinstance(action, str) else Box(action)


def finite_actions(logs: "Trajectories", what: str) -> "Trajectories":
    """The logs, whose actions must be a finite set; else one sentence that begins with what asks for that.

    >>> from poela.data.trajectories import Trajectories
    >>> finite_actions(Trajectories([[0.0]], [[0.5]], [1.0], [0, 1]), "a model of values")
    Traceback (most recent call last):
    poela.core.errors.InputError: a model of values needs a finite set of actions, and these logs have real numbers ...
    """
    logs.action_space.must_be(Finite, NEEDS_FINITE.format(what))
    return logs


def real_actions(logs: "Trajectories", what: str) -> "Trajectories":
    """The logs, whose actions must be real numbers."""
    logs.action_space.must_be(Box, NEEDS_REAL.format(what))
    return logs
