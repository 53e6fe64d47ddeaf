"""What an interval is, what it is made of, and what is known of returns beforehand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, ndtri, stdtrit

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.readable import plain
from poela.core.typed import refuse_problems
from poela.stats.contributions import Contributions, standard_error

if TYPE_CHECKING:
    from poela.stats.bootstrap import Resampled

DEFAULT_RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """Two ends, how they were made, and on how many resamples the estimate could not be computed.

    >>> Interval(0.5, 1.5, "normal").width
    1.0
    """

    low: float  # its lower end
    high: float  # its upper end
    method: str  # that made it
    undefined_resamples: int = 0  # in which the estimate was no number

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

    lowest_return: float  # no episode can have less
    highest_return: float  # no episode can have more
    largest_weight: float | None = None  # None: not known

    def __post_init__(self) -> None:
        refuse_problems(self)
        if not self.lowest_return <= self.highest_return:
            raise InputError(f"returns from {self}: the lowest comes first")

    def __str__(self) -> str:
        return f"{plain(self.lowest_return)} to {plain(self.highest_return)}"

    def refuse_outside(self, returns: FloatArray) -> None:
        """Refuse returns that are lower or higher.

        >>> Bounds(0.0, 1.0).refuse_outside(np.array([0.5, 2.0]))
        Traceback (most recent call last):
        poela.core.errors.InputError: 1 of 2 episodes have returns outside of 0 to 1: give a wider range, or correct ...
        """
        outside = (returns < self.lowest_return) | (returns > self.highest_return)
        if outside.any():
            raise InputError(
                f"{int(outside.sum())} of {len(returns)} episodes have returns outside of {self}: give a wider range, "
                "or correct the rewards"
            )

    @property
    def return_range(self) -> float:
        """Highest minus lowest return."""
        return self.highest_return - self.lowest_return

    @classmethod
    def of(cls, returns: FloatArray) -> "Bounds | None":
        """The range of yes/no outcomes, which the returns themselves show; None where they may be anything.

        >>> Bounds.of(np.array([0.0, 100.0, 0.0])), Bounds.of(np.zeros(3)), Bounds.of(np.array([0.0, 1.0, 2.0]))
        (Bounds(lowest_return=0.0, highest_return=100.0, largest_weight=None), Bounds(lowest_return=0.0, ...), None)
        """
        lowest, highest = float(returns.min()), float(returns.max())
        if not np.logical_or(returns == lowest, returns == highest).all():
            return None
        if lowest < highest:
            return cls(lowest, highest)
        # Nothing but noes, or nothing but yeses: the other may come yet.
        return cls(0.0, 1.0) if lowest in (0.0, 1.0) else None


@dataclass(frozen=True, eq=False)
class Sample:
    """What intervals are made of: the contributions of independent units, and what else a method may need.

    `returns` are those of the logged episodes. `pool` holds what episodes recombined from logged steps would contribute
    (see `poela.evaluation.recombination`); `refitted` draws resamples with a behavior model fitted on each. `ess` is
    how many effective units the weights leave, where the contributions' denominators do not tell it.

    >>> Sample(Contributions.mean(np.array([1.0])))
    Traceback (most recent call last):
    poela.core.errors.InputError: an interval needs at least 2 independent episodes; here are 1
    """

    contributions: Contributions  # of the episodes to the estimate
    seed: int = 0  # of the resamples
    resamples: int = DEFAULT_RESAMPLES  # how many
    returns: FloatArray | None = None  # of the episodes
    bounds: Bounds | None = None  # what is known of returns and weights beforehand
    pool: Contributions | None = None  # of episodes recombined from logged steps
    refitted: "Callable[[int, int], Resampled] | None" = None  # estimates with behavior models fitted anew
    ess: float | None = None  # effective sample size

    def __post_init__(self) -> None:
        problems = []
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


Need = Literal["bounds", "whole episodes", "self-normalised", "behavior"]


@dataclass(frozen=True)
class IntervalMethod:
    """A way to make intervals at many levels from one sample, and what it cannot do without."""

    ends: Callable[[Sample, Sequence[float]], list[Interval]]
    needs: frozenset[Need] = field(default=frozenset())

    def problems(self, sample: Sample) -> list[str]:
        """What is missing, each as one sentence."""
        units = sample.contributions
        lacking: dict[Need, tuple[bool, str]] = {
            "bounds": (
                sample.bounds is None or sample.bounds.largest_weight is None,
                "this interval needs bounds=Bounds(lowest_return, highest_return, largest_weight)",
            ),
            "whole episodes": (
                units.numerators.shape[1] > 1,
                "this interval is for estimators that weight whole episodes: is, truncated_is, snis or sntis",
            ),
            "self-normalised": (
                units.numerators.shape[1] > 1 or bool(np.ptp(units.denominators) == 0),
                "this interval needs a self-normalised estimator of whole episodes: snis or sntis",
            ),
            "behavior": (
                sample.refitted is None,
                "this interval fits a behavior model anew on each resample: give its settings (behavior=...), and an "
                "estimator that rests on propensities alone (is, snis, sntis, ...)",
            ),
        }
        return [sentence for need, (missing, sentence) in lacking.items() if need in self.needs and missing]


def carriers(contributions: Contributions) -> int:
    """How many episodes have any weight; where it is one, there is no interval.

    >>> carriers(Contributions.ratio(np.array([0.0, 3.0, 0.0]), np.array([0.0, 1.0, 2.0])))
    2
    """
    return int((contributions.denominators != 0).any(axis=1).sum())


def in_clusters(
    contributions: Contributions, clusters: IntArray | None, strata: IntArray | None = None
) -> Contributions:
    """The contributions of clusters of episodes, such as patients with several stays; `strata` are episodes' loggers.

    >>> in_clusters(Contributions.mean(np.array([1.0, 2.0, 6.0])), np.array([7, 7, 8])).numerators[:, 0]
    array([3., 6.])
    """
    if clusters is None:
        return contributions if strata is None else replace(contributions, strata=strata)
    if len(clusters) != contributions.n_episodes:
        raise InputError(f"clusters names {len(clusters)} episodes; there are {contributions.n_episodes}")
    names, first, cluster_of = np.unique(clusters, return_index=True, return_inverse=True)
    # Every estimate is a function of sums, so a cluster counts as one episode that holds its sums.
    return Contributions(
        _sums_by(contributions.numerators, cluster_of, len(names)),
        _sums_by(contributions.denominators, cluster_of, len(names)),
        contributions.fit_variance,
        None if strata is None else strata[first],  # logs share no clusters
    )


def _sums_by(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


# Intervals for yes/no outcomes and other bounded returns, down to no event at all.
# An estimate of a rare rate is a weighted count. Seen as a gamma variable of the same mean and variance it has the
# exact interval's shape, and one more event of the weight of an effective episode is what may have been missed (Fay &
# Feuer 1997, for weighted sums of Poisson counts); half of that event counts (mid-p), which is less cautious. With no
# event among ESS effective episodes the upper end is about 3 / ESS: the rule of three.

NOTHING = 1e-9  # beside one event


def bounded_ends(
    value: float, error: float, ess: float, bounds: Bounds, levels: Sequence[float]
) -> list[tuple[float, float]]:
    """Ends within the bounds, for an estimate with this standard error and effective sample size.

    The rate of events and the rate of what is no event are the same question asked from both sides; both answers count.

    >>> [(low, high)] = bounded_ends(0.0, 0.0, 100.0, Bounds(0.0, 1.0), [0.95])
    >>> low, round(high, 3)
    (0.0, 0.03)
    """
    lowest, highest = bounds.lowest_return, bounds.highest_return
    if lowest == highest:
        return [(lowest, highest)] * len(levels)
    value = min(max(value, lowest), highest)
    jump = bounds.return_range / ess
    ends_by_level = []
    for level in levels:
        low, high = (jump * end for end in _gamma_ends((value - lowest) / jump, error / jump, level))
        rest_low, rest_high = (jump * end for end in _gamma_ends((highest - value) / jump, error / jump, level))
        ends = min(lowest + low, highest - rest_high), max(lowest + high, highest - rest_low)
        ends_by_level.append((max(ends[0], lowest), min(ends[1], highest)))
    return ends_by_level


def _gamma_ends(mean: float, error: float, level: float) -> tuple[float, float]:
    """Equal-tailed quantiles of half Gamma(mean, error²), half of that and one more event; all in events."""

    def share_below(amount: float) -> float:
        one_more = _gamma_below(amount, mean + 1, error**2 + 1)
        return 0.5 * _gamma_below(amount, mean, error**2) + 0.5 * one_more

    def quantile(share: float) -> float:
        if share_below(0.0) >= share:
            return 0.0
        reach = mean + 1
        while share_below(reach) < share:
            reach *= 2
        return float(brentq(lambda amount: share_below(amount) - share, 0.0, reach, xtol=1e-12 * reach))

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


def _gamma_below(amount: float, mean: float, variance: float) -> float:
    """P(X ≤ amount) for a gamma variable; next to no variance makes it its mean, next to no mean makes it zero."""
    if mean <= NOTHING or variance <= (NOTHING * mean) ** 2:
        return float(amount >= mean)
    return float(gammainc(mean**2 / variance, amount * mean / variance)) if amount > 0 else 0.0


def two_valued(bounds: Bounds, returns: np.ndarray) -> bool:
    """Whether the returns take no value but the two ends of their range.

    >>> two_valued(Bounds(0.0, 1.0), np.array([0.0, 1.0])), two_valued(Bounds(0.0, 1.0), np.array([0.5]))
    (True, False)
    """
    return bool(np.isin(returns, (bounds.lowest_return, bounds.highest_return)).all())


# Closed-form intervals from the influence of each episode: the normal approximation and a Student version of it.


def normal(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Estimate ± normal quantile × standard error (Owen 2013, equation 9.9, for any sum of ratios).

    >>> [interval] = normal(Sample(Contributions.mean(np.array([1.0, 3.0]))), [0.95])
    >>> round(interval.high - 2.0, 6) == round(1.959964 * 0.5**0.5, 6)
    True
    """
    return [_around(sample.contributions, float(ndtri((1 + level) / 2)), "normal") for level in levels]


