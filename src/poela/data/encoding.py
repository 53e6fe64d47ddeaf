"""Columns of a table as the features that a schema makes of them; and the schema that a log teaches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.data.formulas import day_of
from poela.data.labels import encode
from poela.data.schema import TableSchema, Variable
from poela.data.sources import TableSource
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.trajectories import Trajectories

MICROSECONDS_A_DAY = 86_400e6
UNSEEN = -1.0  # the code of a category that the log did not have


@dataclass(frozen=True, eq=False)
class Encoded:
    """Contexts, and by column: the rows whose gap was filled, whose category is new, whose gap is no part of the log.

    Everything in the order of the rows given.
    """

    contexts: Float32Array
    filled: Mapping[str, BoolArray] = field(default_factory=dict)
    unseen: Mapping[str, BoolArray] = field(default_factory=dict)
    gaps: Mapping[str, BoolArray] = field(default_factory=dict)

    def take(self, rows: IntArray) -> "Encoded":
        """Some of the rows."""
        noted = ({name: bad[rows] for name, bad in part.items()} for part in (self.filled, self.unseen, self.gaps))
        return Encoded(self.contexts[rows], *noted)


def encoded(schema: TableSchema, raw: Mapping[str, Float32Array], offsets: IntArray) -> Encoded:
    """The features of rows in episodes; `raw` holds numbers, or codes of categories, NaN where there is a gap.

    >>> schema = TableSchema((Variable("age", indicated=True, fill=50.0), Variable("ward", "category", ("a", "b"))))
    >>> raw = {"age": np.float32([np.nan, 70]), "ward": np.float32([1, -1])}
    >>> encoded(schema, raw, np.array([0, 2])).contexts
    array([[50.,  1.,  0.,  1.],
           [70.,  0.,  0.,  0.]], dtype=float32)
    """
    filled: dict[str, BoolArray] = {}
    unseen: dict[str, BoolArray] = {}
    gaps: dict[str, BoolArray] = {}
    contexts = np.zeros((int(offsets[-1]), len(schema.feature_names)), np.float32)
    start = 0
    for variable in schema.variables:
        values = raw[variable.name]
        missing: BoolArray = np.isnan(values)
        if missing.any():
            filled[variable.name] = missing
            if variable.carried:
                values = carried_forward(values, offsets)
                missing = np.isnan(values)
            if missing.any() and not variable.indicated:
                gaps[variable.name] = missing
        if variable.categories and (values == UNSEEN).any():
            unseen[variable.name] = values == UNSEEN
        width = len(variable.features)
        _fill_in(contexts[:, start : start + width], variable, values, missing)
        start += width
    return Encoded(contexts, filled, unseen, gaps)


def _fill_in(block: Float32Array, variable: Variable, values: Float32Array, missing: BoolArray) -> None:
    """Write the features of one variable into its columns."""
    if variable.kind == "category":
        for code in range(len(variable.categories)):
            block[:, code] = values == code
    else:
        block[:, 0] = np.where(missing, np.float32(variable.fill), values) if missing.any() else values
    if variable.indicated:
        block[:, -1] = missing


def carried_forward(values: Float32Array, offsets: IntArray) -> Float32Array:
    """Gaps (NaN) filled with the last value before them in their episode, where there is one.

    >>> carried_forward(np.float32([np.nan, 1, np.nan, np.nan]), np.array([0, 3, 4]))
    array([nan,  1.,  1., nan], dtype=float32)
    """
    rows = np.arange(len(values))
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, rows))
    first = np.repeat(offsets[:-1], np.diff(offsets))
    return np.asarray(np.where(last >= first, values[np.maximum(last, 0)], np.float32(np.nan)))


def learned(variable: Variable, values: Float32Array, offsets: IntArray, missing: str) -> Variable:
    """The variable with its rule for gaps, as these values of the log teach it."""
    gaps: BoolArray = np.isnan(values)
    if missing == "refuse":
        return variable
    if missing == "carry-forward":
        variable = replace(variable, carried=True)
        gaps = np.isnan(carried_forward(values, offsets)) if gaps.any() else gaps
    if not gaps.any():
        return variable
    known = values[~np.isnan(values)].astype(np.float64)
    fill = 0.0 if variable.kind == "category" else float(np.median(known)) if len(known) else 0.0
    return replace(variable, indicated=True, fill=fill)


def categories_of(column: "pa.ChunkedArray") -> tuple[IntArray, list[str]]:
    """A column as codes (−1: missing or blank) and the texts that they stand for, ascending.

    >>> import pyarrow as pa
    >>> categories_of(pa.chunked_array([[3, None, 1, 1]]))
    (array([ 1, -1,  0,  0]), ['1', '3'])
    """
    labels = encode(column)
    texts = [_text(value) for value in labels.values.to_pylist()]
    names = sorted({text for text in texts if text.strip()})
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place.get(text, -1) for text in texts] + [-1], np.int64)
    return codes[labels.codes], names


def _text(value: Any) -> str:
    """A value as CSV files write it, so that a category is the same in files of every kind."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def codes_of(variable: Variable, column: "pa.ChunkedArray") -> Float32Array:
    """A column as codes of a variable's categories: NaN where it is missing, `UNSEEN` where it is none of them.

    >>> import pyarrow as pa
    >>> codes_of(Variable("ward", "category", ("b", "c")), pa.chunked_array([["c", None, "x"]]))
    array([ 1., nan, -1.], dtype=float32)
    """
    codes, names = categories_of(column)
    place = {name: code for code, name in enumerate(variable.categories)}
    known = np.array([place.get(name, UNSEEN) for name in names] + [np.nan], np.float32)
    return known[codes]


