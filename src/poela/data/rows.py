"""Problems that are met row by row, each reported once: where, how often, and where first."""

from poela.core.arrays import BoolArray, first_bad
from poela.data.words import counted


class RowProblems:
    """Counts bad rows of a file as its batches pass by.

    >>> import numpy as np
    >>> found = RowProblems()
    >>> found.note(np.array([False, True]), "column 'age' is null", "fill it in", start=10)
    >>> found.sentences()
    ["column 'age' is null in 1 row, first row 12: fill it in"]
    """

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], tuple[int, int]] = {}
        self.before = 0  # rows of parts of the file that have been read already

    def note(self, bad: BoolArray, what: str, remedy: str, start: int = 0) -> None:
        """Add the bad rows of a batch that begins after `start` rows of the file."""
        if bad.any():
            count, first = first_bad(bad)
            before, first_row = self._problems.get((what, remedy), (0, self.before + start + first + 1))
            self._problems[what, remedy] = (before + count, first_row)

    def __bool__(self) -> bool:
        return bool(self._problems)

    def sentences(self) -> list[str]:
        """One sentence for each problem, with the count and the first row (rows count from 1)."""
        return [
            f"{what} in {counted(count, 'row')}, first row {first}: {remedy}"
            for (what, remedy), (count, first) in self._problems.items()
        ]
