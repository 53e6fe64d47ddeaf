"""Columns of numbers, read batch by batch into flat arrays that are checked on the way."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.interruption import safe_point
from poela.data.checks import ROW_SUM_TOLERANCE
from poela.data.layout import LogLayout
from poela.data.losses import Described, flags_in, loss_in_words, missing_at_the_end, paid_rewards
from poela.data.rewards import columns_paid_in, harm_note
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import counted, kind_in_words, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.order import Order

NUMBER = r"^\s*[+-]?([0-9]+{0}?[0-9]*|{0}[0-9]+)([eE][+-]?[0-9]+)?\s*$"  # {0}: what stands before decimals
DECIMALS = range(2, 8)  # propensities that are rounded to so many may miss a sum of 1 by that much
NOT_TOLD_APART = "that single precision cannot tell apart"
MERGED_SHARE = 0.01  # so many of a feature's different numbers may become the same in single precision


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of a log, its rows in their final order."""

    contexts: Float32Array  # NaN where there is a gap that is not refused
    rewards: FloatArray
    propensities: FloatArray | None
    notes: tuple[str, ...] = ()
    lost: BoolArray | None = None  # episodes whose outcome was not seen
    described: Described | None = None  # says who is without an outcome


@np.errstate(over="ignore", invalid="ignore")  # what is not finite, or not in single precision, is noted
def read_numbers(
    source: TableSource,
    layout: LogLayout,
    context: Sequence[str],
    strict: Set[str],
    codes: IntArray | None,
    order: "Order | None",
    problems: RowProblems,
) -> Numbers:
    """Read contexts, rewards and propensities in one pass, each row to its position; `strict` columns have no gaps.

    Columns that are missing or of a wrong type are noted and left out, so that the others are still checked.
    """
    paid_in = layout.reward_columns(source.names)
    reward = _usable(source, paid_in, "give the rewards as numbers", problems)
    propensity = _usable(source, layout.propensity_columns(), "give the probabilities as numbers", problems)
    complete = len(propensity) == len(layout.propensity_columns()) > 0 and codes is not None
    contexts = np.empty((source.n_rows, len(context)), np.float32)
    paid = np.zeros((source.n_rows, len(reward)))
    propensities, rounded = np.empty((source.n_rows, len(propensity))), 0
    columns = list(dict.fromkeys([*context, *reward, *propensity]))
    for batch, start, target in _placed(source, columns, order):
        _read_block(batch, context, contexts, target, start, problems, strict)
        _read_block(batch, reward, paid, target, start, problems, ())
        probabilities = _fill(np.empty((len(batch), len(propensity))), batch, propensity, start, problems, propensity)
        if complete and codes is not None:
            own = codes[start : start + len(batch)]
            rounded += _check_propensities(probabilities, own, layout, start, problems)
        propensities[target] = probabilities
    rewards, notes, lost = paid.ravel(), list[str](), _flagged(source, layout, order, problems)
    described = None if order is None else _described(codes, order, contexts, context)
    if len(reward) == len(paid_in):
        if order is not None and layout.loses_missing:
            lost = _or_missing(paid, order, lost)
        rewards, notes = paid_rewards(paid, paid_in, layout.reward, order, problems, lost, described)
        notes += [harm] if (harm := harm_note(layout.reward)) else []
    if not complete:
        return Numbers(contexts, rewards, None, tuple(notes), lost, described)
    known = propensities.ravel() if isinstance(layout.propensity, str) else propensities
    if rounded:
        what = f"columns {quoted(propensity)} are rounded and miss a sum of 1 in {counted(rounded, 'row')}"
        notes.append(f"{what}: each was divided by its sum")
    return Numbers(contexts, rewards, known, tuple(notes), lost, described)


def _described(codes: IntArray | None, order: "Order", contexts: Float32Array, context: Sequence[str]) -> Described:
    """What says of whom the outcome is missing: after which action, and how they differ."""
    last = order.offsets[1:] - 1
    taken = None if codes is None else order.place(codes)[last]
    return lambda gone: loss_in_words(gone, taken, contexts[last], context)


def _or_missing(paid: FloatArray, order: "Order", lost: BoolArray | None) -> BoolArray:
    """Which episodes [n] were lost already, or have no value in their last row of one of these columns [N, k]."""
    missing = [missing_at_the_end(values, order.offsets) for values in paid.T]
    return np.asarray(np.any([*missing, *([] if lost is None else [lost])], axis=0))


def _flagged(source: TableSource, layout: LogLayout, order: "Order | None", problems: RowProblems) -> BoolArray | None:
    """Which episodes a column says to have broken off; None where there is none, or it cannot be read."""
    if layout.censored is None or layout.censored not in source.names or order is None:
        return None
    name = quoted(layout.censored)
    flags = flags_in(source.read(layout.censored))
    if flags is None:
        every = np.ones(source.n_rows, bool)
        problems.note(every, f"column {name} of censored= is not yes or no", "write 1 where a record broke off, else 0")
        return None
    placed = order.place(flags)
    lost = np.asarray(placed[order.offsets[1:] - 1])
    early = placed & ~np.repeat(lost, np.diff(order.offsets))
    remedy = "write it in the last row of each record that broke off, or in all its rows"
    problems.note(order.in_file(early), f"column {name} says that a record broke off which goes on", remedy)
    return lost


