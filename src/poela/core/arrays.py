"""Read-only arrays, their names, and the checks that constructors share."""

from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)
Record = TypeVar("Record")


def readonly(values: ArrayLike, dtype: type[T]) -> NDArray[T]:
    """The values as a read-only, contiguous array; never a writable view of the caller's memory.

    >>> readonly([1, 2], np.float64).flags.writeable
    False
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.flags.writeable:
        shares = isinstance(values, np.ndarray) and np.may_share_memory(array, values)
        array = array.copy() if shares else array
        array.flags.writeable = False
    return array


def freeze(array: NDArray[T]) -> NDArray[T]:
    """A fresh array made read-only where it lies, so that `readonly` need not copy it.

    >>> freeze(np.zeros(2)).flags.writeable
    False
    """
    array.flags.writeable = False
    return array


def with_sound(record: Record, **fields: object) -> Record:
    """A frozen object with other fields, which nobody checks: for parts of what was checked, such as some of its rows.

    Arrays among them become read-only where they lie.

    >>> from dataclasses import make_dataclass
    >>> Rows = make_dataclass("Rows", ["name", "numbers"], frozen=True)
    >>> with_sound(Rows("all", np.arange(3)), numbers=np.arange(2))
    Rows(name='all', numbers=array([0, 1]))
    """
    made = copy(record)
    for name, value in fields.items():
        object.__setattr__(made, name, freeze(value) if isinstance(value, np.ndarray) else value)
    return made


def first_bad(bad: NDArray[np.bool_]) -> tuple[int, int]:
    """How many entries (or rows, for a matrix) are bad, and the first of them.

    >>> first_bad(np.array([False, True, True]))
    (2, 1)
    """
    rows: Any = bad.any(axis=1) if bad.ndim > 1 else bad
    return int(rows.sum()), int(rows.argmax())
