"""What too few cases share is not told: a count of a few, a value of one, or the difference that would tell of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, IntArray
from poela.data.groups import SMALLEST_GROUP
from poela.data.trajectories import Trajectories


def enough_cases(logs: Trajectories, inside: BoolArray, smallest: int = SMALLEST_GROUP) -> bool:
    """Whether these steps [N] are of so many cases (or clusters of them) that they tell of no single person."""
    return len(np.unique(logs.units[logs.episode_of_step[inside]])) >= smallest


@dataclass(frozen=True)
class Told:
    """A count as a page may tell it: in words, and as a number to sort and draw by."""

    words: str
    number: int


def told(counts: Sequence[int], smallest: int = SMALLEST_GROUP, few: Sequence[bool] | None = None) -> list[Told]:
    """Counts of groups without those of `few` cases; then the others are rounded, since their sum is often known.

    >>> [one.words for one in told([20, 11])], [one.words for one in told([1234, 3, 0])]
    (['20', '11'], ['about 1,230', 'under 10', '0'])
    """
    small = [0 < count < smallest for count in counts] if few is None else few
    if not any(small):
        return [Told(f"{count:,}", count) for count in counts]
    return [
        Told(f"under {smallest}", 0) if hidden else _about(count, smallest)
        for count, hidden in zip(counts, small, strict=True)
    ]


def _about(count: int, smallest: int) -> Told:
    near = smallest * ((2 * count + smallest) // (2 * smallest))
    return Told(f"about {near:,}" if count else "0", near)


def usual_range(values: IntArray) -> tuple[float, float]:
    """From where to where the values of most cases lie: without the tenth at each end, and at least ten cases there.

    >>> usual_range(np.append(np.repeat([3, 4], 100), [1, 900]))
    (3.0, 4.0)
    """
    ordered = np.sort(values)
    tail = min(max(len(ordered) // 10, SMALLEST_GROUP), (len(ordered) - 1) // 2)
    return float(ordered[tail]), float(ordered[-tail - 1])


def joined_groups(group: IntArray, units: IntArray, smallest: int = SMALLEST_GROUP) -> IntArray:
    """Groups [n] in order, numbered from 0, each of which has enough units [n]: a small one joins those after it.

    >>> joined_groups(np.array([0, 0, 1, 2, 2]), np.arange(5), smallest=2).tolist()
    [0, 0, 1, 1, 1]
    """
    joined, number, waiting = np.empty_like(group), 0, np.zeros(len(group), np.bool_)
    for place in np.unique(group):
        waiting |= group == place
        if len(np.unique(units[waiting])) >= smallest:
            joined[waiting], number = number, number + 1
            waiting = np.zeros(len(group), np.bool_)
    joined[waiting] = max(number - 1, 0)  # the last are too few for a group of their own
    return joined