@np.errstate(over="ignore", invalid="ignore")
def read_contexts(
    source: TableSource, names: Sequence[str], strict: Set[str], order: "Order", problems: RowProblems
) -> Float32Array:
    """Columns of numbers alone, each row to its position."""
    contexts = np.empty((source.n_rows, len(names)), np.float32)
    for batch, start, target in _placed(source, names, order):
        _read_block(batch, names, contexts, target, start, problems, strict)
    return contexts


@np.errstate(over="ignore", invalid="ignore")
def read_doubles(
    source: TableSource, names: Sequence[str], order: "Order | None", problems: RowProblems
) -> FloatArray | None:
    """Columns of numbers without gaps in double precision, each row to its position; None where one is no number."""
    usable = _usable(source, names, "give it as a number", problems)
    if len(usable) < len(names):
        return None
    rows = np.empty((source.n_rows, len(names)))
    for batch, start, target in _placed(source, list(dict.fromkeys(names)), order):
        _read_block(batch, names, rows, target, start, problems, names)
    return rows


@np.errstate(over="ignore", invalid="ignore")
def read_propensities(source: TableSource, layout: LogLayout, order: "Order", problems: RowProblems) -> FloatArray:
    """Those of every action [N, A] in rows whose action is still to be chosen, each row to its position."""
    names = layout.propensity_columns()
    usable = _usable(source, names, "give the probabilities as numbers", problems)
    propensities = np.zeros((source.n_rows, len(names)))
    for batch, start, target in _placed(source, names, order) if len(usable) == len(names) else ():
        probabilities = _fill(np.empty((len(batch), len(names))), batch, names, start, problems, names)
        _check_propensities(probabilities, np.full(len(batch), -1), layout, start, problems)
        propensities[target] = probabilities
    return propensities


def _placed(
    source: TableSource, columns: Sequence[str], order: "Order | None"
) -> "Iterator[tuple[pa.RecordBatch, int, slice | IntArray]]":
    """Batches of some columns, each with its first row in the table and the rows of the log where it belongs."""
    start = 0
    for batch in source.batches(columns) if columns else ():
        safe_point()
        rows = slice(start, start + len(batch))
        yield batch, start, rows if order is None or order.positions is None else order.positions[rows]
        start += len(batch)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes [N, J] beside the reward (None: there are none), which episodes were lost then, and notes."""

    values: FloatArray | None
    lost: BoolArray | None
    notes: tuple[str, ...] = ()


@np.errstate(over="ignore", invalid="ignore")
def read_outcomes(
    source: TableSource, layout: LogLayout, order: "Order | None", problems: RowProblems, numbers: Numbers
) -> Outcomes:
    """The outcomes beside the reward, read as rewards are.

    Of episodes that were lost they do not matter. Where missing outcomes are losses, an episode that has a reward
    without one of them is lost too: the chance of being seen is then that of having all outcomes.
    """
    lost = numbers.lost
    if not layout.side_outcomes:
        return Outcomes(None, lost)
    outcomes, notes = np.zeros((source.n_rows, len(layout.side_outcomes))), list[str]()
    for place, text in enumerate(layout.side_outcomes):
        names = columns_paid_in(text, source.names)
        if len(_usable(source, names, "give the outcome as a number", problems)) < len(names):
            continue
        paid = np.zeros((source.n_rows, len(names)))
        for batch, start, target in _placed(source, list(dict.fromkeys(names)), order):
            _read_block(batch, names, paid, target, start, problems, ())
        if order is not None and layout.loses_missing:
            now = _or_missing(paid, order, lost)
            more = int((now if lost is None else now & ~lost).sum())
            lost = now
            if more:
                missing = f"{counted(more, 'more episode')} {'has' if more == 1 else 'have'} no {quoted(names)}"
                notes.append(f"{missing} in the last row: counted as lost, since all outcomes are judged together")
        outcomes[:, place], noted = paid_rewards(paid, names, text, order, problems, lost, numbers.described)
        notes += noted
    return Outcomes(outcomes, lost, tuple(notes))


def _read_block(
    batch: "pa.RecordBatch",
    names: Sequence[str],
    result: NDArray[Any],
    target: slice | IntArray,
    start: int,
    problems: RowProblems,
    strict: Container[str],
) -> None:
    """Some columns of a batch to these rows of a result, after noting what is not finite."""
    if isinstance(target, slice):
        _fill(result[target], batch, names, start, problems, strict)
    else:
        result[target] = _fill(np.empty((len(batch), len(names)), result.dtype), batch, names, start, problems, strict)


def _fill(
    block: NDArray[Any],
    batch: "pa.RecordBatch",
    names: Sequence[str],
    start: int,
    problems: RowProblems,
    strict: Container[str],
) -> NDArray[Any]:
    """A matrix with some columns of a batch, after noting what is not finite (in columns not `strict`: infinite)."""
    for column, name in enumerate(names):
        block[:, column] = numbers_of(batch.column(name))
    finite = np.isfinite(block)
    if finite.all():
        return block
    for column, name in enumerate(names):
        doubles = np.asarray(numbers_of(batch.column(name)), np.float64)
        large = ~finite[:, column] & np.isfinite(doubles)
        problems.note(
            large, f"column {quoted(name)} is too large for single precision (3.4e38)", "scale it down", start
        )
        if name in strict:
            what, bad = "null, NaN or infinite", ~finite[:, column] & ~large
        else:
            what, bad = "infinite", np.isinf(doubles) & (block.dtype == np.float32)
        problems.note(bad, f"column {quoted(name)} is {what}", "fill it in, or drop those episodes", start)
    return block


def _check_propensities(
    probabilities: FloatArray, codes: IntArray, layout: LogLayout, start: int, problems: RowProblems
) -> int:
    """Note what cannot be right; rows that only rounding keeps from a sum of 1 are divided by it, and counted."""
    columns = layout.propensity_columns()
    single = isinstance(layout.propensity, str)
    for column, name in enumerate(columns):
        outside = (probabilities[:, column] < 0) | (probabilities[:, column] > 1)
        if single:
            outside |= probabilities[:, column] == 0
        interval = "(0, 1]" if single else "[0, 1]"
        problems.note(
            outside & np.isfinite(probabilities[:, column]),
            f"column {quoted(name)} lies outside {interval}",
            "correct it, or leave propensities out and estimate them",
            start,
        )
    if single:
        return 0
    known = (codes >= 0) & (codes < len(columns))
    logged = probabilities[np.arange(len(codes)), np.where(known, codes, 0)]
    problems.note(
        known & (logged == 0),
        f"columns {quoted(columns)} give the logged action the probability 0",
        "correct them, or leave propensities out and estimate them",
        start,
    )
    sums = probabilities.sum(axis=1)
    uneven = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    rounded = uneven & (np.abs(sums - 1) <= _lost_by_rounding(probabilities))
    probabilities[rounded] /= sums[rounded, None]
    problems.note(
        uneven & ~rounded & np.isfinite(probabilities).all(axis=1),
        f"columns {quoted(columns)} do not sum to 1",
        "correct them, or divide each row by its sum",
        start,
    )
    return int(rounded.sum())


def _lost_by_rounding(probabilities: FloatArray) -> float:
    """By how much rows [N, A] may miss a sum of 1 where all numbers are rounded to as many decimals; 0: they are not.

    >>> bool(np.isclose(_lost_by_rounding(np.array([[0.33, 0.33, 0.33]])), 0.015))
    True
    """
    for decimals in DECIMALS:
        scaled = probabilities * 10.0**decimals
        if (np.abs(scaled - np.rint(scaled)) < 1e-6).all():
            return float(probabilities.shape[1] * 0.5 * 10.0**-decimals * (1 + 1e-6))
    return 0.0


def numbers_of(column: Any) -> NDArray[Any]:
    """An Arrow array or column of numbers as NumPy's, NaN where it is null."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(**({} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False})))


