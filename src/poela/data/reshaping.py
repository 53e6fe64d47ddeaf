"""Tables in other shapes: one row for each case with columns by visit, and rows after the end of an episode."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.encoding import days_of
from poela.data.header import spelling
from poela.data.labels import encode
from poela.data.layout import EPISODE, STEP, LogLayout
from poela.data.losses import flags_in, loss_in_words
from poela.data.opening import open_source
from poela.data.order import Order, sortable_steps
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    import pyarrow as pa

CUT_OFF = "cut off before the horizon"  # the column that says so
ENDS = ("died", "death", "dead", "ended", "discharged", "done", "terminal", "terminated")
PLACE = re.compile(r"\{(\w+)\}")


def put_right(source: Any, layout: LogLayout) -> tuple[Any, LogLayout, tuple[str, ...]]:
    """A log in the shape of one row for each decision where the layout says how, its layout then, and what was done."""
    if not layout.wide and layout.end is None and layout.horizon is None:
        return source, layout, ()
    import pyarrow as pa

    opened = open_source(source, layout, layout.label_columns)
    table, notes = pa.table({name: opened.read(name) for name in opened.names}), opened.notes
    if layout.wide:
        table, layout, note = _long(table, layout)
        notes = (*notes, note)
    table, layout, cut = _until_the_end(table, layout, opened.decimal)
    return table, layout, (*notes, *cut)


def _long(table: "pa.Table", layout: LogLayout) -> tuple["pa.Table", LogLayout, str]:
    """One row for each case and visit at which something was done."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = {match[1] for pattern in layout.wide if (match := PLACE.search(pattern))}
    if len(places) != 1 or not all(len(PLACE.findall(pattern)) == 1 for pattern in layout.wide):
        raise InputError("wide= must name columns with one place for the visit in each: dose_{visit}, pressure_{visit}")
    (visit,) = places
    found = {pattern: _visits(pattern, table.column_names) for pattern in layout.wide}
    if empty := [pattern for pattern, columns in found.items() if not columns]:
        raise InputError(f"no column is called like {quoted(empty)} of wide=: check how visits are written")
    names = {pattern: stem(pattern) for pattern in layout.wide}
    visits = sorted({one for columns in found.values() for one in columns}, key=lambda one: (len(one), one))
    by_visit = {column for columns in found.values() for column in columns.values()}
    fixed = [name for name in table.column_names if name not in by_visit]
    parts = []
    for place, one in enumerate(visits):
        columns: dict[str, Any] = {name: table[name] for name in fixed}
        if layout.episode == EPISODE and EPISODE not in fixed:
            columns[EPISODE] = np.arange(table.num_rows)
        columns[visit] = np.full(table.num_rows, float(one) if one.isdigit() else place)
        for pattern, own in found.items():
            kind = table[next(iter(own.values()))].type
            columns[names[pattern]] = table[own[one]] if one in own else pa.nulls(table.num_rows, kind)
        parts.append(pa.table(columns))
    long = pa.concat_tables(parts, promote_options="permissive")
    done = [name for name in layout.action_columns if name in names.values()]
    if not done:
        raise InputError(
            f"none of the columns of wide= is the action: name it with action={next(iter(names.values()))}"
        )
    taken = [pc.is_valid(long[name]) for name in done]
    kept = taken[0]
    for other in taken[1:]:
        kept = pc.and_(kept, other)
    note = f"{counted(table.num_rows, 'row')} with {counted(len(visits), 'visit')} each became one row for each visit"
    paid = {*layout.reward_columns(long.column_names), *layout.outcome_columns(long.column_names)}
    if once := [name for name in fixed if name in paid]:
        long = _once(long, once, np.asarray(kept.to_numpy(zero_copy_only=False)).reshape(len(visits), -1))
        note += f"; {quoted(once)}, which is not by visit, counts once, at the last visit of each case"
    changed: dict[str, Any] = {"step": visit} if layout.step == STEP else {}
    return long.filter(kept), replace(layout, wide=(), **changed), note


