"""What may not be done in each row of a table, by its columns as they stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, IntArray
from poela.core.errors import InputError
from poela.data.conditions import NO, YES, Condition, Days, Flags, Texts, Values
from poela.data.encoding import categories_of, days_of
from poela.data.formulas import day_of
from poela.data.limits import FORBIDDEN, UNKNOWN, Limits, limits_said, with_kinds
from poela.data.numbers import note_type, numbers_of
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import counted, kind_in_words, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.layout import LogLayout

MOST_TOLD = 8  # actions, in a note
IN_ONE_WAY = "compare it in one way: with numbers, or with text in quotes"


@dataclass(frozen=True, eq=False)
class LimitedRows:
    """Limits, and for each row of a file and each limited action 0, ½ (not known) or 1 (forbidden)."""

    limits: Limits
    forbidden: Float32Array  # [N, k]
    notes: tuple[str, ...] = ()

    def note_broken(self, codes: IntArray, names: Sequence[Any], problems: RowProblems) -> None:
        """Note rows of a log in which what is forbidden was done, and those in which nothing may be done."""
        for place, name in enumerate(self.limits.limited):
            done = codes == list(map(str, names)).index(name)
            what = f"action {quoted(name)} was taken where it is forbidden ({self.limits.why(name)})"
            remedy = (
                "correct those rows or the limit (add 'and …' for cases in which practice may do so); if practice only "
                "changes from now on, learn without this limit from them, or leave those cases out and say so"
            )
            problems.note(done & (self.forbidden[:, place] == FORBIDDEN), what, remedy)
        if len(self.limits.limited) == len(self.limits.actions):
            unsure = (self.forbidden > 0).all(axis=1) & (self.forbidden == UNKNOWN).any(axis=1)
            remedy = f"fill in {quoted(self.limits.columns)}, or say 'and not missing(…)' where an action may be taken"
            problems.note(unsure, "no action is known to be allowed", remedy)

    def notes_of_log(self, codes: IntArray, names: Sequence[Any]) -> tuple[str, ...]:
        """What is to be told of the limits in a log: how many rows they concern, and where they are not known."""
        texts, told = list(map(str, names)), []
        for place, name in enumerate(self.limits.limited):
            unsure = self.forbidden[:, place] == UNKNOWN
            share = f"{quoted(name)} in {(self.forbidden[:, place] == FORBIDDEN).mean():.1%} of rows"
            if unsure.any():
                done = int((unsure & (codes == texts.index(name))).sum())
                share += (
                    f" (not known in {counted(int(unsure.sum()), 'row')}, {done} of them with it: barred there, too)"
                )
            told.append(share)
        rest = [f"and {counted(len(told) - MOST_TOLD, 'more action')}"] if len(told) > MOST_TOLD else []
        return (*self.notes, f"forbidden: {'; '.join([*told[:MOST_TOLD], *rest])}")


def limited_rows(
    source: TableSource, layout: "LogLayout", names: Sequence[Any], problems: RowProblems
) -> LimitedRows | None:
    """The limits of a log: those of its schema, or those that the layout says; None where there are none."""
    if layout.schema is not None:
        return rows_within(source, layout.schema.limits, problems)
    limits = limits_said(layout.allowed, layout.forbid, names)
    if limits is None or not set(limits.columns) <= set(source.names):
        return None
    kinds = [_kind(source, name, [one.condition for one in limits.forbidden], problems) for name, _ in _asked(limits)]
    if None in kinds:
        return None
    return rows_within(source, with_kinds(limits, [str(kind) for kind in kinds]), problems, learning=True)


def lacks_limits(layout: "LogLayout", limited: LimitedRows | None) -> bool:
    """Whether there are limits, but columns that they ask about cannot be read."""
    said = layout.allowed is not None or bool(layout.forbid)
    return limited is None and (said if layout.schema is None else layout.schema.limits is not None)


def _asked(limits: Limits) -> list[tuple[str, str]]:
    return [(one.name, one.kind) for one in limits.asked]


def rows_within(
    source: TableSource, limits: Limits | None, problems: RowProblems, learning: bool = False
) -> LimitedRows | None:
    """The limits of rows that are read by a schema."""
    if limits is None or not set(limits.columns) <= set(source.names):
        return None
    values = {name: _values(source, name, kind, problems) for name, kind in _asked(limits)}
    if any(value is None for value in values.values()):
        return None
    found = np.zeros((source.n_rows, len(limits.limited)), np.float32)
    notes: list[str] = []
    for rule in limits.forbidden:
        truth = rule.condition.of({name: value for name, value in values.items() if value is not None})
        level = np.where(truth.yes, FORBIDDEN, np.where(truth.no, 0.0, UNKNOWN)).astype(np.float32)
        for name in rule.actions:
            place = limits.limited.index(name)
            found[:, place] = np.maximum(found[:, place], level)
        notes += _never_there(rule.condition, values) if learning else []
    if limits.allowed is not None:
        closed, strange = _closed(source.read(limits.allowed), limits)
        found = np.maximum(found, closed)
        if strange:
            notes.append(
                f"column {quoted(limits.allowed)} names {counted(strange, 'action')} that the log does not have"
            )
    return LimitedRows(limits, found, tuple(notes))


def _kind(source: TableSource, name: str, conditions: Sequence[Condition], problems: RowProblems) -> str | None:
    """How a column that conditions ask about is read; None, with a problem, where it cannot be."""
    import pyarrow as pa

    kind = source.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = tuple(text for one in conditions for text in one.texts.get(name, ()))
    numbers, alone = (any(name in getattr(one, which) for one in conditions) for which in ("numbers", "flags"))
    what = f"column {quoted(name)} in forbid= is {kind_in_words(kind)}"
    every = np.ones(source.n_rows, np.bool_)
    if pa.types.is_boolean(kind) or alone:
        if any(text.strip().lower() not in YES | NO for text in texts):
            problems.note(every, f"{what} of yes and no, and compared with other text", "compare it with 'yes' or 'no'")
            return None
        return "flag"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if numbers or not all(map(_is_date, texts)):
            problems.note(every, what, "compare it with a date in quotes, such as '2024-01-31'")
            return None
        return "time"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if not all(map(_is_number, texts)):
            problems.note(every, f"{what}, and compared with text", "compare it with numbers, without quotes")
            return None
        return "number"
    if pa.types.is_null(kind):
        return "text" if texts else "number"
    if numbers and texts:
        problems.note(every, f"{what}, compared with numbers and with text", IN_ONE_WAY)
        return None
    if numbers:
        bad = note_type(source.read(name), name, "a number", "compare it with text in quotes", problems, source.decimal)
        return None if bad else "number"
    if any(one.orders(name) for one in conditions):
        problems.note(every, f"{what}, and compared by < or >", "compare text by ==, != or in")
        return None
    return "text"


def _is_date(text: str) -> bool:
    try:
        return day_of(text) is not None
    except InputError:
        return False


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _values(source: TableSource, name: str, kind: str, problems: RowProblems) -> Values | None:
    """A column as a condition asks about it."""
    import pyarrow as pa

    column = source.read(name)
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if kind == "time":
        if not (pa.types.is_date(plain) or pa.types.is_timestamp(plain) or pa.types.is_null(plain)):
            what = f"column {quoted(name)} is {kind_in_words(plain)}, not a date or time,"
            problems.note(np.ones(len(column), np.bool_), what, "give it as in the log that was learned from")
            return None
        return Days(days_of(column.cast(pa.timestamp("us")) if pa.types.is_null(plain) else column))
    if kind == "number":
        if note_type(column, name, "a number", "give it as in the log that was learned from", problems, source.decimal):
            return None
        return np.concatenate([np.zeros(0), *(numbers_of(chunk) for chunk in column.chunks)]).astype(np.float64)
    codes, names = categories_of(column)
    if kind == "text":
        return Texts(codes, tuple(names))
    spelled = [text.strip().lower() for text in names]
    yes, known = (np.array([text in some for text in spelled] + [False], np.bool_)[codes] for some in (YES, YES | NO))
    return Flags(yes, known)


def _never_there(condition: Condition, values: Any) -> list[str]:
    """Texts that a column is compared with and never has: more often a slip than a rare case."""
    return [
        f"no row of the log has {quoted(text)} in column {quoted(name)}, as forbid= asks: check how it is written"
        for name, texts in condition.texts.items()
        for text in dict.fromkeys(texts)
        if isinstance(values[name], Texts) and text not in values[name].names
    ]


def _closed(column: "pa.ChunkedArray", limits: Limits) -> tuple[Float32Array, int]:
    """For each row and action 1 where it is not among those that are open, ½ where the cell is missing.

    Also how many names are none of an action.
    """
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType) or pa.types.is_dictionary(column.type):
        column = pa.chunked_array([column.combine_chunks().dictionary_decode()])
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    cells: dict[Any, int] = {}
    codes = np.zeros(len(column), np.int64)
    for row, cell in enumerate(column.to_pylist()):
        key = tuple(map(_name, cell)) if lists and cell is not None else None if lists or cell is None else _name(cell)
        codes[row] = cells.setdefault(key, len(cells))
    levels, strangers = np.zeros((max(len(cells), 1), len(limits.limited)), np.float32), set()
    for cell, code in cells.items():
        names = cell if isinstance(cell, tuple) else _names_in(cell, limits.actions)
        strangers |= {*(names or ())} - {*limits.actions}
        open_here: BoolArray = np.array([name in (names or ()) for name in limits.limited], np.bool_)
        levels[code] = UNKNOWN if names is None else np.where(open_here, 0.0, FORBIDDEN)
    return levels[codes], len(strangers)


def _name(value: Any) -> str:
    """The name of an action as text, however a cell holds it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _names_in(cell: str | None, actions: Sequence[str]) -> tuple[str, ...] | None:
    """The actions that a cell names, with semicolons or commas between them; None where it is blank.

    >>> _names_in("wait; treat", ("wait", "treat")), _names_in("wait,treat", ("wait", "treat")), _names_in(" ", ())
    (('wait', 'treat'), ('wait', 'treat'), None)
    >>> _names_in("salt, sugar", ("salt, sugar", "salt"))
    ('salt, sugar',)
    """
    if cell is None or not cell.strip() or cell == "nan":
        return None
    whole = cell.strip()
    if whole in actions:
        return (whole,)
    return tuple(part.strip() for part in whole.split(";" if ";" in whole else ",") if part.strip())
