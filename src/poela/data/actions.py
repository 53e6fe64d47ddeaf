"""The action column: labels of any type become codes, and their names are kept."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, IntArray
from poela.data.action_space import METADATA, ActionName
from poela.data.labels import WHOLE, Labels
from poela.data.layout import LogLayout
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import quoted

LARGE = 2**63  # beyond this, tables hold no whole numbers
TRUTH = {"true": True, "false": False}


def name_actions(
    labels: Labels, source: TableSource, layout: LogLayout, problems: RowProblems
) -> "tuple[IntArray, tuple[ActionName, ...]]":
    """The actions as codes by row of the file (−1: none) and the names that the codes stand for.

    The names are the declared ones or, where none are, the sorted values that occur.
    """
    values, names = _values_and_names(labels, source, layout)
    fractional = np.array([isinstance(value, float) for value in values], bool)
    problems.note(
        _rows_with(labels.codes, fractional),
        f"column {quoted(layout.action_columns)} is not a whole number",
        "divide a continuous dose into levels first",
    )
    large = np.array([isinstance(value, int) and abs(value) >= LARGE for value in values], bool)
    problems.note(
        _rows_with(labels.codes, large),
        f"column {quoted(layout.action_columns)} is a number beyond 2^63",
        "label actions with text or shorter numbers",
    )
    lost = read_as_missing(names)
    problems.note(
        _rows_with(labels.codes, np.array([value in lost for value in values], bool)),
        f"column {quoted(layout.action_columns)} has an action called {quoted(lost)}, which CSV files take for missing",
        "give it another name, such as none",
    )
    code_of: dict[Any, int] = {name: code for code, name in enumerate(names)}
    code_of_value = np.array([code_of.get(value, -1) for value in values], np.int64)
    unknown = (code_of_value < 0) & ~fractional & ~large
    others = "that other value" if unknown.sum() == 1 else f"those {unknown.sum()} other values"
    problems.note(
        _rows_with(labels.codes, unknown),
        f"column {quoted(layout.action_columns)} lies outside the declared actions",
        f"declare {others} too, by actions= or a propensity column, or drop those episodes",
    )
    return np.append(code_of_value, -1)[labels.codes], names


def _values_and_names(
    labels: Labels, source: TableSource, layout: LogLayout
) -> "tuple[list[ActionName | float], tuple[ActionName, ...]]":
    """The values that occur and the names of all actions, of one type."""
    values = [_plain(value) for value in labels.values.to_pylist()]
    if layout.actions is not None:
        as_text = all(isinstance(name, str) for name in layout.actions)
        declared_as: list[Any] = [_parsed(name) for name in layout.actions if isinstance(name, str)]
        kinds = {_kind(value) for value in values}
        if as_text and layout.schema is None and "text" not in kinds and {*map(_kind, declared_as)} == kinds:
            return values, tuple(declared_as)  # flags and TOML name numbers as text
        return (values if as_text or not source.is_text else [_parsed(value) for value in values]), layout.actions
    declared = layout.labels_of_propensities()
    if declared is not None and any(map(_is_decimal, declared)) and {*map(str, values)} <= {*declared}:
        return [str(value) for value in values], declared  # levels that look like doses: propensity_0.1
    parsed: list[Any] = [_parsed(text) for text in declared or ()]
    if source.is_text:
        guesses = [_parsed(value) for value in values]
        values = guesses if len({_kind(value) for value in guesses + parsed}) == 1 else values
    if declared is not None:
        return values, declared if "text" in map(_kind, values) else tuple(parsed)
    names = _stored_names(source)
    if names and set(values) <= set(names):
        return values, names
    whole: list[Any] = [value for value in values if not isinstance(value, float)]
    return values, tuple(sorted(whole))


def _stored_names(source: TableSource) -> "tuple[ActionName, ...]":
    try:
        names = json.loads((source.schema.metadata or {}).get(METADATA, b"[]"))
    except ValueError:
        return ()
    sound = isinstance(names, list) and all(isinstance(name, str | int) for name in names)
    return tuple(names) if sound and len({_kind(name) for name in names}) == 1 else ()


def _rows_with(codes: IntArray, bad: BoolArray) -> BoolArray:
    return np.asarray(np.append(bad, False)[codes])


def _plain(value: Any) -> "ActionName | float":
    """Text, a boolean or a whole number as it is; a float only where it is not whole."""
    if isinstance(value, str | int):
        return value
    return int(value) if value % 1 == 0 else float(value)


def _parsed(text: Any) -> "ActionName | float":
    """A label of a CSV file or of a column's name, as the value it stands for."""
    if re.match(WHOLE, text):
        return int(text)
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    if _is_decimal(text):
        return _plain(float(text))
    return str(text)


def _is_decimal(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+\.[0-9]+", text) is not None


def read_as_missing(names: "Sequence[ActionName]") -> "tuple[ActionName, ...]":
    """The names of actions that would be read as missing from a CSV file, such as that of decisions.

    >>> read_as_missing(["", "NA", "None", "wait", 3])
    ('', 'NA')
    """
    from pyarrow.csv import ConvertOptions

    missing = set(ConvertOptions().null_values)
    return tuple(name for name in names if isinstance(name, str) and name in missing)


def alike_names(names: "Sequence[ActionName]") -> int:
    """How many names of actions differ from another one by nothing but capital letters and blanks.

    >>> alike_names(["Treat ", "treat", "wait"]), alike_names(["treat", "wait"]), alike_names([0, 1])
    (2, 0, 0)
    """
    plainly = Counter(" ".join(name.split()).casefold() for name in names if isinstance(name, str))
    return sum(count for count in plainly.values() if count > 1)


def _kind(value: "ActionName | float") -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"
