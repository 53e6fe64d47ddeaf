"""Columns whose equal values mark rows that belong together, such as those of one patient, where nobody says so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.data.trajectories import Trajectories
from poela.studies.findings_of_audit import Finding, named
from poela.studies.telling_columns import COMMON, LEVELS, Column, ranks

LARGEST = 50  # rows of a value, on average: values that are commoner are categories
FEWEST = 8  # values that may be clusters where propensities tell what chance would do
ERRORS, ERRORS_OF_FEW = 5.0, 8.0  # standard errors by which rows of a value must be more alike than chance
ALIKE, CONSTANT, FIXED = 0.1, 0.5, 0.9  # correlations of what was done within a value
OUTCOME_ALIKE = 0.1  # correlation of what came of it
MOST = 30  # categories or actions that are told apart
ADVICE = (
    "if its values are what rows belong to (patients, sites, …), name it as the cluster (--cluster); if it was "
    "recorded after the decision, leave it out"
)


@dataclass(frozen=True)
class Likeness:
    """How much alike different units with the same value are, and units with the next value."""

    within: float  # correlation
    beside: float
    errors: float  # standard errors of the first, from none
    values: int

    def exceeds(self, least: float) -> bool:
        """Whether equal values count, and near ones do not, as they would if the column were a quantity."""
        needed = ERRORS if self.values >= LEVELS else ERRORS_OF_FEW
        return self.within > least and self.errors > needed and self.beside < self.within / 2


def likeness(residuals: FloatArray, levels: IntArray, units: IntArray) -> Likeness:
    """Of residuals [n, k], each column with mean 0 under chance; pairs of the same unit do not count.

    >>> rng = np.random.default_rng(0)
    >>> levels = np.repeat(np.arange(100), 10)
    >>> same = np.repeat(rng.choice([-1.0, 1.0], size=(100, 1)), 10, axis=0)
    >>> likeness(same, levels, np.arange(1000)).within, likeness(same, levels, np.arange(1000)).exceeds(0.5)
    (1.0, True)
    """
    scale = np.sqrt(np.square(residuals).mean(axis=0).sum())
    if not scale > 0:
        return Likeness(0.0, 0.0, 0.0, 0)
    count = int(levels.max()) + 1
    pair = levels * (int(units.max()) + 1) + units
    of_unit = np.unique(pair, return_inverse=True)[1]
    sums, unit_sums = _sums(residuals / scale, levels, count), _sums(residuals / scale, of_unit, int(of_unit.max()) + 1)
    sizes, unit_sizes = np.bincount(levels, minlength=count), np.bincount(of_unit)
    pairs = float(np.square(sizes).sum() - np.square(unit_sizes).sum())
    neighbours = float((sizes[1:] * sizes[:-1]).sum())
    if pairs <= 0:
        return Likeness(0.0, 0.0, 0.0, count)
    within = float(np.square(sums).sum() - np.square(unit_sums).sum())
    beside = float((sums[1:] * sums[:-1]).sum()) / max(neighbours, 1.0)
    return Likeness(within / pairs, beside, within / np.sqrt(2 * pairs), count)


def _sums(residuals: FloatArray, groups: IntArray, count: int) -> FloatArray:
    return np.column_stack([np.bincount(groups, column, count) for column in residuals.T])


def may_be_cluster(column: Column, units: IntArray, *, known: bool) -> bool:
    """Whether a column has many values, none of them in most units, each in several."""
    levels = column.levels
    units_of = len(np.unique(levels * (int(units.max(initial=0)) + 1) + units))
    count, largest = int(levels.max(initial=0)) + 1, int(np.bincount(levels).max())
    if count < (FEWEST if known else LEVELS) or largest > len(levels) / 4 or units_of < 1.5 * count:
        return False
    return known or _is_fine(levels)


def _is_fine(levels: IntArray) -> bool:
    """Whether values are so many, and each so rare, that they are hardly categories."""
    counts = np.bincount(levels)
    return len(counts) >= LEVELS and len(levels) <= LARGEST * len(counts) and counts.max() <= COMMON * len(levels)


def unnamed_clusters(
    logs: Trajectories, columns: Sequence[Column], residuals: FloatArray, *, known: bool
) -> Iterator[tuple[Finding, Column]]:
    """Columns within whose values actions, or outcomes, are more alike than chance has it.

    Those that are the same wherever such a column is, such as the age of a patient, are not named beside it.
    `residuals` [N, k] are what was done, less what was to be expected; `known`: by logged propensities.
    """
    units = logs.units[logs.episode_of_step]
    candidates = [column for column in columns if may_be_cluster(column, units, known=known)]
    named_already: list[IntArray] = []
    for column in sorted(candidates, key=lambda one: -int(one.levels.max())):
        levels = column.levels
        if any(_follows(levels, finer) for finer in named_already):
            continue
        alike = likeness(residuals, levels, units)
        constant = alike.exceeds(CONSTANT if known else FIXED)
        if constant or alike.exceeds(ALIKE if known else CONSTANT):
            what = "almost always the same action" if constant else "the same action more often than chance has it"
            sentence = f"rows with the same value of {named([column.name])} have {what}"
            named_already.append(levels)
            yield Finding("cluster", (column.name,), sentence, ADVICE, voids_weights=constant or known), column
        elif _is_fine(levels) and _outcomes(logs, columns, column).exceeds(OUTCOME_ALIKE):
            sentence = f"outcomes are alike where {named([column.name])} has the same value"
            named_already.append(levels)
            yield Finding("cluster", (column.name,), sentence, ADVICE), column


def _follows(levels: IntArray, finer: IntArray) -> bool:
    """Whether the second tells the first."""
    return len(np.unique(levels * (int(finer.max()) + 1) + finer)) == int(finer.max()) + 1


def _outcomes(logs: Trajectories, columns: Sequence[Column], column: Column) -> Likeness:
    """Likeness of returns, by episode, beyond what the other columns and the first action explain linearly."""
    first = logs.offsets[:-1]
    own = column.take(first)
    others = [other.take(first) for other in columns if other is not column]
    numbers = [ranks(other.values) for other in others if not other.is_text]
    coded = [(other.levels[:, None] == np.arange(MOST)).astype(float) for other in others if other.is_text]
    done = logs.action_space.columns(logs.actions[first])
    done = done[:, done.any(axis=0)][:, :MOST]
    design = np.column_stack([np.ones(len(first)), done, *numbers, *coded])
    outcomes = ranks(logs.returns())
    fitted = design @ np.linalg.lstsq(design, outcomes, rcond=None)[0]
    return likeness((outcomes - fitted)[:, None], own.levels, np.asarray(logs.units))
