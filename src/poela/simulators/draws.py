"""Draws from the rows of a matrix of probabilities."""

import numpy as np

from poela.core.arrays import FloatArray, IntArray

TOLERANCE = 1e-9


class RowDraws:
    """Draws a column for each of the given rows of a matrix of probabilities, by one uniform number each.

    What a row lacks to 1 is the chance of the extra column at the end.

    >>> draws = RowDraws(np.array([[0.25, 0.25], [0.0, 1.0]]))
    >>> draws(np.array([0, 0, 0, 1]), np.array([0.1, 0.3, 0.9, 0.5]))
    array([0, 1, 2, 1])
    """

    def __init__(self, probabilities: FloatArray) -> None:
        lacking = 1 - probabilities.sum(axis=1, keepdims=True)
        lacking[lacking < TOLERANCE] = 0
        full = np.hstack([probabilities, lacking])
        rows, self._columns = np.nonzero(full)
        # Row r owns the stretch (r, r + 1] of one sorted array, so one search serves draws from any rows.
        self._ends = np.cumsum(np.bincount(rows, minlength=len(full)))
        within = np.cumsum(full, axis=1) / full.sum(axis=1, keepdims=True)
        self._bounds = rows + within[rows, self._columns]

    def __call__(self, rows: IntArray, uniform: FloatArray) -> IntArray:
        """[n] columns."""
        drawn = np.searchsorted(self._bounds, rows + uniform, side="right")
        # Adding the row to the uniform number may round it up into the next row.
        return np.asarray(self._columns[np.minimum(drawn, self._ends[rows] - 1)], np.int64)
