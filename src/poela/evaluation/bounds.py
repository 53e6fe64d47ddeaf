"""What an interval is, and what every way to make one agrees on."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.evaluation.contributions import Contributions

DEFAULT_RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """Two ends, how they were made, and on how many resamples the estimate could not be computed.

    >>> Interval(0.5, 1.5, "normal").width
    1.0
    """

    low: float
    high: float
    method: str
    undefined_resamples: int = 0

    @property
    def width(self) -> float:
        """From end to end."""
        return self.high - self.low


@dataclass(frozen=True)
class Bounds:
    """What is known beforehand of every episode: the range of returns and the largest possible weight.

    >>> Bounds(0.0, 100.0, largest_weight=1000.0).return_range
    100.0
    """

    lowest_return: float
    highest_return: float
    largest_weight: float

    @property
    def return_range(self) -> float:
        """Highest minus lowest return."""
        return self.highest_return - self.lowest_return


class IntervalMethod(Protocol):
    """What every entry of `INTERVALS` looks like; methods ignore what they do not need."""

    def __call__(
        self,
        contributions: Contributions,
        level: float = 0.95,
        *,
        seed: int = 0,
        resamples: int = DEFAULT_RESAMPLES,
        clusters: IntArray | None = None,
        bounds: Bounds | None = None,
    ) -> Interval:
        """The interval at this level."""


def prepared(contributions: Contributions, level: float, clusters: IntArray | None) -> Contributions:
    """The contributions of independent units (clusters, or else episodes), after checking the input.

    >>> prepared(Contributions.mean(np.array([1.0, 2.0, 6.0])), 0.95, np.array([7, 7, 8])).numerators[:, 0]
    array([3., 6.])
    """
    problems = []
    if not 0 < level < 1:
        problems.append(f"level {level} must lie between 0 and 1, for example 0.95")
    if contributions.n_episodes < 2:
        problems.append(f"an interval needs at least 2 episodes; there are {contributions.n_episodes}")
    if clusters is not None and len(clusters) != contributions.n_episodes:
        problems.append(f"clusters names {len(clusters)} episodes; there are {contributions.n_episodes}")
    if problems:
        raise InputError(problems)
    if clusters is None:
        return contributions
    names, cluster_of = np.unique(clusters, return_inverse=True)
    if len(names) < 2:
        raise InputError("an interval needs at least 2 clusters; all episodes are in one")
    # Every estimate is a function of sums, so a cluster counts as one episode that holds its sums.
    return Contributions(
        _sums_by(contributions.numerators, cluster_of, len(names)),
        _sums_by(contributions.denominators, cluster_of, len(names)),
    )


def _sums_by(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, values)
    return sums
