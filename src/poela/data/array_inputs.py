"""Arrays as they are given: numbers and whole numbers, or one sentence that quotes nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import T, readonly
from poela.core.errors import InputError


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
