"""Independent units in the order in which they end, and the stretches of them that drift is looked for in."""

import numpy as np

from poela.core.arrays import FloatArray, IntArray

STRETCH = 100  # units: drift is looked for since the first unit, and since each multiple of this


def by_last(units: IntArray) -> IntArray:
    """Units numbered by where their last episode stands.

    >>> by_last(np.array([0, 1, 0, 2])).tolist()
    [1, 0, 1, 2]
    """
    last = np.zeros(int(units.max()) + 1, np.int64)
    last[units] = np.arange(len(units))  # the last one stays
    return np.asarray(np.argsort(np.argsort(last)))[units]


def unit_means(values: FloatArray, units: IntArray) -> FloatArray:
    """The mean of each unit's episodes [U, C], in the order in which units end.

    >>> unit_means(np.array([[1.0], [5.0], [3.0]]), np.array([0, 1, 0])).tolist()
    [[5.0], [2.0]]
    """
    place = by_last(units)
    sums = [np.bincount(place, column) for column in values.T]
    whole = np.stack(sums, axis=1) if sums else np.zeros((int(place.max()) + 1, 0))
    return np.asarray(whole / np.bincount(place)[:, None], np.float64)


def share_of_stretch(number: int) -> float:
    """The share of the error of a check for what begins with this stretch: half for all units, and half for the rest.

    >>> [round(share_of_stretch(number), 3) for number in range(4)], sum(map(share_of_stretch, range(10_000))) < 1
    ([0.5, 0.25, 0.083, 0.042], True)
    """
    return 0.5 if number == 0 else 0.5 / (number * (number + 1))


def seen_at(units: int, fewest: int, points: int = 20) -> IntArray:
    """After how many units a check is drawn over time; the last one is now."""
    return np.unique(np.linspace(min(fewest, units), units, points).astype(np.int64))
