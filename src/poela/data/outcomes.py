"""Receipts and what came of them, joined by case (and step, where outcomes name it) into the table of a log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.draws import text_of
from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.beside import Beside
from poela.data.decided import ACTION, DEFER, POLICY
from poela.data.layout import EPISODE, PREFIX, STEP, LogLayout
from poela.data.numbers import note_type
from poela.data.opening import open_source
from poela.data.receipts import TIME, ReceiptKeys, read_receipts
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """Receipts with outcomes: a table in the order in which cases ended, how it is read, and what was left out."""

    table: "pa.Table"
    layout: LogLayout
    notes: tuple[str, ...]
    unfinished: int
    ended: str  # the column that says when a case ended


def joined_receipts(receipts: Any, beside: Beside, layout: LogLayout) -> Joined:
    """The finished cases among the receipts; what has no outcome, or was left to people, is counted in the notes.

    Where no column of outcomes says when a case ended, the last decision does.
    """
    import pyarrow as pa

    read = read_receipts(receipts)
    keys = read.keys
    table, repeated = _without_repeats(read.table, keys)
    ended = beside.ended
    found = _Outcomes.read(beside.outcomes, keys, layout, beside.done, ended)
    cases = list(map(text_of, table[keys.case].to_pylist()))
    rows = [found.row_of(key) for key in _keys_of(table, keys, found.by_step)]
    last = _last_rows(table, keys, cases)
    finished = _finished(cases, rows, last, found)
    deferred = {case for case, left in zip(cases, table[DEFER].to_pylist(), strict=True) if left}
    notes = [*read.notes, *repeated, *([] if beside.shared else found.notes(set(cases)))]
    unfinished = len(set(cases) - finished)
    if unfinished:
        notes.append(f"{unfinished:,} of {len(set(cases)):,} cases have no outcome yet: unfinished, left out")
    if left := len(deferred & finished):
        notes.append(f"{left:,} cases were left to those who decide (deferred), at no known probability: left out")
        rows_of = Counter(cases)
        if later := sum(rows_of[case] > 1 for case in deferred & finished):
            notes.append(
                f"{later:,} of them had several steps, and what was done before may have led there: what is left may "
                "look better or worse than all cases"
            )
    taken = np.array([row for row, case in enumerate(cases) if case in finished - deferred], np.int64)
    if not len(taken):
        where = place(Path(receipts))
        raise InputError(f"no case of the receipts in {where} has an outcome yet: wait, or check the column of cases")
    by_row = [rows[row] if found.by_step or row in last else None for row in taken]
    ends = _ends(table, found, rows, cases, ended)
    taken_ends = [ends[cases[row]] for row in taken]
    order = np.array(sorted(range(len(taken)), key=lambda place: taken_ends[place]), np.int64)
    whole = _beside(table.take(taken), keys, found, by_row).take(order)
    when = pa.array([taken_ends[place] for place in order])
    whole = whole.drop_columns([ended]) if ended in whole.column_names else whole
    return Joined(whole.append_column(TIME, when), _layout(layout, keys), tuple(notes), unfinished, TIME)


@dataclass(frozen=True, eq=False)
class _Outcomes:
    columns: "dict[str, pa.ChunkedArray]"  # rewards, and whatever else goes into the log
    paid: tuple[str, ...]
    rows: dict[Key, int]
    by_step: bool

    @classmethod
    def read(
        cls, source: Any, keys: ReceiptKeys, layout: LogLayout, done: str | None, ended: str | None
    ) -> "_Outcomes":
        opened = open_source(source, layout, (keys.case, *(() if done is None else (done,))))
        there = set(opened.names)
        paid = layout.reward_columns(opened.names)
        more = tuple(name for name in (done, ended, *layout.outcome_columns(opened.names)) if name is not None)
        missing = [name for name in (keys.case, *paid, *more) if name not in there]
        if missing:
            raise InputError(f"the outcomes have no column {quoted(missing)}: each row names its case and its outcome")
        if missing := [name for name in more if name in keys.context]:
            raise InputError(f"column {quoted(missing)} of the outcomes is called as one of the context: rename it")
        if ended is not None:
            _refuse_as_end(opened, ended, paid)
        by_step = keys.step is not None and keys.step in there
        names = (keys.case, keys.step) if by_step else (keys.case,)
        key_rows = list(zip(*(map(text_of, opened.read(str(name)).to_pylist()) for name in names), strict=True))
        twice = sum(count > 1 for count in Counter(key_rows).values())
        if twice:
            raise InputError(f"{twice:,} cases have several rows among the outcomes: give one outcome for each")
        beside = [name for name in (*paid, *more, layout.cluster) if name is not None and name in there]
        columns = {name: opened.read(name) for name in dict.fromkeys(beside)}
        known = np.ones(opened.n_rows, bool)
        for name in paid:
            known &= ~columns[name].is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        rows = {key: row for row, key in enumerate(key_rows) if known[row]}
        return cls(columns, paid, rows, by_step)

    def row_of(self, key: Key) -> int | None:
        return self.rows.get(key)

    def notes(self, cases: set[str]) -> list[str]:
        unknown = len({key[0] for key in self.rows} - cases)
        return [f"{unknown:,} outcomes belong to no receipt: not used"] if unknown else []


def _refuse_as_end(source: TableSource, ended: str, paid: Sequence[str]) -> None:
    """Refuse a column of ends that is a reward, or has no order."""
    if ended in paid:
        raise InputError(
            f"column {quoted(ended)} is the reward: name another with ended=, which says when a case ended"
        )
    import pyarrow as pa

    column, problems = source.read(ended), RowProblems()
    if pa.types.is_temporal(column.type):
        return
    if note_type(column, ended, "a number or time", "give times or dates", problems, source.decimal):
        raise InputError(problems.sentences())


def _keys_of(table: "pa.Table", keys: ReceiptKeys, by_step: bool) -> list[Key]:
    names = (keys.case, str(keys.step)) if by_step else (keys.case,)
    return list(zip(*(map(text_of, table[name].to_pylist()) for name in names), strict=True))


def _without_repeats(table: "pa.Table", keys: ReceiptKeys) -> tuple["pa.Table", list[str]]:
    """Each decision once; a case that was asked about again must have had the same answer."""
    names = [ACTION, POLICY, DEFER]
    first: dict[Key, tuple[Any, ...]] = {}
    kept, conflicts = [], set()
    answers = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    for row, key in enumerate(_keys_of(table, keys, keys.step is not None and keys.step in table.column_names)):
        if key not in first:
            first[key] = answers[row]
            kept.append(row)
        elif first[key] != answers[row]:
            conflicts.add(key)
    if conflicts:
        raise InputError(
            f"{len(conflicts):,} cases were decided several times with different answers, so what was acted on is not "
            "known: give each decision a case, or a step, of its own"
        )
    repeated = table.num_rows - len(kept)
    note = [f"{repeated:,} receipts repeat an earlier one: counted once"] if repeated else []
    return (table.take(kept), note) if repeated else (table, [])


def _last_rows(table: "pa.Table", keys: ReceiptKeys, cases: Sequence[str]) -> set[int]:
    """The row of each case's last step."""
    steps = table[keys.step].to_pylist() if keys.step in table.column_names else list(range(table.num_rows))
    last: dict[str, int] = {}
    for row, case in enumerate(cases):
        if case not in last or steps[row] >= steps[last[case]]:
            last[case] = row
    return set(last.values())


