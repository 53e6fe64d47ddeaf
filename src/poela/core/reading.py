"""Files that anybody may have made: regular ones of bounded size alone are opened, and nothing they say is trusted."""

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError
from poela.core.paths import GUARDS, kind_of, place

LARGEST_JSON = 64 << 20
LARGEST_ARRAYS = 16 << 30


def regular_bytes(path: Path, largest: int) -> bytes:
    """All bytes of a regular file. Anything else is not even opened: a pipe, for one, would wait for ever."""
    _refuse_irregular(path, path.lstat(), largest)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | GUARDS)) as file:
        status = os.fstat(file.fileno())  # what was opened may no longer be what was looked at
        _refuse_irregular(path, status, largest)
        return file.read(status.st_size)


def regular_head(path: Path, length: int, largest: int) -> bytes:
    """The first bytes of a regular file: a number of that `length`, and as many bytes as it says."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | GUARDS)) as file:
        _refuse_irregular(path, os.fstat(file.fileno()), LARGEST_ARRAYS)
        start = file.read(length)
        more = int.from_bytes(start, "little")
        head = b"" if more > largest else file.read(more)
        if len(start) < length or len(head) < more:
            raise ValueError("its header is longer than the file")
        return start + head


def parsed_json(content: bytes) -> Any:
    """One JSON document in UTF-8; a name that stands twice, NaN and infinity (1e400) are errors.

    >>> parsed_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the name 'a' stands twice
    """
    return json.loads(
        content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_number, parse_float=_finite
    )


def unpacked_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, after a look at whether the file is as long as its header says."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if len(content) < 8 or int.from_bytes(content[:8], "little") > len(content) - 8:
        raise ValueError("its header is longer than the file")
    try:
        return load(content)
    # A type of number that NumPy does not know is a KeyError, a shape beyond its limits an OverflowError.
    except (SafetensorError, LookupError, OverflowError, TypeError, AttributeError) as error:
        raise ValueError(f"its header is not valid: {str(error)[:100]}") from None


def _refuse_irregular(path: Path, status: os.stat_result, largest: int) -> None:
    if (kind := kind_of(status.st_mode)) is not None:
        raise InputError(f"{place(path)} is {kind}: put the file itself there")
    if status.st_size > largest:
        raise InputError(f"{place(path)} has {status.st_size} bytes: at most {largest} are read")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name[:40]!r} stands twice")
        members[name] = value
    return members


def _finite(text: str) -> float:
    number = float(text)
    return number if np.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no finite number")
