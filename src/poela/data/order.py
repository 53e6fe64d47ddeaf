"""The order of rows that episodes and steps give."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, IntArray, T
from poela.data.labels import Labels
from poela.data.layout import STEP, LogLayout
from poela.data.numbers import note_type, numbers_of
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

SLACK = 1e-6  # of the distance between steps: 0.1 is no number of a computer's


def in_table(layout: LogLayout, source: TableSource) -> LogLayout:
    """The layout as a table has it: its episodes and steps, if any.

    Where no step is named and no episode has a second row, every episode is a single decision.
    """
    layout = layout.for_table(source.names)
    unnamed = layout.episode is not None and layout.episode in source.names and layout.step == STEP
    if not unnamed or STEP in source.names or not _all_differ(source.read(str(layout.episode))):
        return layout
    return replace(layout, step=None)


def _all_differ(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return bool(column.null_count == 0 and pc.count_distinct(column).as_py() == len(column))
    except pa.ArrowNotImplementedError:  # lists, say, which are refused as ids
        return False


@dataclass(frozen=True, eq=False)
class Order:
    """Where each row of the file goes (None: it stays where it is), and where episodes begin."""

    positions: IntArray | None
    offsets: IntArray
    steps: NDArray[Any] | None = None  # in order, where a column numbers them

    @property
    def pace(self) -> tuple[float, float] | None:
        """The first step and the distance to the next, where these are the same in all episodes.

        >>> Order(None, np.array([0, 3, 5]), np.array([0, 4, 8, 0, 4])).pace
        (0.0, 4.0)
        """
        lengths = np.diff(self.offsets)
        if self.steps is None or lengths.max(initial=0) < 2:
            return None
        longest = int(self.offsets[lengths.argmax()])
        pace = float(self.steps[longest]), float(self.steps[longest + 1] - self.steps[longest])
        return None if self.off(pace).any() else pace

    def off(self, pace: tuple[float, float] | None) -> BoolArray:
        """Which steps are not where they would be at this pace, since others are missing before them.

        >>> Order(None, np.array([0, 3, 5]), np.array([0, 1, 3, 1, 2])).off((0.0, 1.0)).tolist()
        [False, False, True, True, True]
        """
        n = int(self.offsets[-1])
        if self.steps is None or pace is None:
            return np.zeros(n, bool)
        number = np.arange(n) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return np.asarray(np.abs(self.steps - pace[0] - pace[1] * number) > SLACK * abs(pace[1]))

    def place(self, values: NDArray[T]) -> NDArray[T]:
        """Values by row of the file, put in order."""
        if self.positions is None:
            return values
        placed = np.empty_like(values)
        placed[self.positions] = values
        return placed

    def in_file(self, values: NDArray[T]) -> NDArray[T]:
        """Values in order, by row of the file."""
        return values if self.positions is None else values[self.positions]


def order_of(episodes: Labels, steps: NDArray[Any], layout: LogLayout, problems: RowProblems) -> Order:
    """Order rows by episode, then step, after noting pairs that occur twice."""
    codes = episodes.codes
    counts = np.bincount(codes[codes >= 0], minlength=len(episodes.values))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if _increases(codes, steps):
        return Order(None, offsets)
    order = np.lexsort((steps, codes))
    _note_repeats(codes[order], steps[order], order, layout, problems)
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return Order(positions, offsets)


def _increases(codes: IntArray, steps: NDArray[Any]) -> bool:
    further = steps[1:] > steps[:-1]
    return bool(((codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & further)).all())


def _note_repeats(
    codes: IntArray, steps: NDArray[Any], rows: IntArray, layout: LogLayout, problems: RowProblems
) -> None:
    """Sorting is stable, so of two equal pairs the second is the later row of the file."""
    same = (codes[1:] == codes[:-1]) & (steps[1:] == steps[:-1]) & (codes[1:] >= 0)
    repeats = np.zeros(len(rows), bool)
    repeats[rows[1:][same]] = True
    what = f"columns {quoted(str(layout.episode))} and {quoted(str(layout.step))} repeat an earlier pair"
    problems.note(repeats, what, "keep one row for each decision")


def sortable_steps(
    column: "pa.ChunkedArray", name: str, problems: RowProblems, decimal: str = ""
) -> NDArray[Any] | None:
    """Steps as numbers that sort alike, none if some are missing.

    Times are fine, but text is not: '10' would come before '9'.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    elif note_type(column, name, "a number or time", "number the decisions of each episode", problems, decimal):
        return None
    if pa.types.is_integer(column.type):
        missing = column.is_null().to_numpy()
        steps: NDArray[Any] = numbers_of(column)
    else:
        steps = numbers_of(column)
        missing = ~np.isfinite(steps)
    problems.note(missing, f"column {quoted(name)} is null, NaN or infinite", "number the decisions of each episode")
    return None if missing.any() else steps
