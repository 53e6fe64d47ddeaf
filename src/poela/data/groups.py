"""Groups of episodes by a column of the log: its categories, its few values, or quantiles of a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.readable import plain
from poela.data.clusters import label_of_episodes
from poela.data.decided import of_decisions
from poela.data.labels import encode, is_label
from poela.data.layout import LogLayout
from poela.data.opening import explain_read_errors, open_source
from poela.data.order import in_table
from poela.data.reshaping import put_right
from poela.data.rows import RowProblems
from poela.data.schema import TableSchema, Variable
from poela.data.tables import ordered
from poela.data.trajectories import Trajectories
from poela.data.words import bad_log, counted, kind_in_words, quoted

# Columns of a table that are no part of the log, such as the site of a stay: one value for each episode.


def episode_columns(source: Any, layout: LogLayout | None, names: Sequence[str]) -> dict[str, Mapping[Any, Any]]:
    """The value of these columns for each episode of a table, by the episode's id; a missing value is None.

    A column that changes within an episode is refused: it is no property of a case.

    >>> import pyarrow as pa
    >>> table = pa.table({"episode": ["b", "a", "a"], "step": [0, 0, 1], "site": ["north", None, None],
    ...                   "action": [0, 1, 0], "reward": [0, 0, 1]})
    >>> episode_columns(table, None, ["site"])
    {'site': {'a': None, 'b': 'north'}}
    """
    if not names:
        return {}
    layout = layout or LogLayout()
    with explain_read_errors(source):
        source, layout, _ = put_right(source, layout)
        opened = open_source(source, layout, (*layout.label_columns, *names))
        layout = in_table(of_decisions(layout, opened.names), opened)
        missing = [name for name in names if name not in opened.names]
        if missing:
            raise bad_log([f"there is no column {quoted(missing)} to group by: choose from {quoted(opened.names)}"])
        row_problems, problems = RowProblems(), []
        episodes, _, _ = ordered(opened, layout, row_problems)
        if episodes is None:
            raise bad_log(row_problems.sentences())
        ids = np.asarray(episodes.values.to_numpy(zero_copy_only=False)).tolist()
        found: dict[str, Mapping[Any, Any]] = {}
        for name in names:
            column = opened.read(name)
            if not is_label(column.type):
                problems.append(f"column {quoted(name)} is {kind_in_words(column.type)}: group by text or numbers")
                continue
            labels = encode(column)
            codes, changing = label_of_episodes(labels, episodes, name)
            if changing:
                instead = "group by a column that is the same throughout an episode"
                if name == layout.step:
                    instead = "gains are those of whole episodes; poela report --by step shows changes by step"
                problems.append(f"{changing}: {instead}")
            values = [*labels.values.to_pylist(), None]  # the code −1 is the last
            found[name] = dict(zip(ids, (values[code] for code in codes), strict=True))
    if problems:
        raise bad_log(problems)
    return found


MOST_VALUES, BINS = 6, 4  # a number of more values than that is cut into so many quantiles
MOST_GROUPS = 20  # of one column
MOST_NAMED = 3  # groups that are named where they are merged with small ones
SMALLEST_GROUP = 10  # cases: fewer might tell of single persons
MISSING, UNKNOWN = "missing", "not in the log learned from"


@dataclass(frozen=True)
class GroupBy:
    """A column that groups episodes and, for numbers, the number of quantile bins.

    >>> GroupBy.of("age:3"), GroupBy.of("ward"), GroupBy.of("time:1", columns=["time:1"])
    (GroupBy(column='age', bins=3), GroupBy(column='ward', bins=None), GroupBy(column='time:1', bins=None))
    """

    column: str
    bins: int | None = None

    @classmethod
    def of(cls, text: str, columns: Sequence[str] = ()) -> "GroupBy":
        """From "age" or "age:3"; a colon may also be part of one of the known columns' names."""
        name, colon, number = text.rpartition(":")
        if text in columns or not colon or not number.strip().isdigit():
            return cls(text.strip())
        if not 2 <= int(number) <= MOST_GROUPS:
            raise InputError(f"{quoted(text)} asks for {number} groups: choose from 2 to {MOST_GROUPS}")
        return cls(name.strip(), int(number))


