"""Every policy that was judged: the ladder from cautious to bold, and value against effective sample size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poela.behavior.calibration import Calibration, Reliability, bin_of, calibration
from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.data.groups import SMALLEST_GROUP
from poela.data.trajectories import Trajectories
from poela.studies.names import Row, changed_in_words, thinned, where_on_path, without_rule
from poela.studies.study import Study

# What too few cases share is not told: a count of a few, a value of one, or the difference that would tell of them.


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


# What the logs are: how long episodes are, what was done, what came of it, and how good propensities are.

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


@dataclass(frozen=True)
class JudgedPolicy:
    """A policy as pictures and tables show it."""

    name: str  # in a few words
    candidate: str  # with its settings
    learner: str
    value: float | None
    value_error: float | None
    gain: float | None
    shown: float | None  # by how much it is at least better, for all policies together
    ess: float | None
    departure: float | None  # share of decisions that change, or by how much real-valued ones do
    changed: str  # the same in words
    verdict: str
    chosen: bool
    outside: float | None = None  # share of decisions that were never made in like cases
    leaving: float | None = None  # share of its episodes with any such decision
    best: bool = False  # no other beats it in both value and effective sample size


def _judged(row: Row, best: bool = False) -> JudgedPolicy:
    return JudgedPolicy(
        row["name"],
        f"{without_rule(row['candidate'])}, restart {row['restart']}, {where_on_path(row)}",
        row["learner"],
        row["sntis"],
        row["sntis_error"],
        row["gain"],
        row["shown"],
        row["ess"],
        row["change_sd"] if row["departure"] is None else row["departure"],
        changed_in_words(row),
        row["verdict"],
        row["chosen"],
        row["outside"],
        row["leaving"],
        best,
    )


@dataclass(frozen=True)
class Frontier:
    """Value against effective sample size."""

    points: tuple[JudgedPolicy, ...]
    units: float  # episodes that judged, or clusters; effective ones where outcomes were lost
    called: str  # what the chosen one is
    current: float  # what the logging policy achieved
    current_error: float

    @property
    def line(self) -> tuple[JudgedPolicy, ...]:
        """Those that no other beats, best supported first."""
        return tuple(sorted((point for point in self.points if point.best), key=lambda point: -(point.ess or 0.0)))


def frontier_of(study: Study) -> Frontier:
    """All judged policies that have an estimate, and which of them no other beats."""
    key = ("path", "note", "step")
    best = {tuple(row[name] for name in key) for row in study.frontier().to_pylist()}
    rows = [row for row in study.table().to_pylist() if row["sntis"] is not None and row["ess"]]
    points = tuple(_judged(row, tuple(row[name] for name in key) in best) for row in rows)
    current, result = study.record.logging_policy, study.result
    units = study.record.data.validation_episodes if result is None else result.estimate.diagnostics.n_units
    called = "" if result is None else study.answer.called
    return Frontier(points, current.ess or units, called, current.value, current.standard_error)


def ladder_of(study: Study) -> tuple[JudgedPolicy, ...]:
    """A few rungs from cautious to bold, with the chosen one; where an estimate decides, those of the frontier."""
    by_gain = study.settings.selection.by == "gain"
    rows = (study.ladder() if by_gain else study.frontier()).to_pylist()
    return tuple(map(_judged, thinned(rows)))


def all_judged(study: Study) -> tuple[JudgedPolicy, ...]:
    """Every policy, in the order of the study."""
    return tuple(map(_judged, study.table().to_pylist()))