def student(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """As `normal`, with Student quantiles whose degrees of freedom tell how well the variance itself is known.

    >>> sample = Sample(Contributions.mean(np.array([0.0, 1.0, 2.0, 9.0])))
    >>> student(sample, [0.9])[0].width > normal(sample, [0.9])[0].width
    True
    """
    freedom = degrees_of_freedom(sample.contributions.influence)
    return [_around(sample.contributions, float(stdtrit(freedom, (1 + level) / 2)), "student") for level in levels]


def degrees_of_freedom(influence: FloatArray) -> float:
    """Satterthwaite's match of the variance estimate's own variance: n for normal values, about 2 for one outlier.

    Heavy weights make the few largest squares decide the variance; their number, not that of episodes, counts. There
    are never more than the units less one.

    >>> round(degrees_of_freedom(np.array([1.0, -1.0] * 50 + [1000.0])), 1)
    2.0
    """
    squares = np.square(influence)
    total = squares.sum()
    most = max(len(influence) - 1.0, 1.0)
    if total == 0:
        return most
    spread = float(np.square(squares / total).sum()) - 1 / len(squares)
    return min(2 / spread, most) if spread > 0 else most


def against_tail(errors: float, skew: float) -> float:
    """How many standard errors a lower end has to be away, where it is this many if nothing is skewed towards losses.

    The inverse of Hall's transformation t − skew·t²/3 + skew²·t³/27 − skew/6, which is as good as normal; `skew` is
    skewness over √n. Up to three times as many: there the transformation is flat.

    >>> [round(against_tail(1.645, skew), 2) for skew in (0.0, 0.05, 0.15, 0.9)]
    [1.65, 1.7, 1.83, 5.38]
    >>> t = against_tail(2.0, 0.1)
    >>> round(t - 0.1 * t**2 / 3 + 0.1**2 * t**3 / 27 - 0.1 / 6, 9)
    2.0
    """
    if skew < 1e-6:  # too little to tell from rounding
        return errors
    flat = min(skew * (errors + skew / 6), 1.0)
    return float(3 * (errors + skew / 6) * (1 - np.cbrt(1 - flat)) / flat)


def _around(units: Contributions, quantile: float, method: str) -> Interval:
    reach = quantile * standard_error(units)
    value = units.value
    return Interval(value - reach, value + reach, method)