def _finished(cases: Sequence[str], rows: Sequence[int | None], last: set[int], found: _Outcomes) -> set[str]:
    """Cases whose outcome is known: of every step, or of the case as a whole."""
    open_ = {case for row, case in enumerate(cases) if rows[row] is None and (found.by_step or row in last)}
    return set(cases) - open_


def _ends(
    table: "pa.Table", found: _Outcomes, rows: Sequence[int | None], cases: Sequence[str], ended: str | None
) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    times = table[TIME].to_pylist()
    said = None if ended is None else found.columns[ended].to_pylist()
    for row, case in enumerate(cases):
        place = rows[row]
        when = times[row] if said is None else (None if place is None else said[place])
        if when is not None and (case not in ends or when > ends[case]):
            ends[case] = when
    if said is not None and (gaps := {case for row, case in enumerate(cases) if rows[row] is not None} - set(ends)):
        raise InputError(f"column {quoted(str(ended))} is missing for {len(gaps):,} cases with an outcome: fill it in")
    return ends


def _beside(table: "pa.Table", keys: ReceiptKeys, found: _Outcomes, rows: Sequence[int | None]) -> "pa.Table":
    import pyarrow as pa

    kept = (keys.case, keys.step, *keys.context, ACTION, DEFER, POLICY)
    names = [name for name in table.column_names if name in kept or name.startswith(PREFIX)]
    columns = {name: table[name] for name in names}
    for name, column in found.columns.items():
        columns[name] = column.take(pa.array(rows, pa.int64()))
    return pa.table(columns, metadata=table.schema.metadata)


def _layout(layout: LogLayout, keys: ReceiptKeys) -> LogLayout:
    """The layout, with episode and step as the receipts name them, and their columns of the context."""
    changed: dict[str, Any] = {}
    if layout.episode == EPISODE != keys.case and layout.schema is None:
        one_step = keys.step is None
        changed = {"episode": None, "step": None} if one_step else {"episode": keys.case, "step": keys.step or STEP}
    if layout.context is None:
        changed["context"] = keys.context
    return replace(layout, **changed) if changed else layout