def _once(long: "pa.Table", names: Sequence[str], kept: BoolArray) -> "pa.Table":
    """Outcomes of a whole case at its last visit [visits, cases] alone, blank before."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last = pa.array((kept & (np.cumsum(kept[::-1], axis=0)[::-1] == 1)).ravel())
    for name in names:
        blank = pa.nulls(long.num_rows, long[name].type)
        long = long.set_column(long.column_names.index(name), name, pc.if_else(last, long[name], blank))
    return long


def _visits(pattern: str, columns: Sequence[str]) -> dict[str, str]:
    """The columns of a pattern, by their visit."""
    before, after = PLACE.split(pattern)[0], PLACE.split(pattern)[-1]
    spelled = re.compile(f"{re.escape(before)}(\\w+?){re.escape(after)}")
    return {match[1]: name for name in columns if (match := spelled.fullmatch(name))}


def stem(pattern: str) -> str:
    """What a column by visit is called without it.

    >>> stem("dose_{visit}"), stem("{visit} pressure")
    ('dose', 'pressure')
    """
    return PLACE.sub("", pattern).strip(" _.-") or "value"


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table as an episode has them: whose they are, in which order, and at what time."""

    codes: IntArray
    steps: Any
    times: Any  # the step or, of dates, the days since the first row of the episode

    @classmethod
    def of(cls, table: "pa.Table", layout: LogLayout, decimal: str) -> "Rows | None":
        """None where whoever reads the log has to say what is wrong with it."""
        import pyarrow as pa

        steps: Any = np.arange(table.num_rows)
        codes = steps if layout.episode is None else encode(table[layout.episode]).codes
        days = None
        if not layout.keeps_row_order and layout.step in table.column_names:
            column = table[str(layout.step)]
            days = days_of(column) if pa.types.is_temporal(column.type) else None
            steps = sortable_steps(column, str(layout.step), RowProblems(), decimal)
        if steps is None or not len(codes) or codes.min() < 0:
            return None
        return cls(codes, steps, _time_of(codes, steps, days))

    def last(self, rows: BoolArray) -> IntArray:
        """The last of these rows in each episode."""
        order = np.lexsort((self.steps, self.codes))
        order = order[rows[order]]
        return np.asarray(order[np.append(np.diff(self.codes[order]) != 0, True)])


def _until_the_end(table: "pa.Table", layout: LogLayout, decimal: str) -> tuple["pa.Table", LogLayout, list[str]]:
    """Without the rows after the end of each episode, and after the horizon; who was cut off before is lost."""
    import pyarrow as pa

    if layout.end is None and layout.horizon is None:
        return table, layout, []
    needed = [name for name in (layout.episode, layout.end) if name is not None]
    if missing := [name for name in needed if name not in table.column_names]:
        raise InputError(f"column {quoted(missing)} is missing: rows after the end cannot be told")
    rows = Rows.of(table, layout, decimal)
    if rows is None:
        return table, layout, []
    keep, notes, ended = np.ones(table.num_rows, bool), list[str](), None
    if layout.end is not None:
        ended = flags_in(table[layout.end])
        if ended is None:
            raise InputError(f"column {quoted(layout.end)} of end= must say yes or no (1 or 0) in each row")
        after = after_the_first(rows.codes, rows.steps, ended)
        keep &= ~after
        if after.any():
            notes.append(f"{counted(int(after.sum()), 'row')} after the end of their episodes were left out")
    late = np.zeros(table.num_rows, bool) if layout.horizon is None else rows.times > layout.horizon
    keep &= ~late
    if late.any():
        notes.append(f"{counted(int(late.sum()), 'row')} after the horizon of {layout.horizon:g} were left out")
    if late.any() and layout.censored is not None and layout.censored in table.column_names:
        table = _flagged_anew(table, layout.censored, lambda flags: flags & ~np.isin(rows.codes, rows.codes[late]))
    if ended is not None and keep.any():
        table, layout, cut = _cut_off(table, layout, rows, keep, ended)
        notes += cut
    return table.filter(pa.array(keep)), layout, notes


