"""Columns that tell what nobody knew before the decision: the action itself, what came of it, or the number of the row.

Rows are sorted by a column. Where it tells the action, rows beside each other have the same one; where it tells the
outcome, the outcome of a row lies between those of its neighbours. One row of each unit is looked at, so that what
episodes share with themselves does not count.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.data.action_space import ActionSpace, Box, Finite
from poela.data.schema import Variable
from poela.data.trajectories import Trajectories
from poela.studies.findings_of_audit import Finding, named

# The context columns of logs as an audit sees them: one number for each row, and where there is none.


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the table: numbers as they are, the place of a category, and where the cell was empty."""

    name: str
    values: FloatArray  # [N]
    empty: BoolArray  # [N]
    is_text: bool = False

    def take(self, rows: NDArray[Any]) -> "Column":
        """Some of its rows."""
        return replace(self, values=self.values[rows], empty=self.empty[rows])

    @property
    def levels(self) -> IntArray:
        """The values as numbers from 0, in their order; empty cells have one of their own."""
        return np.unique(np.where(self.empty, -np.inf, self.values), return_inverse=True)[1]

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        known = self.values[~self.empty]
        return bool(np.all(known == np.round(known)))


def columns_of(logs: Trajectories) -> list[Column]:
    """The columns that contexts were made of; the features themselves where logs were arrays."""
    contexts = np.asarray(logs.contexts, np.float64)
    nowhere = np.zeros(len(contexts), np.bool_)
    schema = logs.schema
    if schema is None or schema.feature_names != logs.feature_names:
        return [Column(name, contexts[:, place], nowhere) for place, name in enumerate(logs.feature_names)]
    place_of = {name: place for place, name in enumerate(logs.feature_names)}
    return [
        _column(variable, contexts[:, [place_of[name] for name in variable.features]]) for variable in schema.variables
    ]


def _column(variable: Variable, features: FloatArray) -> Column:
    empty = features[:, -1] > 0 if variable.indicated else np.zeros(len(features), np.bool_)
    if variable.kind != "category":
        return Column(variable.name, features[:, 0], empty)
    of_category = features[:, : len(variable.categories)]
    values = np.where(of_category.any(axis=1), of_category.argmax(axis=1), -1.0)
    return Column(variable.name, values, empty, is_text=True)


def row_of_each_unit(
    logs: Trajectories, units: IntArray, rng: np.random.Generator, *, first: bool, most: int
) -> IntArray:
    """One row of each of some units [n of episodes]: of an episode at random, its first step or any."""
    order = rng.permutation(logs.n_episodes)
    chosen = np.sort(rng.permutation(order[np.unique(units[order], return_index=True)[1]])[:most])
    steps = np.zeros(len(chosen), np.int64) if first else rng.integers(0, logs.lengths[chosen])
    return np.asarray(logs.offsets[:-1][chosen] + steps)


def without(columns: Sequence[Column], names: set[str]) -> list[Column]:
    """The columns that are not among these."""
    return [column for column in columns if column.name not in names]


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0 to 1; equal values have the mean of theirs."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values) / max(len(values), 1))


FEWEST = 20  # rows, changes or cells that chance would have, below which nothing is said
CHANGES = 0.03  # of the changes between actions that chance would have: what is left where a column tells them
EXPLAINED, WITHOUT_ACTION = 0.98, 0.95  # of the outcome's variance, given the action and without it
MOSTLY = 0.85  # the same given the action, from where on a column may be too good to have been known
NEVER, OFTEN = 0.005, 0.1  # shares of cells that are filled in
PARTS, SUDDEN = 20, 0.75  # of outcomes in their order; of the usual share beyond a value, in each of its parts
RANGE = 3  # times the number of rows: numbers of rows lie within so few whole numbers
ID_NAME = re.compile(r"(?:^|[\W_])(?:id|uuid|guid|mrn|key|nr|index|row)$|[a-z]I[dD]$", re.ASCII)
LEVELS = 30  # of a column, from which on its values may be names of cases
COMMON, SENTINEL = 0.05, 0.2  # shares of rows from which on a value is none, and may stand for an empty cell


@dataclass(frozen=True, eq=False)
class Sample:
    """One row of each unit: columns, what was done, and how likely each action was, where that was logged."""

    columns: Sequence[Column]
    space: ActionSpace
    actions: IntArray | FloatArray  # [n], or [n, k] where they are real numbers
    outcomes: FloatArray  # [n]
    propensities: FloatArray | None = None  # [n, A]

    @property
    def kinds(self) -> IntArray:
        """Which action was taken [n]; amounts are all of one kind."""
        return self.space.kinds(self.actions)


