"""Doses before and after: on the whole, and along one column of what was known."""

from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray
from poela.report.dose_logs import DoseLogs
from poela.report.numbers.enough import enough_cases

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