def merges_in_single(values: NDArray[Any]) -> bool:
    """Whether single precision, in which contexts are held, makes many different numbers the same.

    >>> merges_in_single(np.array([16_777_216, 16_777_217])), merges_in_single(np.array([1.7e9, 1.8e9]))
    (True, False)
    """
    different = len(np.unique(values))
    return different - len(np.unique(values.astype(np.float32))) > MERGED_SHARE * different


def note_type(
    column: "pa.ChunkedArray", name: str, wanted: str, remedy: str, problems: RowProblems, decimal: str = ""
) -> bool:
    """Note a column that does not hold numbers, and say whether it is so; `decimal` is that of a CSV file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    if any(is_kind(kind) for is_kind in numeric):
        return False
    bad = np.ones(len(column), bool)
    what = f"column {quoted(name)} is {kind_in_words(kind)}, not {wanted},"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        text = column.cast(pa.large_string())
        problems.note(text.is_null().to_numpy(), f"column {quoted(name)} is null", "fill it in, or drop those episodes")
        # A single slip of the pen makes a whole CSV column text: point to it.
        is_number = pc.match_substring_regex(text, NUMBER.format(re.escape(decimal or "."))).fill_null(True)
        odd = pc.invert(is_number).to_numpy()
        bad = odd if odd.any() else bad
        other = "," if decimal == "." else "."
        if decimal and odd.any() and pc.all(pc.match_substring_regex(text, NUMBER.format(re.escape(other)))).as_py():
            remedy = f"its decimals follow a {other!r}, so say decimal={other!r} (--decimal {other})"
        what = f"column {quoted(name)} is text, not {wanted},"
    problems.note(bad, what, remedy)
    return True


def _usable(source: TableSource, names: Iterable[str], remedy: str, problems: RowProblems) -> list[str]:
    import pyarrow as pa

    usable = []
    there = set(source.names)
    for name in names:
        if name in there:
            kind = source.schema.field(name).type
            plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if plain or not note_type(source.read(name), name, "a number", remedy, problems, source.decimal):
                usable.append(name)
    return usable