def days_of(column: "pa.ChunkedArray") -> FloatArray:
    """Times (since 1970) or durations in days, NaN where they are missing.

    >>> import datetime, pyarrow as pa
    >>> days_of(pa.chunked_array([[datetime.date(1970, 1, 3), None]]))
    array([ 2., nan])
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = pa.duration("us") if pa.types.is_duration(column.type) else pa.timestamp("us")
    if pa.types.is_timestamp(column.type):
        kind = pa.timestamp("us", column.type.tz)
    ticks = column.cast(kind, safe=False).cast(pa.int64())
    missing = ticks.is_null().to_numpy()
    return np.where(missing, np.nan, ticks.fill_null(0).to_numpy() / MICROSECONDS_A_DAY)


def since(days: FloatArray, offsets: IntArray, origin: str | None) -> FloatArray:
    """Days since the origin or, without one, since the first time that is known in the episode.

    >>> since(np.array([np.nan, 7.0, 9.5, 3.0]), np.array([0, 3, 4]), None)
    array([nan, 0. , 2.5, 0. ])
    """
    if origin is not None:
        return days - day_of(origin)
    known = np.where(np.isnan(days), np.inf, days)
    # The first that is known, not the least: rows are in the order of steps.
    rows = np.where(np.isnan(days), len(days), np.arange(len(days)))
    first = np.minimum.reduceat(rows, offsets[:-1])
    start = np.append(known, np.nan)[first]
    return np.asarray(days - np.repeat(start, np.diff(offsets)))


# Times among the context that lie after the decision itself: nobody knew them then, unless they were planned.

ADVICE = "leave it out of the context, unless it was known before the decision, as planned dates are"


def late_notes(source: TableSource, step: str | None, variables: Sequence[Variable]) -> list[str]:
    """One sentence for each column of times that lie after those of their steps, where steps have a time."""
    import pyarrow as pa

    times = [variable.name for variable in variables if variable.kind == "time"]
    if not times or step is None or step not in source.names or step in times:
        return []
    kind = _kind(source, step)
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return []
    decided, notes = days_of(source.read(step)), []
    for name in times:
        if _zoned(_kind(source, name)) != _zoned(kind):
            continue  # hours apart by their zones alone
        days = days_of(source.read(name))
        days = np.floor(days) if pa.types.is_date(kind) else days  # at some hour of the same day
        late = int((days > decided).sum())
        if late:
            rows = counted(late, "row")
            notes.append(f"{_subject(name)} lies after the time of the decision ({quoted(step)}) in {rows}: {ADVICE}")
    return notes


def late_columns(logs: "Trajectories") -> list[tuple[str, str]]:
    """The columns that were noted so when the logs were read, and what was said of them before the advice."""
    times = [] if logs.schema is None else [one.name for one in logs.schema.variables if one.kind == "time"]
    return [
        (name, note.removesuffix(f": {ADVICE}"))
        for name in times
        for note in logs.notes
        if note.startswith(f"{_subject(name)} lies after the time") and note.endswith(ADVICE)
    ]


def _subject(name: str) -> str:
    return f"column {quoted(name)}"


def _kind(source: TableSource, name: str) -> "pa.DataType":
    import pyarrow as pa

    kind = source.schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _zoned(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and kind.tz is not None
