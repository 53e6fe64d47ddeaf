"""The context columns of a table: of which kind they are, and their rows as the features of a schema."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.data.encoding import Encoded, categories_of, codes_of, days_of, encoded, late_notes, learned, since
from poela.data.labels import is_label
from poela.data.layout import LogLayout
from poela.data.limited_rows import LimitedRows
from poela.data.limits import Limits
from poela.data.numbers import NOT_TOLD_APART, NUMBER, merges_in_single, note_type
from poela.data.order import Order
from poela.data.rows import RowProblems
from poela.data.schema import MOST_CATEGORIES, TableSchema, Variable
from poela.data.sources import TableSource
from poela.data.words import counted, kind_in_words, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.trajectories import Trajectories

# Columns of text that were meant as numbers or as dates, and which of their cells are slips of the pen.

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


LONGEST_CATEGORY = 100  # characters; longer ones are free text
OFTEN = 0.05  # of gaps between decisions may be unusual without a word
REMEDY = "turn it into numbers, or name the context columns without it"


def variables_of(source: TableSource, layout: LogLayout, problems: RowProblems) -> list[Variable]:
    """The usable context columns, as the schema or else their types have it; what is wrong with others is noted."""
    there = set(source.names)
    if layout.schema is not None:
        return [v for v in layout.schema.variables if v.name in there and _fits(v, source, problems)]
    orders = dict(layout.ordinal)
    usable = []
    for name in dict.fromkeys(layout.context or ()):
        if name in there:
            variable = _discovered(source, name, orders.get(name), name in layout.category, problems)
            usable += [] if variable is None else [variable]
    return usable


def _discovered(
    source: TableSource, name: str, order: tuple[str, ...] | None, as_category: bool, problems: RowProblems
) -> Variable | None:
    import pyarrow as pa

    kind = source.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if order is not None:
        variable = Variable(name, "ordinal", order)
        return variable if _fits(variable, source, problems) else None
    if not as_category and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return Variable(name)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Variable(name, "time")
    if pa.types.is_duration(kind):
        return Variable(name, "duration")
    column = source.read(name)
    is_text = _is_text(kind)
    if is_text and not as_category and note_dates(column, name, problems):
        return None
    if as_category or (is_text and not is_mostly_numbers(column, source.decimal)):
        return _category(column, name, problems)
    remedy = f"{REMEDY}, or name it in category= (--category)" if is_text else REMEDY
    return None if note_type(column, name, "a number", remedy, problems, source.decimal) else Variable(name)


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _category(column: "pa.ChunkedArray", name: str, problems: RowProblems) -> Variable | None:
    if not is_label(column.type, is_action=True):
        what = f"column {quoted(name)} is {kind_in_words(column.type)}, not text or a number,"
        problems.note(np.ones(len(column), bool), what, "name the context columns without it")
        return None
    codes, names = categories_of(column)
    long = np.array([len(text) > LONGEST_CATEGORY for text in names] + [False], bool)[codes]
    problems.note(long, f"column {quoted(name)} holds free text", "name the context columns without it")
    if len(names) > MOST_CATEGORIES:
        what = f"column {quoted(name)} has {len(names)} different texts (at most {MOST_CATEGORIES} can be categories)"
        remedy = (
            "name it with cluster= if rows belong to its values, group them, or name the context columns without it"
        )
        problems.note(codes >= 0, what, remedy)
        return None
    if long.any():
        return None
    # Without any value: a number that is missing everywhere, which is dropped.
    return Variable(name, "category", tuple(names)) if names else Variable(name)


def _fits(variable: Variable, source: TableSource, problems: RowProblems) -> bool:
    """Whether a column is of the type that a variable has; noted where it is not."""
    import pyarrow as pa

    name, kind = variable.name, source.schema.field(variable.name).type
    if variable.kind == "number":
        plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return plain or not note_type(source.read(name), name, "a number", REMEDY, problems, source.decimal)
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if variable.kind == "time":
        wanted, fits = "a date or time", pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    elif variable.kind == "duration":
        wanted, fits = "a duration", pa.types.is_duration(kind)
    else:
        wanted, fits = "text or a number", is_label(kind, is_action=True)
    if fits or pa.types.is_null(kind):
        return True
    what = f"column {quoted(name)} is {kind_in_words(kind)}, not {wanted},"
    problems.note(np.ones(source.n_rows, bool), what, "give it as in the log that was learned from")
    return False


def strict_columns(layout: LogLayout) -> set[str]:
    """The columns of numbers in which a gap is refused."""
    if layout.schema is not None:
        return {v.name for v in layout.schema.variables if not v.indicated and not v.carried}
    return set(layout.context or ()) if layout.gaps == "refuse" else set()


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts in their final order, what they were made by, and what is to be said about it."""

    rows: Encoded
    schema: TableSchema
    notes: tuple[str, ...]


