"""Columns of text that were meant as numbers or as dates, and which of their cells are slips of the pen."""

import re
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray
from poela.data.numbers import NUMBER
from poela.data.rows import RowProblems
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

THOUSANDS = r"^\s*[+-]?[0-9]{1,3}([,.'’_ \x{a0}\x{202f}][0-9]{3})+([.,][0-9]+)?\s*$"
CLOCK = r"([T ][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?)"
ZONE = r"( ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?))"
PLAIN = rf"^\s*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{CLOCK}?\s*$"
ZONED = rf"^\s*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{CLOCK}{ZONE}\s*$"
OTHER_DATE = (
    r"^\s*([0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{2}|[0-9]{4})|[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2})"
    rf"{CLOCK}?{ZONE}?\s*$"
)


def is_mostly_numbers(column: "pa.ChunkedArray", decimal: str) -> bool:
    """Whether at least half of the texts that are not blank are numbers, with or without marks between thousands.

    >>> import pyarrow as pa
    >>> is_mostly_numbers(pa.chunked_array([["1,234.5", "12", "none", ""]]), ".")
    True
    """
    decimals = "[.,]" if decimal else re.escape(".")
    numbers = _matching(column, NUMBER.format(decimals)) | _matching(column, THOUSANDS)
    return _are_most(numbers, column)


def note_dates(column: "pa.ChunkedArray", name: str, problems: RowProblems) -> bool:
    """Note text of which at least half are dates, with what keeps it from being read so; whether it is such text."""
    plain, zoned = _matching(column, PLAIN), _matching(column, ZONED)
    if not _are_most(plain | zoned | _matching(column, OTHER_DATE), column):
        return False
    slips = _filled(column) & ~(zoned if zoned.sum() > plain.sum() else plain)
    problems.note(
        slips if slips.any() else _filled(column),
        f"column {quoted(name)} is text, not a date or time,",
        "write all as 2020-01-31 or 2020-01-31T08:00 (all with a zone or none) and give them as times, or name the "
        "column in category= (--category)",
    )
    return True


def _are_most(texts: BoolArray, column: "pa.ChunkedArray") -> bool:
    return bool(texts.any() and texts.sum() >= _filled(column).sum() / 2)


def _filled(column: "pa.ChunkedArray") -> BoolArray:
    return _matching(column, r"\S")


def _matching(column: "pa.ChunkedArray", pattern: str) -> BoolArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(column.cast(pa.large_string()), pattern)
    return np.asarray(matches.fill_null(False).to_numpy(), np.bool_)
