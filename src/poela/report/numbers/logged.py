"""What the logs are: how long episodes are, what was done, what came of it, and how good propensities are."""

import math
from dataclasses import dataclass, replace

import numpy as np

from poela.behavior.calibration import Calibration, Reliability, bin_of, calibration
from poela.core.arrays import FloatArray, IntArray
from poela.data.groups import SMALLEST_GROUP
from poela.data.trajectories import Trajectories
from poela.report.numbers.enough import Told, enough_cases, told

MOST_BARS = 20


@dataclass(frozen=True)
class HistogramBar:
    """Cases from `low` up to `high`; None: whatever lies below, or above. Both are the same for a single value."""

    low: float | None
    high: float | None
    cases: Told


def histogram(values: FloatArray, units: IntArray | None = None, smallest: int = SMALLEST_GROUP) -> list[HistogramBar]:
    """How many cases have each value or, of many values, lie in bins of round and equal width.

    Neither the least nor the largest value is told: the first and the last bar take in so many values that both have
    enough cases (or clusters: `units`). Bars between them that have too few do not say how many.

    >>> bars = histogram(np.repeat([1.0, 2.0, 3.0, 9.0], [12, 4, 15, 1]))
    >>> [(bar.low, bar.high, bar.cases.words) for bar in bars]
    [(1.0, 1.0, 'about 10'), (2.0, 2.0, 'under 10'), (3.0, None, 'about 20')]
    """
    units = np.arange(len(values)) if units is None else units
    distinct = np.unique(values)
    whole = bool((distinct == np.rint(distinct)).all() and np.ptp(distinct) < MOST_BARS)
    single = whole or len(distinct) <= MOST_BARS // 2
    edges = _round_edges(values, smallest) if not single else distinct
    if whole:
        edges = np.arange(distinct[0], distinct[-1] + 1)
    place = np.searchsorted(edges, values, side="left" if single else "right")
    parts = range(len(edges) + (not single))
    enough = {part: len(np.unique(units[place <= part])) >= smallest for part in parts}
    first = next((part for part in parts if enough[part]), len(parts) - 1)
    last = next((part for part in parts[::-1] if len(np.unique(units[place >= part])) >= smallest), 0)
    if first >= last:
        return [HistogramBar(None, None, *told([len(values)], smallest))]
    place = np.clip(place, first, last)
    kept = range(first, last + 1)
    few = [len(np.unique(units[place == part])) < smallest for part in kept]
    counts = told([int((place == part).sum()) for part in kept], smallest, few)
    bars = [
        HistogramBar(*_ends(edges, part, (first, last), single), cases)
        for part, cases in zip(kept, counts, strict=True)
    ]
    # That a bar of a single value is there tells of whoever has it; bins and whole numbers are there anyway.
    return [bar for bar, hidden in zip(bars, few, strict=True) if whole or not single or not hidden]


def _ends(edges: FloatArray, part: int, ends: tuple[int, int], single: bool) -> tuple[float | None, float | None]:
    """From where to where a bar reaches, of which the first and the last take in what lies beyond."""
    first, last = ends
    if single:
        low = None if part == first > 0 else float(edges[part])
        high = None if part == last < len(edges) - 1 else float(edges[part + (low is None)])
        return low, high
    return None if part == first else float(edges[part - 1]), None if part == last else float(edges[part])


def _round_edges(values: FloatArray, smallest: int) -> FloatArray:
    """Round numbers from where enough values lie below to where enough lie above."""
    ordered = np.sort(values)
    tail = min(smallest, (len(ordered) - 1) // 2)
    low, high = float(ordered[tail]), float(ordered[-tail - 1])
    if high <= low:
        return np.array([low])
    rough = (high - low) / (MOST_BARS - 4)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    return np.asarray(step * np.arange(math.ceil(low / step), math.floor(high / step) + 1), np.float64)


def propensity_calibration(logs: Trajectories, smallest: int = SMALLEST_GROUP) -> Calibration | None:
    """How well propensities fit what was done, in bins of enough cases; None where not all of them are known."""
    if logs.propensities is None or logs.propensities.ndim == 1:
        return None
    found = calibration(logs.propensities, logs.actions)
    bins = bin_of(logs.propensities)
    kept = np.array([enough_cases(logs, (bins == one).any(axis=1), smallest) for one in np.unique(bins)])
    curve = found.every_action
    return replace(found, every_action=Reliability(curve.predicted[kept], curve.observed[kept], curve.counts[kept]))


def only_yes_or_no(returns: FloatArray) -> bool:
    """Whether every return is 0 or 1, so that a mean is a share of cases.

    >>> only_yes_or_no(np.array([0.0, 1.0, 1.0])), only_yes_or_no(np.array([0.0, 0.5]))
    (True, False)
    """
    return bool(np.isin(returns, (0.0, 1.0)).all())
