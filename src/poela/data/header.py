"""Whether the names of a table's columns are names, or the first row of a file that has no header."""

import re
from collections.abc import Sequence

VALUE = re.compile(r"[\s\d.,:/+\-eETZ]+")  # what numbers, dates and times are made of


def is_header(columns: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether messages may quote the names of columns: where a file has no header, these are somebody's data.

    They may where every part is found among them; or all but one (perhaps spelled differently), if nothing looks like
    a number or a date, and nothing is there twice.

    >>> parts = ["episode", "step", "action", "reward"]
    >>> is_header(["Episode", "step", "action", "age"], parts), is_header(["Jane Doe", "0", "treat", "1.5"], parts)
    (True, False)
    """
    there = set(columns)
    if there.issuperset(parts):
        return True
    spelled = {spelling(name) for name in columns}
    matching = sum(spelling(part) in spelled for part in parts)
    return matching >= len(parts) - 1 and len(there) == len(columns) and not any(map(_is_value, columns))


def _is_value(name: str) -> bool:
    return VALUE.fullmatch(name) is not None and any(map(str.isdigit, name))


def spelling(name: str) -> str:
    """A name in small letters, without spaces, underscores and the like."""
    return re.sub(r"[\W_]+", "", name).lower() or name