@dataclass(frozen=True, eq=False)
class EpisodeColumn:
    """A column with one value for each episode: numbers (NaN: missing), or text (None: missing)."""

    name: str
    values: "FloatArray | Sequence[str | None]"

    @property
    def is_number(self) -> bool:
        """Whether values can be cut into quantiles."""
        return isinstance(self.values, np.ndarray)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of one column: their names, the place [n] of each episode's group, and what was merged, in words."""

    column: str
    names: tuple[str, ...]
    place: IntArray
    note: str = ""


def context_column(parts: Sequence[Trajectories], name: str) -> EpisodeColumn | None:
    """A context column at the first step of every episode of these logs; None where it is not in their context.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[50.0], [51.0], [70.0]], [0, 0, 1], [0, 1, 0], [0, 2, 3], feature_names=["age"])
    >>> context_column([logs], "age").values
    array([50., 70.])
    """
    first = np.concatenate([logs.initial_contexts for logs in parts])
    features, schema = parts[0].feature_names, parts[0].schema or TableSchema.plain(parts[0].feature_names)
    places = {feature: place for place, feature in enumerate(features)}
    for variable in schema.variables:
        if variable.name == name and set(variable.features) <= set(places):
            return EpisodeColumn(name, _values(variable, first[:, [places[one] for one in variable.features]]))
    return EpisodeColumn(name, np.asarray(first[:, places[name]], np.float64)) if name in places else None


def _values(variable: Variable, features: FloatArray) -> "FloatArray | list[str | None]":
    """The column that became these features [n, k]."""
    missing = np.asarray(features[:, -1] > 0) if variable.indicated else np.zeros(len(features), np.bool_)
    if variable.kind == "category":
        ones = features[:, : len(variable.categories)] > 0
        known, place = np.asarray(ones.any(axis=1)), np.asarray(ones.argmax(axis=1))
        return [
            None if gap else variable.categories[number] if seen else UNKNOWN
            for gap, seen, number in zip(missing.tolist(), known.tolist(), place.tolist(), strict=True)
        ]
    if variable.kind == "ordinal":
        last = len(variable.categories) - 1
        places = np.clip(features[:, 0].round().astype(int), 0, last)
        return [None if gap else variable.categories[place] for gap, place in zip(missing, places, strict=True)]
    return np.where(missing, np.nan, np.asarray(features[:, 0], np.float64))


def table_column(
    parts: Sequence[Trajectories], name: str, values: Mapping[Any, Any], *, as_numbers: bool
) -> EpisodeColumn:
    """A column of the table itself, by the ids of episodes; numbers if all values are and that is wanted."""
    ids = [one for logs in parts for one in np.asarray(logs.episode_ids).tolist()]
    found = [values.get(one) for one in ids]
    numbers = [_number(value) for value in found]
    many = len({value for value in found if value is not None}) > MOST_VALUES
    if (as_numbers or many) and all(number is not None for number in numbers):
        return EpisodeColumn(name, np.array(numbers, np.float64))
    return EpisodeColumn(name, [None if value is None else str(value) for value in found])


def _number(value: Any) -> float | None:
    """A value as a number, NaN where it is missing; None where it is something else."""
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        return None