def _cut_off(
    table: "pa.Table", layout: LogLayout, rows: Rows, keep: BoolArray, ended: BoolArray
) -> tuple["pa.Table", LogLayout, list[str]]:
    """Episodes that neither ended nor reached the horizon: lost, where missing outcomes are losses, else noted."""
    last = rows.last(keep)
    whole = np.isin(rows.codes, rows.codes[keep & ended])
    if layout.horizon is not None:
        whole |= np.isin(rows.codes, rows.codes[rows.times >= layout.horizon])
    short = ~whole[last]
    if not short.any():
        return table, layout, []
    taken, names = None, ()
    column = next(iter(layout.action_space.labels(layout.action_columns)), None)
    if column in table.column_names:
        labels = encode(table[column])
        taken, names = labels.codes[last], tuple(labels.values.to_pylist())
    before = "" if layout.horizon is None else f" before the horizon of {layout.horizon:g}"
    what = f"{{}} stop{before} without {quoted(str(layout.end))}"
    told = loss_in_words(short, taken, np.empty((len(last), 0), np.float32), (), names, what)
    if layout.horizon is None:
        known = "their last row counts as their end: say horizon= (--horizon) too, to tell who was cut off"
        return table, layout, [f"{told}; {known}"]
    if not layout.loses_missing:
        return table, layout, [f"{told}; they count as ended: say --missing censored if they were cut off"]
    name = layout.censored or CUT_OFF
    cut = np.zeros(table.num_rows, bool)
    cut[last[short]] = True
    table = _flagged_anew(table, name, lambda flags: flags | cut)
    return table, replace(layout, censored=name), [f"{told}; they count as lost"]


def _flagged_anew(table: "pa.Table", name: str, change: Callable[[BoolArray], BoolArray]) -> "pa.Table":
    """The table with another column of yes and no, or a new one; as it is where the column says something else."""
    import pyarrow as pa

    there = name in table.column_names
    flags = flags_in(table[name]) if there else np.zeros(table.num_rows, bool)
    if flags is None:
        return table
    if not there:
        return table.append_column(name, pa.array(change(flags)))
    return table.set_column(table.column_names.index(name), name, pa.array(change(flags)))


def untold_end(source: TableSource, layout: LogLayout, order: Order) -> str:
    """A note on a column that seems to say where episodes end, though rows go on after that; empty where none does."""
    for name in source.names if layout.end is None and order.offsets[-1] > len(order.offsets) - 1 else ():
        if spelling(name) not in ENDS or name == layout.censored:
            continue
        flags = flags_in(source.read(name))
        if flags is None:
            continue
        placed, episode = order.place(flags), np.repeat(np.arange(len(order.offsets) - 1), np.diff(order.offsets))
        after = after_the_first(episode, np.arange(len(placed)), placed)
        some = np.bincount(episode, placed) > 0
        if after.any() and not placed[some[episode]].all():  # else it says what became of the case, in all its rows
            rows = counted(int(after.sum()), "row")
            return f"{rows} come after the first 1 of column {quoted(name)}: if it is the end, say end= (--end {name})"
    return ""


def after_the_first(codes: IntArray, steps: Any, ended: BoolArray) -> BoolArray:
    """Which rows come after the first row of their episode at which it ended.

    >>> after_the_first(np.array([0, 0, 0]), np.array([2, 0, 1]), np.array([False, False, True])).tolist()
    [True, False, False]
    """
    order = np.lexsort((steps, codes))
    so_far: IntArray = np.cumsum(ended[order]) - ended[order]
    first = np.append(True, np.diff(codes[order]) != 0)
    at_start: IntArray = np.repeat(so_far[first], np.diff(np.append(np.flatnonzero(first), len(order))))
    after = np.empty(len(order), bool)
    after[order] = so_far > at_start
    return after


def _time_of(codes: IntArray, steps: Any, days: FloatArray | None) -> Any:
    """The step of each row or, of dates, the days since the first of its episode."""
    if days is None:
        return steps
    first = np.full(int(codes.max()) + 1, np.inf)
    np.minimum.at(first, codes, days)
    return days - first[codes]
