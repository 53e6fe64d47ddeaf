"""What a stored object must hold: settings, arrays and parts, each checked before anything is made of it.

A checksum tells that a file is as it was written, not that it was written by us.
"""

import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray, readonly
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.typed import from_plain

LARGEST = 1e60  # products of a few such numbers are finite in float64
MOST_ACTIONS = 100_000  # as in `Trajectories`

N = TypeVar("N", bound=np.generic)
T = TypeVar("T")


def expect_contents(
    stored: Stored, settings: Collection[str] = (), arrays: Collection[str] = (), parts: Collection[str] = ()
) -> None:
    """Exactly these names of settings, arrays and parts.

    >>> expect_contents(Stored("knn", {"k": 3}), settings=("k", "names"))
    Traceback (most recent call last):
    poela.core.errors.InputError: 'names' is missing from the settings
    """
    expected = {"settings": settings, "arrays": arrays, "parts": parts}
    for what, names in expected.items():
        _expect_keys(f"the {what}", getattr(stored, what), names, names)


def expect_setting(stored: Stored, name: str, kind: Any, low: float = -math.inf, high: float = math.inf) -> Any:
    """A setting of this type (of any that `poela.core.typed` knows), within these bounds.

    >>> expect_setting(Stored("knn", {"k": 0}), "k", int, low=1, high=9)
    Traceback (most recent call last):
    poela.core.errors.InputError: k is 0: it must be from 1 to 9
    """
    _expect_keys("the settings", stored.settings, (name,), stored.settings)
    value = from_plain(kind, stored.settings[name], name)
    if isinstance(value, int | float) and not low <= value <= high:
        refuse(name, value, f"from {low:g} to {high:g}")
    return value


def expect_names(stored: Stored) -> tuple[tuple[str, ...], tuple[str | int, ...]]:
    """The names of the features and of the actions."""
    features = expect_setting(stored, "feature_names", tuple[str, ...])
    actions = expect_setting(stored, "action_names", tuple[str, ...] | tuple[int, ...] | tuple[bool, ...])
    for name, names in (("feature_names", features), ("action_names", actions)):
        if len(set(names)) < len(names):
            refuse(name, names, "without repetition")
    if not 1 <= len(actions) <= MOST_ACTIONS:
        refuse("action_names", actions, f"1 to {MOST_ACTIONS} names")
    return features, actions


def expect_array(
    stored: Stored,
    name: str,
    dtype: type[N],
    shape: tuple[int | None, ...],
    low: float = -LARGEST,
    high: float = LARGEST,
) -> NDArray[N]:
    """An array of this type and shape (None: any length), read-only; every number lies within the bounds.

    >>> expect_array(Stored("knn", arrays={"x": np.array([1.0, np.nan])}), "x", np.float64, (None,))
    Traceback (most recent call last):
    poela.core.errors.InputError: x holds numbers that are not from -1e+60 to 1e+60
    """
    array = stored.arrays[name]
    if array.dtype != dtype:
        refuse(f"the type of {name}", str(array.dtype), np.dtype(dtype).name)
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        refuse(f"the shape of {name}", array.shape, str(shape).replace("None", "any"))
    if array.size and not (low <= array.min().item() and array.max().item() <= high):  # NaN fails, too
        raise InputError(f"{name} holds numbers that are not from {low:g} to {high:g}")
    return readonly(array, dtype)


def expect_part(stored: Stored, name: str, load_part: Callable[[Stored], Any], kind: Any, said: str) -> Any:
    """A part, loaded, of this class; `said` names the class in words."""
    try:
        part = load_part(stored.parts[name])
    except InputError as error:
        raise InputError(f"{name}: {'; '.join(error.problems)}") from None
    if not isinstance(part, kind):
        refuse(name, stored.parts[name].kind, said)
    return part


def expect_sizes(name: str, part: Any, n_features: int, n_actions: int) -> None:
    """A part that is made for this many features and actions."""
    if (part.n_features, part.n_actions) != (n_features, n_actions):
        raise InputError(
            f"{name} is made for {part.n_features} features and {part.n_actions} actions: "
            f"it must be for {n_features} and {n_actions}"
        )


def finite_scores(scores: FloatArray) -> FloatArray:
    """The scores [N, A] of a network; numbers too large for it, in its file or in the contexts, are refused.

    >>> finite_scores(np.array([[0.0, np.inf]]))
    Traceback (most recent call last):
    poela.core.errors.InputError: the network overflows at 1 of 1 contexts: its weights or the contexts are too large
    """
    if not np.isfinite(scores).all():
        bad = int((~np.isfinite(scores)).any(axis=1).sum())
        raise InputError(
            f"the network overflows at {bad} of {len(scores)} contexts: its weights or the contexts are too large"
        )
    return scores


def expect_list(name: str, value: Any) -> tuple[Any, ...]:
    """What a Python program gives as a list, tuple, array or generator; text or a mapping is none of them.

    >>> expect_list("learners", "fittedq")
    Traceback (most recent call last):
    poela.core.errors.InputError: learners is 'fittedq': it must be a list
    """
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        refuse(name, value, "a list")
    return tuple(value)


def expect_kind(name: str, value: Any, kind: type[T], such_as: str) -> T:
    """An object of this class.

    >>> expect_kind("resume", "yes", bool, "True or False")
    Traceback (most recent call last):
    poela.core.errors.InputError: resume is 'yes': it must be True or False
    """
    if not isinstance(value, kind):
        refuse(name, value, such_as)
    return value


def refuse(name: str, value: Any, must_be: str) -> NoReturn:
    """One short sentence, however large the value is.

    >>> refuse("radius", -1, "0 or more")
    Traceback (most recent call last):
    poela.core.errors.InputError: radius is -1: it must be 0 or more
    """
    raise InputError(f"{name} is {reprlib.repr(value)[:80]}: it must be {must_be}")


def _expect_keys(what: str, keys: Collection[Any], needed: Collection[str], known: Collection[str]) -> None:
    missing = [name for name in needed if name not in keys]
    if missing:
        raise InputError(f"{missing[0]!r} is missing from {what}")
    unknown = [name for name in keys if name not in known]
    if unknown:
        raise InputError(f"{reprlib.repr(unknown[0])} in {what} is unknown; it may be of a newer poela")
