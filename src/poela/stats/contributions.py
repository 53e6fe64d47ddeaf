"""What each episode adds to an estimate: every estimator here is a sum of ratios of episode sums.

Plain importance sampling is one ratio whose denominators are 1, self-normalised importance sampling one ratio
whose denominators are the weights, and the per-decision and doubly robust families one ratio for each step. Seen this
way, resampling, the jackknife and the normal approximation are the same few lines for all of them.
"""

from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.stats.weights import safe_shift


@dataclass(frozen=True, eq=False)
class Contributions:
    """Episode numerators and denominators [n, K]; the estimate is Σ_k (Σ_i numerator_ik / Σ_i denominator_ik).

    >>> weights, returns = np.array([1.0, 3.0]), np.array([0.0, 4.0])
    >>> Contributions.ratio(weights * returns, weights).value
    3.0
    """

    numerators: FloatArray  # [n, K], of the episodes
    denominators: FloatArray  # [n, K], whose sums divide those of the numerators
    fit_variance: float = 0.0  # of a fitted model that the estimate leans on: episodes' own influence does not show it
    strata: IntArray | None = None  # [n], the log of each unit, whose size is no chance; None: there is one

    @classmethod
    def ratio(cls, numerators: FloatArray, denominators: FloatArray) -> "Contributions":
        """One ratio, from vectors [n]."""
        return cls(numerators[:, None], denominators[:, None])

    @classmethod
    def mean(cls, values: FloatArray) -> "Contributions":
        """A plain mean of episode values [n]."""
        return cls.ratio(values, np.ones_like(values))

    @classmethod
    def weighted(cls, log_weights: FloatArray, returns: FloatArray) -> "Contributions":
        """The mean of weighted returns: importance sampling, from log weights [n] and returns [n].

        >>> Contributions.weighted(np.log([0.5, 1.5]), np.array([1.0, 2.0])).value
        1.75
        """
        # An unnormalised weight beyond double precision is honestly infinite, and so is the estimate.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls.mean(np.asarray(np.exp(log_weights) * returns))

    @classmethod
    def self_normalised(cls, log_weights: FloatArray, returns: FloatArray) -> "Contributions":
        """The mean return under weights that are made to sum to 1, from log weights [n] of any scale.

        >>> Contributions.self_normalised(np.array([5000.0, 5000.0]), np.array([1.0, 2.0])).value
        1.5
        """
        weights = np.exp(log_weights - safe_shift(log_weights))
        return cls.ratio(weights * returns, weights)

    @classmethod
    def of_logging(cls, returns: FloatArray, seen: FloatArray | None) -> "Contributions":
        """What the logging policy achieved: the mean return [n], by the log weights of having been seen, if any.

        >>> Contributions.of_logging(np.array([1.0, 9.0, 4.0]), np.log([1.0, 1e-300, 2.0])).value
        3.0
        """
        return cls.mean(returns) if seen is None else cls.ratio(np.exp(seen) * returns, np.exp(seen))

    def less(self, other: "Contributions") -> "Contributions":
        """This estimate less another one from the same episodes, as one estimate: what they share cancels.

        >>> both = Contributions.mean(np.array([1.0, 5.0])).less(Contributions.mean(np.array([0.0, 4.0])))
        >>> both.value, standard_error(both)
        (1.0, 0.0)
        """
        return Contributions(
            np.hstack([self.numerators, -other.numerators]),
            np.hstack([self.denominators, other.denominators]),
            self.fit_variance + other.fit_variance,
            self.strata,
        )

    @property
    def n_episodes(self) -> int:
        """How many episodes."""
        return len(self.numerators)

    @property
    def value(self) -> float:
        """The estimate; NaN where the weights of some ratio are all zero."""
        return float(ratio_sum(self.numerators.sum(axis=0), self.denominators.sum(axis=0)))

    @property
    def influence(self) -> FloatArray:
        """Each episode's first-order influence [n] on the estimate, times n; it sums to zero, in every stratum."""
        totals = self.denominators.sum(axis=0)
        ratios = self.numerators.sum(axis=0) / totals
        own = np.asarray(((self.numerators - ratios * self.denominators) / totals).sum(axis=1) * self.n_episodes)
        if self.strata is None:
            return own
        counts = np.maximum(np.bincount(self.strata), 1)
        return np.asarray(own - (np.bincount(self.strata, own) / counts)[self.strata])

    @property
    def leave_one_out(self) -> FloatArray:
        """The estimate without each episode in turn [n], in one pass."""
        numerators = self.numerators.sum(axis=0) - self.numerators
        return ratio_sum(numerators, self.denominators.sum(axis=0) - self.denominators)

    def resampled(self, counts: FloatArray) -> FloatArray:
        """The estimate on each resample [B], given how often it holds each episode [B, n]."""
        return ratio_sum(counts @ self.numerators, counts @ self.denominators)


def ratio_sum(numerators: FloatArray, denominators: FloatArray) -> FloatArray:
    """Σ_k numerators / denominators over the last axis; NaN, without a warning, where a denominator is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((numerators / denominators).sum(axis=-1))


def skewness(values: FloatArray) -> float:
    """The third standardised moment; 0 of values that do not vary.

    >>> skewness(np.array([1.0, 1.0, 1.0, -3.0])), skewness(np.ones(3))
    (-1.1547005383792517, 0.0)
    """
    centred = values - values.mean()
    spread = float(np.sqrt(np.square(centred).mean()))
    return float(((centred / spread) ** 3).mean()) if spread > 0 else 0.0


def standard_error(contributions: Contributions) -> float:
    """The normal approximation of the paper (Owen 2013, equation 9.9), for any estimator; NaN without weight.

    Where the estimate leans on a fitted model, the variance of the fit is added.

    For SNTIS it is sqrt(Σ w²(r − v)²) / Σ w; for a plain mean, the population standard deviation over √n.

    >>> standard_error(Contributions.mean(np.array([1.0, 3.0])))
    0.7071067811865...
    """
    if not np.isfinite(contributions.value):
        return float("nan")
    of_episodes = np.square(contributions.influence).sum() / contributions.n_episodes**2
    return float(np.sqrt(of_episodes + contributions.fit_variance))