def contexts_of(
    source: TableSource,
    layout: LogLayout,
    variables: Sequence[Variable],
    numbers: Float32Array,
    order: Order,
    problems: RowProblems,
    limited: LimitedRows | None = None,
) -> Contexts:
    """The contexts of a table; `numbers` [N, k] holds its variables of kind number, in their final order.

    What is `limited` follows as further features.
    """
    plain = [variable.name for variable in variables if variable.kind == "number"]
    raw: dict[str, Float32Array] = dict(zip(plain, numbers.T, strict=True))
    notes = late_notes(source, layout.step, variables)
    for variable in variables:
        if variable.categories:
            raw[variable.name] = order.place(codes_of(variable, source.read(variable.name)))
        elif variable.kind != "number":
            days = _days(source.read(variable.name), variable, layout, order)
            raw[variable.name] = days.astype(np.float32)
            if merges_in_single(days):
                remedy = "give an origin= near them" if variable.kind == "time" else "give them as numbers from nearby"
                notes.append(f"column {quoted(variable.name)} has times {NOT_TOLD_APART}: {remedy}")
    if layout.schema is None:
        # One pass over all numbers, where it finds no gap, instead of one over each column.
        with np.errstate(invalid="ignore"):  # infinities of both signs
            complete = set(plain) if np.isfinite(numbers.sum(dtype=np.float64)) else set()
        known = {v.name: raw[v.name][:0] if v.name in complete else raw[v.name] for v in variables}
        empty = [name for name, values in known.items() if len(values) and np.isnan(values).all()]
        if layout.gaps != "refuse":
            notes += [f"{_subject(empty)} without a value in any row: left out"] if empty else []
            variables = [v for v in variables if v.name not in empty]
        variables = [learned(v, known[v.name], order.offsets, layout.gaps) for v in variables]
    schema = _schema(layout, variables, order, None if limited is None else limited.limits)
    if len(plain) == len(variables) == numbers.shape[1] and schema.is_plain:
        return Contexts(Encoded(numbers), schema, tuple(notes))
    rows = encoded(schema, raw, order.offsets)
    if limited is not None:
        rows.contexts[:, -limited.forbidden.shape[1] :] = order.place(limited.forbidden)
    _note_gaps(rows, schema, order, problems, learning=layout.schema is None)
    return Contexts(rows, schema, (*notes, *notes_of(rows, schema, learning=layout.schema is None)))


def _schema(layout: LogLayout, variables: Sequence[Variable], order: Order, limits: Limits | None) -> TableSchema:
    if layout.schema is not None and len(variables) == len(layout.schema.variables):
        return layout.schema
    keys = {"episode": layout.episode, "step": None if layout.keeps_row_order else layout.step}
    named: dict[str, Any] = {**keys, "action": ",".join(layout.action_columns), "origin": layout.origin}
    return TableSchema(tuple(variables), **named, pace=order.pace, limits=limits)


def _days(column: "pa.ChunkedArray", variable: Variable, layout: LogLayout, order: Order) -> FloatArray:
    days = order.place(days_of(column))
    origin = layout.origin if layout.schema is None else layout.schema.origin
    return days if variable.kind == "duration" else since(days, order.offsets, origin)


def _note_gaps(rows: Encoded, schema: TableSchema, order: Order, problems: RowProblems, learning: bool) -> None:
    """Gaps that no rule fills, and places that an order does not name."""
    noted = {variable.name for variable in schema.variables if variable.kind == "number" and not variable.carried}
    for name in rows.gaps.keys() - noted:  # those were noted where numbers were read
        gaps = rows.gaps[name]
        why = (
            "fill it in, or drop those episodes" if learning else "the log that taught this had none there: fill it in"
        )
        problems.note(order.in_file(gaps), f"column {quoted(name)} is missing", why)
    ordinal = {variable.name for variable in schema.variables if variable.kind == "ordinal"}
    for name, unseen in rows.unseen.items():
        if name in ordinal:
            what = f"column {quoted(name)} is none of the values that its order names"
            problems.note(order.in_file(unseen), what, "name all of them with ordinal=, or correct it")


