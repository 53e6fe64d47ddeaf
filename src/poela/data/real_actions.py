"""Action columns that hold real numbers, such as doses: named as several, beside a log density, or full of decimals."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, freeze
from poela.core.validation import LARGEST
from poela.data.labels import Labels
from poela.data.layout import LogLayout
from poela.data.numbers import read_doubles
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.words import quoted
from poela.data.writing import action_columns_noted

if TYPE_CHECKING:
    from poela.data.order import Order

# More of a column's different values than this must have decimals for it to be a dose rather than a slip.
MOSTLY = 0.5
MOST_NATS = 100.0  # of a log density and amount: actions 14 standard deviations away are not drawn


@dataclass(frozen=True, eq=False)
class RealActions:
    """The actions of a log as numbers, its rows in their final order."""

    actions: FloatArray  # [N, m]
    log_densities: FloatArray | None  # [N]


def with_noted_actions(layout: LogLayout, source: TableSource) -> LogLayout:
    """The layout with the action columns that `to_table` noted, unless the user names others."""
    noted = action_columns_noted(source.schema.metadata)
    fits = bool(noted) and layout.action == LogLayout().action and set(noted) <= set(source.names)
    return replace(layout, action=noted) if fits else layout


def doses_in(layout: LogLayout, source: TableSource, labels: Labels | None) -> FloatArray | None:
    """The one action column as numbers, by row of the file, where most of its values have decimals."""
    if labels is None or layout.actions is not None or layout.propensity is not None:
        return None
    values = [_number(value, source.decimal or ".") for value in labels.values.to_pylist()]
    numbers = [value for value in values if value is not None]
    decimals = sum(value % 1 != 0 for value in numbers)
    if len(numbers) < len(values) or decimals <= MOSTLY * len(values):
        return None
    return np.array([*numbers, np.nan])[labels.codes]  # the last one stands for what is missing, which is told


def with_doses(layout: LogLayout) -> tuple[LogLayout, str]:
    """The layout with its one action column as a real number, and a note that it is taken so."""
    name = layout.action_columns[0]
    return replace(layout, action=(name,)), (
        f"column {quoted(name)} holds numbers with decimals: actions are taken as real numbers"
    )


def read_actions(
    source: TableSource, layout: LogLayout, doses: FloatArray | None, order: "Order | None", found: RowProblems
) -> RealActions | None:
    """The columns of real-valued actions and of their log density; None where one cannot be read.

    `doses` are the one action column, where it is known already: in a CSV file it was read as text.
    """
    density = () if layout.log_density is None else (layout.log_density,)
    if doses is not None and order is not None:
        known = read_doubles(source, density, order, found) if density else np.empty((source.n_rows, 0))
        numbers = None if known is None else np.concatenate([order.place(doses)[:, None], known], axis=1)
    else:
        numbers = read_doubles(source, (*layout.action_columns, *density), order, found)
    if numbers is None:
        return None
    m = len(layout.action_columns)
    _note_impossible(layout, numbers[:, :m], numbers[:, m:], order, found)
    densities = None if layout.log_density is None else freeze(np.ascontiguousarray(numbers[:, m]))
    return RealActions(freeze(np.ascontiguousarray(numbers[:, :m])), densities)


def _note_impossible(
    layout: LogLayout, actions: FloatArray, densities: FloatArray, order: "Order | None", found: RowProblems
) -> None:
    """Amounts that cannot be reckoned with, and log densities that no logged action can have had."""

    def note(bad: BoolArray, what: str, remedy: str) -> None:
        found.note(bad if order is None else order.in_file(bad), what, remedy)

    for name, values in zip(layout.action_columns, actions.T, strict=True):
        note(np.abs(values) > LARGEST, f"column {quoted(name)} is beyond {LARGEST:g}", "correct it, or scale it down")
    usual = np.isfinite(actions).all(axis=1) & (np.abs(actions) <= LARGEST).all(axis=1)
    if layout.log_density is None or not usual.any():
        return
    spread = actions[usual].std(axis=0)
    # On the scale of the logged amounts, so that their unit does not matter.
    standardised = densities[:, 0] + np.log(spread[spread > 0]).sum()
    note(
        np.isfinite(densities[:, 0]) & (np.abs(standardised) > MOST_NATS * actions.shape[1]),
        f"column {quoted(layout.log_density)} is no log density that a logged action can have",
        "give the natural logarithm of the density that each logged action had, or leave it out",
    )


def _number(value: object, decimal: str) -> float | None:
    try:
        number = float(str(value).replace(decimal, "."))
    except ValueError:
        return None
    return number if np.isfinite(number) and not isinstance(value, bool) else None