def order_by(column: Column, rng: np.random.Generator) -> IntArray:
    """The rows sorted by a column, equal ones at random; one of each value that may be the name of a case."""
    shuffled = rng.permutation(len(column.values))
    levels = column.levels[shuffled]
    counts = np.bincount(levels)
    if len(counts) >= LEVELS:
        kept = counts[levels] > COMMON * len(levels)
        kept[np.unique(levels, return_index=True)[1]] = True
        shuffled, levels = shuffled[kept], levels[kept]
    return np.asarray(shuffled[np.argsort(levels, kind="stable")])


def told_actions(sample: Sample, rng: np.random.Generator) -> list[str]:
    """The columns that nearly tell an action."""
    told = TOLD[sample.space.kind]
    return [column.name for column in sample.columns if told(sample, column, rng)]


def _amount_told(sample: Sample, column: Column, rng: np.random.Generator) -> bool:
    order = order_by(column, rng)
    return any(variance_explained(ranks(one)[order]) > EXPLAINED for one in sample.actions.T)


def _action_told(sample: Sample, column: Column, rng: np.random.Generator) -> bool:
    order = order_by(column, rng)
    actions = sample.actions[order]
    for action in np.unique(actions):
        taken = actions == action
        known = None if sample.propensities is None else sample.propensities[order, action]
        # Under the logged propensities neighbours differ this often, at least; else under the shares of actions.
        share = taken.mean() if known is None else known
        expected = float(np.sum(2 * share * (1 - share) * np.ones(len(taken))))
        changes = int((taken[1:] != taken[:-1]).sum())
        if expected >= FEWEST and changes <= max(2.0, CHANGES * expected):
            return True
    return False


TOLD: Mapping[str, Callable[[Sample, Column, np.random.Generator], bool]] = {
    Finite.kind: _action_told,
    Box.kind: _amount_told,
}


def variance_explained(values: FloatArray) -> float:
    """The share of variance that neighbours explain: each value against the mean of the two beside it.

    >>> variance_explained(np.arange(100.0)), variance_explained(np.random.default_rng(0).normal(size=10000)) < 0.05
    (1.0, True)
    """
    if len(values) < FEWEST or not (variance := float(values.var())):
        return 0.0
    errors = values[1:-1] - (values[:-2] + values[2:]) / 2
    return 1 - float(np.square(errors).mean()) / 1.5 / variance


def told_outcomes(
    sample: Sample, rng: np.random.Generator, given: float = EXPLAINED, without: float = WITHOUT_ACTION
) -> list[str]:
    """The columns that tell so much of the outcome given the action, and so much without it: by default nearly all.

    What is known beforehand may well tell what each action would lead to; it cannot tell what came without the action,
    unless actions do not matter.
    """
    outcomes = ranks(sample.outcomes)
    counts = np.unique(outcomes, return_counts=True)[1]
    if len(outcomes) - counts.max(initial=0) < FEWEST:
        return []
    groups = [np.asarray(sample.kinds == kind) for kind in np.unique(sample.kinds)]
    groups = [group for group in groups if group.sum() >= FEWEST and np.ptp(outcomes[group]) > 0]
    told = []
    for column in sample.columns:
        common = _commonest(column)
        parts = [np.ones(len(common), np.bool_)]
        if COMMON * len(common) < common.sum() <= len(common) - FEWEST:
            parts.append(~common)  # what was paid, say, where something was
        limits = (given, without)
        if any(_outcome_told(column, outcomes, [group & part for group in groups], limits, rng) for part in parts):
            told.append(column.name)
    return told


def _outcome_told(
    column: Column,
    outcomes: FloatArray,
    groups: Sequence[BoolArray],
    limits: tuple[float, float],
    rng: np.random.Generator,
) -> bool:
    rows = np.any(groups, axis=0) if groups else np.zeros(len(outcomes), np.bool_)
    if variance_explained(outcomes[rows][order_by(column.take(rows), rng)]) < limits[1]:
        return False
    left = total = 0.0
    for group in groups:
        own = outcomes[group][order_by(column.take(group), rng)]
        size = len(own) * float(own.var()) if len(own) >= FEWEST else 0.0
        total, left = total + size, left + size * (1 - variance_explained(own))
    return total > 0 and 1 - left / total > limits[0]


