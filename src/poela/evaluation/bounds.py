"""What an interval is, and what it is made of."""

from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Pool:
    """Contributions of episodes recombined from logged steps, which show the tail of the weights; logged returns."""

    contributions: Contributions
    logged_returns: FloatArray


@dataclass(frozen=True, eq=False)
class Sample:
    """What an interval is made of: the contributions of independent units, the level, and what else a method may need.

    `pool` holds what episodes recombined from logged steps would contribute (see `poela.evaluation.recombination`).

    >>> Sample(Contributions.mean(np.array([1.0, 2.0])), level=1.5)
    Traceback (most recent call last):
    poela.core.errors.InputError: level 1.5 must lie between 0 and 1, for example 0.95
    """

    contributions: Contributions
    level: float = 0.95
    seed: int = 0
    resamples: int = DEFAULT_RESAMPLES
    bounds: Bounds | None = None
    pool: Pool | None = None

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.level < 1:
            problems.append(f"level {self.level} must lie between 0 and 1, for example 0.95")
        if self.contributions.n_episodes < 2:
            problems.append(
                f"an interval needs at least 2 independent episodes; here are {self.contributions.n_episodes}"
            )
        if self.resamples < 1:
            problems.append(f"resamples is {self.resamples}: at least 1 is needed")
        if problems:
            raise InputError(problems)

    @property
    def value(self) -> float:
        """The estimate."""
        return self.contributions.value


IntervalMethod = Callable[[Sample], Interval]


def carriers(contributions: Contributions) -> int:
    """How many episodes have any weight; where it is one, there is no interval.

    >>> carriers(Contributions.ratio(np.array([0.0, 3.0, 0.0]), np.array([0.0, 1.0, 2.0])))
    2
    """
    return int((contributions.denominators != 0).any(axis=1).sum())


def in_clusters(contributions: Contributions, clusters: IntArray) -> Contributions:
    """The contributions of clusters of episodes, such as patients with several stays.

    >>> in_clusters(Contributions.mean(np.array([1.0, 2.0, 6.0])), np.array([7, 7, 8])).numerators[:, 0]
    array([3., 6.])
    """
    if len(clusters) != contributions.n_episodes:
        raise InputError(f"clusters names {len(clusters)} episodes; there are {contributions.n_episodes}")
    names, cluster_of = np.unique(clusters, return_inverse=True)
    # Every estimate is a function of sums, so a cluster counts as one episode that holds its sums.
    return Contributions(
        _sums_by(contributions.numerators, cluster_of, len(names)),
        _sums_by(contributions.denominators, cluster_of, len(names)),
    )


def _sums_by(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, values)
    return sums
