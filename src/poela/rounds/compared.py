"""New cases against what was before: means, their errors and bounds, after every so many cases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.readable import readable
from poela.data.groups import Grouping
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.rounds.looks import EXACT, SEQUENCE, WatchPlan, mixture_bounds
from poela.stats.bounds import Bounds
from poela.studies.guarded import guarded_in
from poela.studies.guards import Guard

# Independent units in the order in which they end, and the stretches of them that drift is looked for in.

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


FEWEST = 30  # units, below which normal theory says nothing
MOST_OFF, NEAR = 4.0, 1e-6  # standard errors by which the mean weight may miss 1, and what rounding leaves
OLD_SHARE = 0.2  # of the error, which the old mean gets where the new one is bounded exactly


@dataclass(frozen=True)
class Comparison:
    """New minus old: the estimate, and how far it may be off; `low` and `high` are None where nothing can be said."""

    name: str
    old: float
    new: float
    value: float
    low: float | None
    high: float | None
    error: float  # standard
    units: int
    beside: int = 0  # units of practice that ran at the same time

    @property
    def counted(self) -> int:
        """What bounds count: of two arms, the units of two equally large ones that know as much."""
        return _counted(self.units, self.beside) if self.beside else self.units

    @property
    def is_better(self) -> bool:
        """Whether the policy is shown to be better."""
        return self.low is not None and self.low > 0

    @property
    def is_worse(self) -> bool:
        """Whether harm is shown."""
        return self.high is not None and self.high < 0


class OldMean(NamedTuple):
    """The mean return of an old log, its standard error, and the standard deviation of its units."""

    mean: float
    error: float
    spread: float


@dataclass(frozen=True, eq=False)
class Units:
    """Returns, by independent unit in the order in which these end; `weights` are those of the old practice."""

    returns: FloatArray  # [n]
    units: IntArray  # [n], numbered in the order of ending
    weights: FloatArray | None = None  # [n]

    @property
    def n(self) -> int:
        """How many units."""
        return int(self.units.max()) + 1

    @property
    def summary(self) -> OldMean:
        """Of the mean return of an episode."""
        mean = float(self.returns.mean())
        error = _standard_error(self.summed(self.returns - mean))
        return OldMean(mean, error, error * float(np.sqrt(self.n)))

    def first(self, units: int) -> "Units":
        """The first units alone."""
        there = self.units < units
        return Units(self.returns[there], self.units[there], None if self.weights is None else self.weights[there])

    def summed(self, influence: FloatArray) -> FloatArray:
        """Influence values by unit, of a mean over episodes."""
        return np.asarray(np.bincount(self.units, influence) * (self.n / len(self.returns)), np.float64)


def before_after(cases: Units, old: OldMean, plan: WatchPlan, sizes: tuple[int, ...]) -> Comparison:
    """The mean of new cases against the mean of the old log, whose own error counts too.

    New cases in which a rare outcome has not come yet hardly vary, so they are taken to vary at least as the old ones.

    >>> nothing_yet = Units(np.ones(50), np.arange(50))
    >>> before_after(nothing_yet, OldMean(0.97, 0.002, 0.17), WatchPlan(), (50,)).is_better
    False
    """
    new = cases.summary
    error = float(np.hypot(max(new.spread, old.spread) / np.sqrt(cases.n), old.error))
    low, high = _ends(new.mean - old.mean, error, cases.n, plan, sizes)
    return Comparison("before", old.mean, new.mean, new.mean - old.mean, low, high, error, cases.n)


def two_arms(cases: Units, other: Units, plan: WatchPlan, sizes: tuple[int, ...]) -> Comparison:
    """The mean of new cases against that of cases of practice at the same time, other ones; both grow.

    >>> arm = Units(np.arange(4.0), np.arange(4))
    >>> two_arms(arm, arm, WatchPlan(), (4,)).counted
    4
    """
    new, old = cases.summary, other.summary
    # An arm without a single rare outcome hardly varies: errors are at least those of arms that vary alike.
    alike = (cases.n * new.spread**2 + other.n * old.spread**2) / (cases.n + other.n)
    error = float(np.sqrt(max(new.error**2 + old.error**2, alike * (1 / cases.n + 1 / other.n))))
    low, high = _ends(new.mean - old.mean, error, _counted(cases.n, other.n), plan, sizes)
    if min(cases.n, other.n) < FEWEST:
        low, high = None, None
    return Comparison("beside", old.mean, new.mean, new.mean - old.mean, low, high, error, cases.n, other.n)


def _counted(units: int, beside: int) -> int:
    return 2 * units * beside // (units + beside)


def exactly(cases: Units, old: OldMean, plan: WatchPlan, bounds: Bounds) -> Comparison:
    """The same for returns within bounds: exact for the new cases, by its standard error for the old mean."""
    from scipy.special import ndtri

    total = 1 - plan.level
    sums, counts = np.bincount(cases.units, cases.returns), np.bincount(cases.units)
    means = sums / counts  # a unit's mean lies within the bounds, too
    low, high = bounds.lowest_return, bounds.highest_return
    ends = mixture_bounds(np.ones(cases.n), means, low, high, (1 - OLD_SHARE) * total)
    reach = float(ndtri(1 - OLD_SHARE * total / 2)) * old.error
    new = float(means.mean())
    error = float(np.hypot(_standard_error(means - new), old.error))
    low, high = ends[0] - old.mean - reach, ends[1] - old.mean + reach
    return Comparison("before", old.mean, new, new - old.mean, low, high, error, cases.n)


def against_practice(cases: Units, plan: WatchPlan, sizes: tuple[int, ...]) -> Comparison:
    """The mean of new cases against what the old practice would have got in them, by importance weights.

    >>> cases = Units(np.arange(4.0), np.arange(4), np.ones(4))
    >>> against_practice(cases, WatchPlan(), (4,)).value
    0.0
    """
    assert cases.weights is not None
    new, mean_weight = float(cases.returns.mean()), float(cases.weights.mean())
    old = float((cases.weights * cases.returns).mean() / mean_weight) if mean_weight else np.nan
    influence = (cases.returns - new) - cases.weights * (cases.returns - old) / (mean_weight or 1.0)
    error = _standard_error(cases.summed(influence))
    low, high = _ends(new - old, error, cases.n, plan, sizes) if is_supported(cases.weights) else (None, None)
    return Comparison("practice", old, new, new - old, low, high, error, cases.n)


def is_supported(weights: FloatArray) -> bool:
    """Whether the new cases show what the practice did: weights of mean 1, of which many count.

    >>> is_supported(np.ones(50)), is_supported(np.full(50, 0.5))
    (True, False)
    """
    total = float(weights.sum())
    effective = total**2 / float(np.square(weights).sum()) if total else 0.0
    off = abs(float(weights.mean()) - 1)
    return effective >= FEWEST and off <= MOST_OFF * _standard_error(weights - weights.mean()) + NEAR


Old = OldMean | Units | None  # of an old log, practice at the same time, or one known by weights


def compared(
    cases: Units,
    old: Old,
    plan: WatchPlan,
    sizes: tuple[int, ...],
    bounds: Bounds | None,
) -> Comparison:
    """Against the old log's mean and error, practice beside, or (None) the practice whose weights the cases carry."""
    if isinstance(old, Units):
        return two_arms(cases, old, plan, sizes)
    if old is None:
        return against_practice(cases, plan, sizes)
    if plan.method == EXACT and bounds is not None:
        return exactly(cases, old, plan, bounds)
    return before_after(cases, old, plan, sizes)


