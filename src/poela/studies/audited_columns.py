"""The context columns of logs as an audit sees them: one number for each row, and where there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.data.schema import Variable
from poela.data.trajectories import Trajectories


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
