"""Values of a layout as people and files give them, in one form."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any


def toml_problem(error: Exception) -> str:
    """What keeps a file from being TOML, and where, without any of its words."""
    if not isinstance(error, tomllib.TOMLDecodeError):
        return "it is no text in UTF-8"
    found = re.search(r"line \d+, column \d+", str(error))
    where = found.group() if found else "its last line"
    twice = re.match("Cannot overwrite|Cannot declare|Cannot mutate|Duplicate", str(error))
    return f"{where} gives a key a second time" if twice else f"{where} is not as it should be"


def plain_tuple(values: Any) -> tuple[Any, ...] | None:
    """One name or several as a tuple of Python's own text and numbers, rather than NumPy's."""
    if values is None:
        return None
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in several)


def pairs_of(orders: Any) -> Any:
    """A mapping from names to orders as pairs, which can be compared and hashed."""
    if not isinstance(orders, Mapping):
        return orders
    return tuple((name, plain_tuple(order)) for name, order in orders.items())
