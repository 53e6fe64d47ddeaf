"""Whether the names of a table's columns are names, or the first row of a file that has no header."""

import re
from collections.abc import Iterable, Sequence

VALUE = re.compile(r"[\s\d.,:/+\-eETZ]+")  # what numbers, dates and times are made of


def is_header(columns: Sequence[str], parts: Iterable[str], named: Iterable[str]) -> bool:
    """Whether messages may quote the names: they may be patients' data where a file has no header.

    The names are trusted where every part is found among them; or where at least something that was named is found
    (spelled differently, perhaps), nothing looks like a number or a date, and nothing is there twice.

    >>> parts = ["episode", "step", "action", "reward"]
    >>> is_header(["Episode", "hour", "action"], parts, parts), is_header(["Jane Doe", "1.5", "treat"], parts, parts)
    (True, False)
    """
    there = set(columns)
    if there.issuperset(parts):
        return True
    spelled = {_spelling(name) for name in columns}
    known = any(_spelling(name) in spelled for name in named)
    return known and len(there) == len(columns) and not any(map(_is_value, columns))


def _is_value(name: str) -> bool:
    return VALUE.fullmatch(name) is not None and any(map(str.isdigit, name))


def _spelling(name: str) -> str:
    """A name in small letters, without spaces, underscores and the like."""
    return re.sub(r"[\W_]+", "", name).lower() or name
