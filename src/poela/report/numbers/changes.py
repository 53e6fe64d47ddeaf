"""What would change for whom: the policy beside the logging policy, for everybody, for strata, and where most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.groups import MOST_VALUES, SMALLEST_GROUP, GroupBy, binned
from poela.data.trajectories import Trajectories
from poela.report.numbers.judged import Told, enough_cases, told
from poela.report.study_logs import DoseLogs, StudyLogs
from poela.studies.acted import merged_actions

# Doses before and after: on the whole, and along one column of what was known.

BINS = 8  # along a column
ENDS = (0.1, 0.9)  # of the doses in a bin


@dataclass(frozen=True)
class DoseShift:
    """One column of doses: the usual range before, and after."""

    action: str
    before: tuple[float, float]
    after: tuple[float, float]


@dataclass(frozen=True, eq=False)
class DoseCurve:
    """Doses in bins of one column: where each bin is, and mean and usual range of doses before and after."""

    action: str
    column: str
    at: FloatArray  # [k], the median of the column in each bin
    before: FloatArray  # [k]
    before_range: FloatArray  # [k, 2]
    after: FloatArray
    after_range: FloatArray
    decisions: int  # in the smallest bin

    @property
    def told(self) -> float:
        """How much the change differs along the column, in the spread of logged doses."""
        spread = float(np.ptp(self.before_range)) or 1.0
        return float(np.ptp(self.after - self.before)) / spread


def dose_shifts(logs: DoseLogs) -> tuple[DoseShift, ...]:
    """Each column of doses for everybody."""
    drawn = logs.drawn
    if drawn is None:
        return ()
    given = logs.followed.actions
    return tuple(
        DoseShift(str(name), _range(given[:, place]), _range(drawn[:, :, place]))
        for place, name in enumerate(logs.followed.action_names)
    )


def _range(values: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(values, ENDS).tolist()
    return low, high


def dose_curves(logs: DoseLogs, most: int) -> tuple[DoseCurve, ...]:
    """Doses along columns of what was known: those along which the change differs most, the most telling first."""
    if logs.drawn is None:
        return ()
    curves = [
        curve
        for place in range(logs.followed.n_components)
        for feature in range(logs.followed.contexts.shape[1])
        if (curve := _curve(logs, place, feature)) is not None
    ]
    return tuple(sorted(curves, key=lambda curve: -curve.told)[:most])


def _curve(logs: DoseLogs, action: int, feature: int) -> DoseCurve | None:
    """None where the column has too few different values for a line."""
    values = np.asarray(logs.followed.contexts[:, feature], np.float64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    place = np.searchsorted(edges, values)
    parts = [place == number for number in range(len(edges) + 1)]
    bins = [inside for inside in parts if enough_cases(logs.followed, inside, logs.smallest)]
    if len(bins) < 3 or logs.drawn is None:
        return None
    given, drawn = logs.followed.actions[:, action], logs.drawn[:, :, action]
    return DoseCurve(
        str(logs.followed.action_names[action]),
        str(logs.followed.feature_names[feature]),
        np.array([np.median(values[inside]) for inside in bins]),
        np.array([given[inside].mean() for inside in bins]),
        np.array([_range(given[inside]) for inside in bins]),
        np.array([drawn[:, inside].mean() for inside in bins]),
        np.array([_range(drawn[:, inside]) for inside in bins]),
        min(int(inside.sum()) for inside in bins),
    )


STEP = "step"  # tells groups of decisions, not of cases
CHANGES = 10


@dataclass(frozen=True, eq=False)
class Stratum:
    """Some of the decisions: how often each action was taken, and how often the policy would take it."""

    name: str
    decisions: int
    logged: FloatArray  # [A], shares
    policy: FloatArray  # [A]
    departure: float | None  # share of decisions that change, where the logging policy's probabilities are known


@dataclass(frozen=True, eq=False)
class ActionShares:
    """Strata (the first one is everybody) over the same actions."""

    actions: tuple[str, ...]
    strata: tuple[Stratum, ...]


def action_shares(logs: StudyLogs, by: Sequence[str] = ()) -> ActionShares:
    """Shares of actions for all decisions, and for the strata of each feature in `by` (or of the step number)."""
    acting = _acting(logs)
    followed = logs.followed
    taken = np.zeros(acting.shape)
    taken[np.arange(len(taken)), followed.actions] = 1.0
    names, merge = merged_actions(followed.action_names, taken.mean(axis=0) + acting.mean(axis=0))
    change = departures(logs)
    strata = [("everybody", np.ones(len(taken), bool))]
    for column in by:
        strata += strata_of_column(followed, column, logs.smallest)
    of_strata = tuple(
        Stratum(
            name,
            int(inside.sum()),
            merge @ taken[inside].mean(axis=0),
            merge @ acting[inside].mean(axis=0),
            None if change is None else float(change[inside].mean()),
        )
        for name, inside in strata
    )
    return ActionShares(names, of_strata)


def _acting(logs: StudyLogs) -> FloatArray:
    if logs.acting is None:
        raise InputError("this study has no policy to show: none is recommended, and none is worth a trial")
    return logs.acting


def departures(logs: StudyLogs) -> FloatArray | None:
    """The share [N] of each decision that changes: half the sum of |π − μ|; None where μ is not known."""
    if logs.logging is None:
        return None
    return np.asarray(np.abs(_acting(logs) - logs.logging).sum(axis=1) / 2)


def strata_of(column: str, values: FloatArray, bins: int | None = None) -> list[tuple[str, BoolArray]]:
    """Names and members of a column's strata: one for each value, or quantiles of many values.

    >>> [(name, int(inside.sum())) for name, inside in strata_of("age", np.arange(8.0))]
    [('age up to 1', 2), ('age 1 to 3', 2), ('age 3 to 5', 2), ('age above 5', 2)]
    """
    names, place = binned(values, bins)
    between = " = " if bins is None and len(np.unique(values)) <= MOST_VALUES else " "
    strata = [(f"{column}{between}{name}", np.asarray(place == number)) for number, name in enumerate(names)]
    return [(name, inside) for name, inside in strata if inside.any()]


def columns_of(logs: Trajectories) -> list[str]:
    """Every column of the context that tells groups, and the step number where there are several."""
    columns = logs.feature_names if logs.schema is None else logs.schema.context
    several = [STEP] if logs.n_steps > logs.n_episodes else []
    known = [name for name in columns if logs.schema is None or name in logs.feature_names or _categories(logs, name)]
    return [*dict.fromkeys([*known, *several])]


def strata_of_columns(logs: Trajectories, smallest: int = SMALLEST_GROUP) -> list[tuple[str, BoolArray]]:
    """The strata of every column of the context, and of the step number where there are several; small ones are out."""
    return [one for column in columns_of(logs) for one in strata_of_column(logs, column, smallest)]


def strata_of_column(logs: Trajectories, text: str, smallest: int = SMALLEST_GROUP) -> list[tuple[str, BoolArray]]:
    """The strata of a column, or of so many quantiles of it ("age:3"); without those of too few cases."""
    known = (*logs.feature_names, *(() if logs.schema is None else logs.schema.context), STEP)
    one = GroupBy.of(text, known)
    strata = _categories(logs, one.column) or strata_of(one.column, _column(logs, one.column), one.bins)
    return [(name, inside) for name, inside in strata if enough_cases(logs, inside, smallest)]


def _categories(logs: Trajectories, column: str) -> list[tuple[str, BoolArray]]:
    """A stratum for each category of a column of text; none where the column is no such column."""
    variables = () if logs.schema is None else logs.schema.variables
    owner = next((one for one in variables if one.name == column and one.kind == "category"), None)
    named = [] if owner is None else zip(owner.features, (*owner.categories, "missing"), strict=False)
    members = [(f"{column} = {name}", logs.contexts[:, logs.feature_names.index(one)] > 0) for one, name in named]
    return [(name, np.asarray(inside)) for name, inside in members if inside.any()]


def _column(logs: Trajectories, name: str) -> FloatArray:
    if name in logs.feature_names:
        return np.asarray(logs.contexts[:, logs.feature_names.index(name)], np.float64)
    if name == STEP:
        return logs.step_numbers.astype(np.float64)
    columns = logs.feature_names if logs.schema is None else logs.schema.context
    raise InputError(f"there is no feature {name!r} to tell strata by: choose from {', '.join(columns)}, step")


@dataclass(frozen=True, eq=False)
class Flows:
    """Of the decisions for each logged action (rows), what the policy would do (columns); rows sum to 1."""

    actions: tuple[str, ...]
    shares: FloatArray  # [A, A]; NaN in rows of actions that were never taken, or in too few cases
    decisions: tuple[Told, ...]  # [A]


def flows_of(logs: StudyLogs) -> Flows:
    """What becomes of each logged action."""
    acting, followed = _acting(logs), logs.followed
    counts = np.bincount(followed.actions, minlength=followed.n_actions)
    names, merge = merged_actions(followed.action_names, counts / len(acting) + acting.mean(axis=0))
    sums = np.zeros((followed.n_actions, followed.n_actions))
    np.add.at(sums, followed.actions, acting)
    merged = merge @ counts
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (merge @ sums @ merge.T) / merged[:, None]
    few = [not enough_cases(followed, merge[row, followed.actions] > 0, logs.smallest) for row in range(len(names))]
    decisions = told(merged.astype(int).tolist(), logs.smallest, few)
    return Flows(names, np.where(np.array(few)[:, None], np.nan, shares), tuple(decisions))


@dataclass(frozen=True)
class Change:
    """A decision where policy and logging policy differ much, without anything that was known of the case."""

    row: int  # of the followed steps
    episode: int  # by position
    step: int
    departure: float
    less: str  # the action that loses most, and its two probabilities
    less_from: float
    less_to: float
    more: str  # the action that gains most
    more_from: float
    more_to: float
    near: int | None  # logged cases within the radius
    near_more: int | None  # of these, with the action that gains
    distance: float | None  # to the nearest of these


def largest_changes(logs: StudyLogs, most: int = CHANGES) -> tuple[Change, ...]:
    """The largest changes, one in an episode, the largest first."""
    change, logging = departures(logs), logs.logging
    if change is None or logging is None:
        return ()
    followed = logs.followed
    order = np.argsort(-change, kind="stable")
    _, first = np.unique(followed.episode_of_step[order], return_index=True)
    rows = order[np.sort(first)[:most]]
    near, distances = _near(logs, rows)
    return tuple(
        _change(logs, int(row), float(change[row]), None if near is None else near[place], distances[place])
        for place, row in enumerate(rows)
    )


def _change(logs: StudyLogs, row: int, departure: float, near: FloatArray | None, distances: FloatArray) -> Change:
    followed, acting = logs.followed, _acting(logs)[row]
    assert logs.logging is not None
    logging = logs.logging[row]
    less, more = int((acting - logging).argmin()), int((acting - logging).argmax())
    names = followed.action_names
    distance = float(distances[more])
    return Change(
        row,
        int(followed.episode_of_step[row]),
        int(followed.step_numbers[row]),
        departure,
        str(names[less]),
        float(logging[less]),
        float(acting[less]),
        str(names[more]),
        float(logging[more]),
        float(acting[more]),
        None if near is None else int(near.sum()),
        None if near is None else int(near[more]),
        distance if np.isfinite(distance) else None,
    )


def _near(logs: StudyLogs, rows: IntArray) -> tuple[FloatArray | None, FloatArray]:
    """How many logged cases with each action are within the radius [rows, A], and how far the nearest is."""
    followed = logs.followed
    rule = logs.nearness
    if rule is None:
        return None, np.full((len(rows), followed.n_actions), np.nan)
    contexts, steps = followed.contexts[rows], followed.step_numbers[rows]
    return rule.counts(contexts, steps), rule.distances(contexts, steps)


def by_step(logs: StudyLogs) -> tuple[IntArray, FloatArray, IntArray] | None:
    """The mean departure at each step number that a twentieth of the episodes reach: numbers, means, counts."""
    change = departures(logs)
    if change is None:
        return None
    followed, steps = logs.followed, logs.followed.step_numbers
    counts = np.bincount(steps)
    often = np.flatnonzero(counts >= max(followed.n_episodes / 20, logs.smallest))
    steps_shown = np.array([one for one in often if enough_cases(followed, steps == one, logs.smallest)], np.int64)
    return steps_shown, np.bincount(steps, change)[steps_shown] / counts[steps_shown], counts[steps_shown]


# Whom a policy touches: the kinds of cases in which most and fewest decisions change.

LEAST_SPREAD = 0.02  # of decisions: groups that differ by less are as good as alike


@dataclass(frozen=True)
class Touched:
    """The groups of one column, of those in which change differs most: where most and where fewest decisions change."""

    most: str
    most_share: float
    fewest: str
    fewest_share: float


def touched(logs: StudyLogs) -> Touched | None:
    """By the column whose groups differ most; None where none tells, or the logging policy is not known."""
    change = departures(logs)
    if change is None:
        return None
    best: Touched | None = None
    for column in columns_of(logs.followed):
        strata = strata_of_column(logs.followed, column, logs.smallest)
        groups = [(float(change[inside].mean()), name) for name, inside in strata]
        if len(groups) < 2:
            continue
        (fewest, where_not), (most, where) = min(groups), max(groups)
        if most - fewest >= (LEAST_SPREAD if best is None else best.most_share - best.fewest_share):
            best = Touched(where, most, where_not, fewest)
    return best