def notes_of(rows: Encoded, schema: TableSchema, learning: bool) -> list[str]:
    """What was encoded, filled and not known, by column, counted; without any value of a cell."""
    n, notes = max(len(rows.contexts), 1), []
    texts, times = ([v.name for v in schema.variables if v.kind == kind] for kind in ("category", "time"))
    if learning and texts:
        total = sum(len(v.categories) for v in schema.variables if v.kind == "category")
        notes.append(f"{_subject(texts)} text: a feature for each category, {total} in all")
    if learning and times:
        start = "the first time of the episode" if schema.origin is None else schema.origin
        notes.append(f"{_subject(times)} counted in days since {start}")
    for variable in schema.variables:
        name, filled = quoted(variable.name), rows.filled.get(variable.name)
        if filled is not None:
            how = "filled with the last value of the episode" if variable.carried else ""
            own = "a category of its own" if variable.kind == "category" else "filled with the median"
            marked = f"{own}, marked by a feature" if variable.indicated else ""
            way = "; else ".join(filter(None, (how, marked)))
            notes.append(
                f"column {name} is missing in {counted(int(filled.sum()), 'row')} ({filled.sum() / n:.1%}): {way}"
            )
        unseen = rows.unseen.get(variable.name)
        if unseen is not None and variable.kind == "category":
            count = counted(int(unseen.sum()), "row")
            notes.append(f"column {name} has categories that the log did not have in {count}: taken as none of them")
    return notes


def _subject(columns: Sequence[str]) -> str:
    return f"column {quoted(columns)} is" if len(columns) == 1 else f"columns {quoted(columns)} are"


def without_constants(logs: "Trajectories", but: Sequence[str] = ()) -> "Trajectories":
    """The logs without columns that are the same in every row, which say nothing; noted."""
    same: BoolArray = np.asarray(logs.contexts.min(axis=0) == logs.contexts.max(axis=0))
    schema = logs.schema
    but = (*but, *(() if schema is None or schema.limits is None else schema.limits.features))
    constant = {name for name, equal in zip(logs.feature_names, same, strict=True) if equal and name not in but}
    if schema is not None:
        columns = [v.name for v in schema.variables if constant.issuperset(v.features)]
        constant = {name for v in schema.variables if v.name in columns for name in v.features}
    else:
        columns = [name for name in logs.feature_names if name in constant]
    if not columns:
        return logs
    note = f"{_subject(columns)} the same in every row: left out"
    if (
        schema is not None
        and schema.origin is None
        and any(v.kind == "time" for v in schema.variables if v.name in columns)
    ):
        note += " (give an origin= to count days from a date)"
    columns_left = [column for column, name in enumerate(logs.feature_names) if name not in constant]
    return selected(logs, columns_left, None if schema is None else schema.without(set(columns)), (*logs.notes, note))


def with_features(logs: "Trajectories", first: "Trajectories") -> "Trajectories":
    """The logs with the features of others, where they have more."""
    places = {name: column for column, name in enumerate(logs.feature_names)}
    if logs.feature_names == first.feature_names or not set(first.feature_names) <= places.keys():
        return logs
    return selected(logs, [places[name] for name in first.feature_names], None, logs.notes)


def selected(
    logs: "Trajectories", features: Sequence[int], schema: TableSchema | None, notes: tuple[str, ...]
) -> "Trajectories":
    """The logs with some of their features."""
    names = tuple(logs.feature_names[column] for column in features)
    contexts = np.ascontiguousarray(logs.contexts[:, list(features)])
    changed: dict[str, Any] = {"contexts": contexts, "feature_names": names, "schema": schema, "notes": notes}
    return replace(logs, **changed)


def irregular(steps: IntArray, offsets: IntArray, name: str) -> list[str]:
    """A word where decisions do not follow each other at equal distances.

    >>> irregular(np.array([0, 4, 8, 0, 4, 9]), np.array([0, 3, 6]), "hour")[0][:60]
    "column 'hour': 1 of 4 gaps between decisions are not the usu"
    """
    later = np.ones(len(steps), bool)
    later[offsets[:-1]] = False
    gaps = np.diff(steps)[later[1:]] if len(steps) > 1 else steps[:0]
    if not len(gaps):
        return []
    counts = np.unique(gaps, return_counts=True)[1]
    odd = len(gaps) - int(counts.max())
    if odd <= OFTEN * len(gaps):
        return []
    return [
        f"column {quoted(name)}: {odd} of {len(gaps)} gaps between decisions are not the usual one; policies count "
        "decisions, not time, so give the time since the last decision as a column of the context"
    ]