def filled_for_some(sample: Sample) -> Iterator[Finding]:
    """Columns whose cells are filled in (or empty) only where certain actions were taken, or certain outcomes came."""
    for column in sample.columns:
        known = not column.empty.any() and sample.propensities is not None
        marked = _commonest(column) if known else column.empty
        if known and marked.mean() < SENTINEL:
            continue
        if _only_for_some(marked, sample.kinds, sample.propensities):
            what = "is filled in (or not) only where certain actions were taken"
        elif not known and _only_for_outcomes(marked, sample.outcomes):
            what = "is filled in (or not) only where certain outcomes came"
        else:
            continue
        advice = "it was recorded after the decision, so leave it out of the context"
        yield Finding("filled", (column.name,), f"{named([column.name])} {what}", advice, voids_weights=True)


def _only_for_outcomes(marked: BoolArray, outcomes: FloatArray) -> bool:
    """Whether marks (or their absence) never occur with some of a few outcomes, or beyond some value of many."""
    groups = np.unique(outcomes, return_inverse=True)[1]
    return _only_for_some(marked, groups, None) or any(
        _only_beyond_a_value(mark, sign * outcomes) for mark in (marked, ~marked) for sign in (1, -1)
    )


def _only_beyond_a_value(mark: BoolArray, outcomes: FloatArray) -> bool:
    """Whether marks never occur with low outcomes, and from some value on all of a sudden as often as with the highest.

    What goes with severity, as a test that is done for some does, becomes more frequent little by little.

    >>> outcomes = np.arange(1000.0)
    >>> _only_beyond_a_value(outcomes > 480, outcomes), _only_beyond_a_value(outcomes < 480, outcomes)
    (True, False)
    """
    if not FEWEST <= mark.sum() <= len(mark) - FEWEST or len(mark) < PARTS * FEWEST:
        return False
    place = np.minimum((ranks(outcomes) * PARTS).astype(np.int64), PARTS - 1)
    sizes, hits = np.bincount(place, minlength=PARTS), np.bincount(place, mark, PARTS)
    shares = hits / np.maximum(sizes, 1)
    first = int(np.argmax(shares > NEVER))
    above = shares[first + 1 :][sizes[first + 1 :] > 0]  # the value lies within a part, of which little can be told
    below = slice(0, first)
    expected = sizes[below].sum() / len(mark) * mark.sum()
    if first == 0 or len(above) < 2 or expected < FEWEST or hits[below].sum() > 0.05 * expected:
        return False
    usual = float(above.mean())
    by_chance = np.sqrt(usual * (1 - usual) / sizes.max())
    return bool(above.min() >= max(OFTEN, SUDDEN * usual - by_chance))


def _commonest(column: Column) -> BoolArray:
    """Where a column has its commonest value, which may stand for nothing: 0 for the amount of another arm."""
    levels = column.levels
    return np.asarray(levels == np.bincount(levels).argmax())


def _only_for_some(marked: BoolArray, groups: IntArray, propensities: FloatArray | None) -> bool:
    """Whether marks (or their absence) never occur in some groups that hold a part of all rows, and often in others."""
    sizes = np.bincount(groups)
    if not FEWEST <= marked.sum() <= len(marked) - FEWEST or len(sizes) > len(marked) / FEWEST:
        return False
    for mark in (marked, ~marked):
        shares = np.bincount(groups, mark, len(sizes)) / np.maximum(sizes, 1)
        never, often = (shares <= NEVER) & (sizes > 0), shares >= OFTEN
        if not never.any() or not (never | often | (sizes == 0)).all() or not often.any():
            continue
        chance = sizes[never].sum() / len(marked) * mark.sum()
        expected = chance if propensities is None else propensities[mark][:, never].sum()
        if expected >= FEWEST and np.bincount(groups, mark, len(sizes))[never].sum() <= 0.05 * expected:
            return True
    return False


def ids(columns: Sequence[Column]) -> Iterator[Finding]:
    """Columns that number or name the rows, of one row for each episode."""
    for column in columns:
        known = column.values[~column.empty]
        different = len(np.unique(known))
        if len(known) < FEWEST or different < 0.95 * len(known) or not column.is_whole:
            continue
        counts = column.is_text or np.ptp(known) <= RANGE * len(known)
        in_order = bool((np.diff(known) > 0).all())
        if counts or in_order or ID_NAME.search(column.name):
            sentence = f"{named([column.name])} has another value in almost every row, as ids and row numbers have"
            yield Finding("id", (column.name,), sentence, "leave it out of the context, for new cases have new ones")