def _standard_error(influence: FloatArray) -> float:
    n = len(influence)
    return float(np.sqrt(np.square(influence).sum() / (n * max(n - 1, 1))))


def _ends(
    value: float, error: float, n: int, plan: WatchPlan, sizes: tuple[int, ...]
) -> tuple[float | None, float | None]:
    if n < FEWEST or not np.isfinite(value):
        return None, None
    reach = plan.boundary(n, sizes) * error
    return value - reach, value + reach


# A study's guardrails while its policy runs: how other outcomes have changed, and whether a limit is broken.


@dataclass(frozen=True)
class GuardSeen:
    """One guardrail: by how much its outcome has changed, in its own direction, and whether the limit is broken."""

    name: str
    change: float
    low: float | None
    high: float | None
    broken: bool
    words: str


def watched_guards(guards: Sequence[Guard], logs: Trajectories) -> list[Guard]:
    """Those that can be watched: about an outcome of everybody, which these logs carry."""
    return [
        one
        for one in guards
        if one.limit is not None and one.by is None and not one.level and one.column in logs.outcome_names
    ]


def guards_seen(
    guards: Sequence[Guard],
    cases: Trajectories,
    old: Trajectories,
    scoring: Scoring,
    plan: WatchPlan,
    sizes: tuple[int, ...],
    paired: bool,
) -> tuple[GuardSeen, ...]:
    """Each guardrail on new cases against old ones, or (`paired`) against practice beside them, which grows, too.

    The error of the plan is split over all guardrails: together they raise a false alarm no more often than it says.
    """
    if not guards:
        return ()
    method = SEQUENCE if plan.method == EXACT else plan.method
    split = replace(plan, method=method, level=1 - (1 - plan.level) / len(guards))
    new, before = (guarded_in(guards, [logs], logs.returns(scoring.discount), _no_groups) for logs in (cases, old))
    places = by_last(cases.units), by_last(old.units)
    found = []
    for guard, now, then in zip(guards, new, before, strict=True):
        arms = [Units(values.values, place) for values, place in zip((now, then), places, strict=True)]
        against = arms[1] if paired else arms[1].summary
        seen = compared(arms[0], against, split, sizes, None)
        found.append(_seen(guard, seen, now.slack))
    return tuple(found)


def _no_groups(column: str) -> Grouping:
    raise AssertionError("guardrails by group are not watched")


def _seen(guard: Guard, seen: Comparison, slack: float) -> GuardSeen:
    """`seen` is a change for the better; what is told is the change of the outcome itself."""
    broken = seen.high is not None and seen.high + slack < 0
    ends = (seen.high, seen.low) if guard.at_most else (seen.low, seen.high)
    low, high = (guard.own(end) for end in ends)
    change = guard.own(seen.value)
    assert change is not None
    between = "too early for bounds" if low is None or high is None else f"{_signed(low)} to {_signed(high)}"
    words = f"{guard.called} has changed by {_signed(change)} ({between}), where {guard.limit_in_words} is allowed"
    return GuardSeen(str(guard), change, low, high, broken, words)


def _signed(value: float) -> str:
    return readable(value, signed=True)
