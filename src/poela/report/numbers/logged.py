"""What the logs are: how long episodes are, what was done, what came of it, and how good propensities are."""

from dataclasses import dataclass

import numpy as np

from poela.behavior.calibration import Calibration, calibration
from poela.core.arrays import FloatArray, IntArray
from poela.data.trajectories import Trajectories

MOST_BARS = 20


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts between edges, or of single values (then `edges` holds them, one for each count)."""

    edges: FloatArray
    counts: IntArray

    @property
    def single(self) -> bool:
        """Whether bars stand for single values."""
        return len(self.edges) == len(self.counts)


def histogram(values: FloatArray) -> Histogram:
    """Of few different values each, or of up to 20 bins of equal width.

    >>> histogram(np.array([1.0, 1.0, 4.0])).counts.tolist()
    [2, 1]
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= MOST_BARS // 2:
        return Histogram(np.asarray(distinct, np.float64), np.asarray(counts, np.int64))
    if (distinct == np.rint(distinct)).all() and np.ptp(distinct) < MOST_BARS:
        whole = np.arange(distinct[0], distinct[-1] + 1)
        return Histogram(whole, np.array([(values == value).sum() for value in whole]))
    counts, edges = np.histogram(values, bins=MOST_BARS)
    return Histogram(edges, np.asarray(counts, np.int64))


def propensity_calibration(logs: Trajectories) -> Calibration | None:
    """How well propensities fit what was done; None where those of other actions are not known."""
    if logs.propensities is None or logs.propensities.ndim == 1:
        return None
    return calibration(logs.propensities, logs.actions)


def only_yes_or_no(returns: FloatArray) -> bool:
    """Whether every return is 0 or 1, so that a mean is a share of cases.

    >>> only_yes_or_no(np.array([0.0, 1.0, 1.0])), only_yes_or_no(np.array([0.0, 0.5]))
    (True, False)
    """
    return bool(np.isin(returns, (0.0, 1.0)).all())
