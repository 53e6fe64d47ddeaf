"""Importance weights in log space: ratios of target to logging probability, step by step, of ragged episodes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, IntArray, first_bad, readonly
from poela.core.errors import InputError
from poela.core.ragged import episode_sums, running_sums

# Weights within exp(±300) keep finite squares and sums in double precision, so only others are rescaled.
SAFE_LOG_RANGE = 300.0


@dataclass(frozen=True, eq=False)
class LogWeights:
    """Log ratios [N] of target to logging probability of the logged actions; −inf where the target never acts so.

    >>> weights = LogWeights(np.log([2.0, 0.5, 3.0]), np.array([0, 2, 3]))
    >>> np.exp(weights.episodes)
    array([1., 3.])
    >>> np.exp(weights.truncated(2.0))
    array([1., 2.])
    """

    log_ratios: FloatArray  # [N]
    offsets: IntArray  # [n + 1]

    def __init__(self, log_ratios: ArrayLike, offsets: ArrayLike) -> None:
        object.__setattr__(self, "log_ratios", readonly(log_ratios, np.float64))
        object.__setattr__(self, "offsets", readonly(offsets, np.int64))
        problems = self._problems()
        if problems:
            raise InputError(problems)

    def _problems(self) -> list[str]:
        steps = len(self.log_ratios)
        if self.offsets[0] != 0 or self.offsets[-1] != steps or (np.diff(self.offsets) <= 0).any():
            return [f"offsets must increase from 0 to the number of log ratios, {steps}"]
        bad = np.isnan(self.log_ratios) | (self.log_ratios == np.inf)
        if bad.any():
            count, first = first_bad(bad)
            return [f"{count} log ratios are NaN or +infinity, first at step {first}: check the probabilities"]
        return []

    @property
    def n_episodes(self) -> int:
        """How many episodes."""
        return len(self.offsets) - 1

    @property
    def episodes(self) -> FloatArray:
        """The log weight [n] of each whole episode."""
        return episode_sums(self.log_ratios, self.offsets)

    @property
    def running(self) -> FloatArray:
        """The log weight [N] of each episode up to and including each step."""
        return running_sums(self.log_ratios, self.offsets)

    def truncated(self, truncation: float) -> FloatArray:
        """The log weight [n] of each episode, at most log(truncation)."""
        return np.minimum(self.episodes, np.log(truncation))


def safe_shift(log_values: FloatArray) -> FloatArray:
    """What to take off log weights (by column) before exponentiating, for estimates that ignore their scale.

    Zero wherever that is safe, so that weights keep their own scale; the largest where it would over- or underflow.

    >>> safe_shift(np.array([[1.0, 800.0], [2.0, 790.0]]))
    array([  0., 800.])
    """
    largest = log_values.max(axis=0)
    return np.where(np.isfinite(largest) & (np.abs(largest) > SAFE_LOG_RANGE), largest, 0.0)


def effective_sample_size(log_values: FloatArray) -> float:
    """Kish's effective sample size (Σw)² / Σw², from log weights [n]; 0 where all weights are zero.

    >>> effective_sample_size(np.full(200, -5000.0))
    200.0
    >>> effective_sample_size(np.log([1.0, 1.0, 2.0]))
    2.66...
    """
    largest = log_values.max()
    if largest == -np.inf:
        return 0.0
    relative = np.exp(log_values - largest)
    return float(relative.sum() ** 2 / np.square(relative).sum())


def effective_share(log_weights: FloatArray, clusters: IntArray | None = None) -> float:
    """The effective sample size as a share of all episodes, or of all clusters by the weight that each holds.

    >>> effective_share(np.log([1.0, 1.0, 2.0, 2.0]), clusters=np.array([0, 0, 0, 1]))
    0.9
    """
    if clusters is None:
        return effective_sample_size(log_weights) / len(log_weights)
    if log_weights.max() == -np.inf:
        return 0.0
    sums = np.bincount(clusters, np.exp(log_weights - log_weights.max()))
    return float(sums.sum() ** 2 / np.square(sums).sum() / len(sums))
