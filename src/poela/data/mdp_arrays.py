"""Flat arrays with flags at the ends of episodes, as d3rlpy's MDPDataset and many other libraries take them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import BoolArray, Float32Array, IntArray, T, readonly
from poela.core.errors import InputError

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

# Arrays as they are given: numbers and whole numbers, or one sentence that quotes nothing.


def numbers(name: str, values: ArrayLike, dtype: type[T]) -> NDArray[T]:
    """The values as a read-only array; what is no array of numbers is refused without being quoted."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large turns infinite, and is reported
            return readonly(values, dtype)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be numbers, in rows of one length: these are not") from None


def whole(values: ArrayLike) -> NDArray[Any]:
    """Whole numbers as they are; a fraction is an error, not rounded."""
    try:
        array = np.asarray(values)
        numbers = array if array.dtype.kind in "iub" else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array(np.nan)  # text, or rows of several lengths
    if numbers.dtype.kind == "f" and not ((np.abs(numbers) < 2**53) & (numbers == np.rint(numbers))).all():
        raise InputError("actions and episodes are counted in whole numbers: these are not")
    return array


def count(name: str, value: Any) -> int:
    """A whole number, 0 where none is given; anything else is refused.

    >>> count("n_actions", None), count("n_actions", np.int32(3))
    (0, 3)
    """
    if value is None:
        return 0
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not (0 <= value < 2**53 and value == int(value))
    ):
        raise InputError(f"{name} must be a whole number, 0 or more")
    return int(value)


def array_of(name: str, values: ArrayLike) -> NDArray[Any]:
    """The values as an array of their own type; rows of several lengths are refused."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, in rows of one length: these are not") from None
    if array.dtype.kind == "c":  # whose second halves would be lost
        raise InputError(f"{name} must be real numbers: these are complex")
    return array


def plain_names(names: Sequence[str | int]) -> tuple[str | int, ...]:
    """Names as Python's own text and numbers, which JSON knows, rather than NumPy's."""
    if not isinstance(names, Iterable):
        raise InputError("names of actions and of features must be lists")
    return tuple(name.item() if isinstance(name, np.generic) else name for name in names)


class MDPArrays(TypedDict):
    """The arguments of `d3rlpy.dataset.MDPDataset`, by name."""

    observations: Float32Array  # [N, d]
    actions: IntArray  # [N]
    rewards: Float32Array  # [N]
    terminals: Float32Array  # [N], 1 where an episode ended by itself
    timeouts: Float32Array  # [N], 1 where it was cut
    action_size: int


def mdp_arrays_of(logs: "Trajectories", terminated: ArrayLike = True) -> MDPArrays:
    """The logs as flat arrays; see `Trajectories.to_mdp_arrays`."""
    ended = ended_of(terminated, logs.n_episodes)
    flags = np.zeros((2, logs.n_steps), np.float32)
    last = logs.offsets[1:] - 1
    flags[0, last], flags[1, last] = ended, ~ended
    return MDPArrays(
        observations=logs.contexts,
        actions=logs.actions,
        rewards=logs.rewards.astype(np.float32),
        terminals=flags[0],
        timeouts=flags[1],
        action_size=logs.n_actions,
    )


def from_mdp_arrays(
    kind: type["Trajectories"],
    observations: ArrayLike,
    actions: ArrayLike,
    rewards: ArrayLike,
    terminals: ArrayLike,
    timeouts: ArrayLike | None = None,
    action_size: int | None = None,
    **more: Any,
) -> "Trajectories":
    """Logs of this kind from flat arrays; see `Trajectories.from_mdp_arrays`."""
    contexts = array_of("observations", observations)
    if contexts.ndim == 0 or not contexts.size:
        raise InputError("observations must be a matrix [steps, features] with at least one of each")
    if contexts.ndim == 1:
        contexts = contexts[:, None]
    size = count("action_size", action_size)
    ends = _flags("terminals", terminals, len(contexts))
    if timeouts is not None:
        ends = ends | _flags("timeouts", timeouts, len(contexts))
    if len(ends) and not ends[-1]:
        raise InputError("the last step ends no episode: set its flag in terminals or in timeouts, or drop the rest")
    offsets = np.append(0, np.flatnonzero(ends) + 1)
    flat = contexts.reshape(len(contexts), -1)
    return kind(flat, _column("actions", actions), _column("rewards", rewards), offsets, n_actions=size, **more)


def ended_of(terminated: ArrayLike, n_episodes: int) -> BoolArray:
    """Whether each episode [n] ended by itself, from one answer for all or one for each.

    >>> ended_of(True, 2)
    array([ True,  True])
    """
    ended = np.asarray(terminated)
    if ended.dtype != np.bool_ or ended.shape not in {(), (n_episodes,)}:
        raise InputError(f"terminated must be True, False or {n_episodes} of them, one for each episode")
    return np.broadcast_to(ended, (n_episodes,)).copy()


def _flags(name: str, values: ArrayLike, steps: int) -> BoolArray:
    flags = _column(name, values)
    if flags.shape != (steps,) or flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise InputError(f"{name} must be {steps} flags, 0 or 1, one for each observation")
    return flags.astype(np.bool_)


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    """One value for each step, also where they come as a matrix of one column."""
    array = array_of(name, values)
    if name == "actions" and array.ndim == 2 and array.shape[1] != 1:
        raise InputError(
            f"actions are vectors of {array.shape[1]} numbers: only actions out of a finite set can be read"
        )
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
