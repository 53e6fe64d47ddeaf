"""Action columns that hold real numbers, such as doses: named as several, beside a log density, or full of decimals."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import FloatArray, freeze
from poela.data.labels import Labels
from poela.data.layout import LogLayout
from poela.data.numbers import read_doubles
from poela.data.rows import RowProblems
from poela.data.sources import Source
from poela.data.words import quoted
from poela.data.writing import action_columns_noted

if TYPE_CHECKING:
    from poela.data.order import Order

# More of a column's different values than this must have decimals for it to be a dose rather than a slip.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class RealActions:
    """The actions of a log as numbers, its rows in their final order."""

    actions: FloatArray  # [N, m]
    log_densities: FloatArray | None  # [N]


def with_noted_actions(layout: LogLayout, source: Source) -> LogLayout:
    """The layout with the action columns that `to_table` noted, unless the user names others."""
    noted = action_columns_noted(source.schema.metadata)
    fits = bool(noted) and layout.action == LogLayout().action and set(noted) <= set(source.names)
    return replace(layout, action=noted) if fits else layout


def with_doses(layout: LogLayout, source: Source, labels: Labels | None) -> tuple[LogLayout, tuple[str, ...]]:
    """The layout with its one action column as a real number, where most of its values have decimals; noted."""
    if labels is None or layout.actions is not None or layout.propensity is not None or layout.is_real:
        return layout, ()
    values = [_number(value, source.decimal or ".") for value in labels.values.to_pylist()]
    numbers = [value for value in values if value is not None]
    decimals = sum(value % 1 != 0 for value in numbers)
    if len(numbers) < len(values) or decimals <= MOSTLY * len(values):
        return layout, ()
    name = layout.action_columns[0]
    note = f"column {quoted(name)} holds numbers with decimals: actions are taken as real numbers"
    return replace(layout, action=(name,)), (note,)


def read_actions(source: Source, layout: LogLayout, order: "Order | None", found: RowProblems) -> RealActions | None:
    """The columns of real-valued actions and of their log density; None where one cannot be read."""
    wanted = (*layout.action_columns, *(() if layout.log_density is None else (layout.log_density,)))
    numbers = read_doubles(source, wanted, order, found)
    if numbers is None:
        return None
    m = len(layout.action_columns)
    densities = None if layout.log_density is None else freeze(np.ascontiguousarray(numbers[:, m]))
    return RealActions(freeze(np.ascontiguousarray(numbers[:, :m])), densities)


def _number(value: object, decimal: str) -> float | None:
    try:
        number = float(str(value).replace(decimal, "."))
    except ValueError:
        return None
    return number if np.isfinite(number) and not isinstance(value, bool) else None