def binned(values: FloatArray, bins: int | None = None) -> tuple[tuple[str, ...], IntArray]:
    """Names and places [n] of the groups of a number: each value if there are few, else quantiles; NaN apart.

    >>> names, places = binned(np.arange(8.0))  # whole numbers have whole ends
    >>> names, places
    (('up to 1', '1 to 3', '3 to 5', 'above 5'), array([0, 0, 1, 1, 2, 2, 3, 3]))
    >>> binned(np.array([1.0, 0.0, np.nan]))
    (('0', '1', 'missing'), array([1, 0, 2]))
    """
    known = values[~np.isnan(values)]
    distinct = np.unique(known)
    if len(distinct) <= (MOST_VALUES if bins is None else 1):
        names, place = tuple(f"{value:.6g}" for value in distinct), np.searchsorted(distinct, values)
    else:
        edges = np.quantile(known, np.linspace(0, 1, (bins or BINS) + 1)[1:-1])
        edges = np.unique(np.floor(edges) if (distinct == np.round(distinct)).all() else edges)
        edges = edges[edges < distinct[-1]]  # nothing is above the largest
        edges = edges if len(edges) else distinct[-2:-1]  # most have the largest
        shown = [plain(float(edge)) for edge in edges]
        names = (f"up to {shown[0]}", *(f"{a} to {b}" for a, b in pairwise(shown)), f"above {shown[-1]}")
        place = np.searchsorted(edges, values)
    if len(known) == len(values):
        return names, place
    return (*names, MISSING), np.where(np.isnan(values), len(names), place)


def grouped(column: EpisodeColumn, bins: int | None, units: IntArray, smallest: int = SMALLEST_GROUP) -> Grouping:
    """The groups of a column, with small ones merged so that none has fewer than `smallest` cases.

    Cases are the units [n] of episodes: clusters such as patients or, where none are named, the episodes themselves.
    Small groups become one; while that is too small itself, the next smallest joins it. So nothing is left out, and no
    difference of what is shown tells of a small group.

    >>> ward = EpisodeColumn("ward", ["ICU"] * 12 + ["surgery"] * 11 + ["maternity"] * 2)
    >>> found = grouped(ward, None, np.arange(25))
    >>> found.names, np.bincount(found.place).tolist(), found.note
    (('ICU', 'surgery or other'), [12, 13], 'ward: 2 groups are merged, since one has fewer than 10 cases')
    """
    if column.is_number:
        names, place = binned(np.asarray(column.values), bins)
    elif bins is not None:
        raise InputError(f"column {quoted(column.name)} is no number, so it has no quantiles: group by its values")
    else:
        texts = [MISSING if value is None else value for value in column.values]
        names = tuple(sorted(set(texts), key=lambda name: (name in (MISSING, UNKNOWN), name)))
        number = {name: code for code, name in enumerate(names)}
        place = np.array([number[text] for text in texts], np.int64)
    return _without_small(column.name, names, place, units, smallest)


def _without_small(column: str, names: tuple[str, ...], place: IntArray, units: IntArray, smallest: int) -> Grouping:
    cases = np.array([len(np.unique(units[place == number])) for number in range(len(names))])
    merged: BoolArray = (cases < smallest) | (np.argsort(np.argsort(-cases, kind="stable")) >= MOST_GROUPS)
    small = int((cases < smallest).sum())
    while merged.any() and not merged.all() and len(np.unique(units[merged[place]])) < smallest:
        merged[np.flatnonzero(~merged)[cases[~merged].argmin()]] = True
    merged &= cases > 0
    kept = np.flatnonzero((cases > 0) & ~merged)
    if merged.sum() < 2:  # a single group is no smaller by another name
        kept, merged = np.flatnonzero(cases > 0), np.zeros_like(merged)
    new = np.full(len(names), len(kept))
    new[kept] = np.arange(len(kept))
    found = tuple(names[number] for number in kept)
    if not merged.any():
        return Grouping(column, found, new[place])
    together = np.flatnonzero(merged)
    large = [names[number] for number in together if cases[number] >= smallest]
    # Not by their names: that somebody has a rare value is told by the name alone.
    parts = [*large, *(["other"] if len(large) < len(together) else [])]
    other = " or ".join(parts) if len(together) <= MOST_NAMED else f"{len(together)} others"
    whose = f"one has fewer than {smallest} cases" if small == 1 else f"{small} have fewer than {smallest} cases"
    if not small:
        whose = f"there are more than {MOST_GROUPS}"
    note = f"{column}: {counted(len(together), 'group')} are merged, since {whose}"
    return Grouping(column, (*found, other), new[place], note)
