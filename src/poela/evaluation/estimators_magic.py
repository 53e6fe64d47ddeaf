"""MAGIC (Thomas & Brunskill 2016): a blend of partial importance-sampling returns and the model's value.

Here the j-step return g⁽ʲ⁾ is the sum of the first ratios of WDR: only the model for j = −1, all of WDR at the end.
"""

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from poela.core.arrays import FloatArray, IntArray
from poela.evaluation.estimators_by_step import fit_variance, wdr
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions

MOST_LENGTHS = 64
# The bias of a return is its distance from WDR's 90% interval, as published.
INTERVAL_LEVEL = 0.9


def magic(evidence: Evidence) -> Contributions:
    """The blend of j-step returns with the least estimated squared error.

    The blend is chosen on all episodes and then held, so intervals do not carry its own uncertainty. WDR's interval is
    the normal approximation where the paper resamples: the estimate needs no seed and ignores the order of episodes.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0]] * 2, [0, 0], [3.0, 3.0], [0, 1, 2])
    >>> perfect = ModelValues(taken=np.array([3.0, 3.0]), expected=np.array([3.0, 3.0]))
    >>> magic(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs, values=perfect)).value
    3.0
    """
    whole = wdr(evidence)
    # From the step on where no episode has weight left, there is nothing to correct the model with.
    alive = np.logical_and.accumulate(whole.denominators.sum(axis=0) > 0)
    whole = Contributions(whole.numerators[:, alive], whole.denominators[:, alive])
    lengths = lengths_considered(int(alive.sum()))
    blend = least_squared_error(whole, lengths)
    # A ratio belongs to every return that is at least as long.
    shares = np.zeros(len(alive))
    shares[lengths] = blend
    shares = np.cumsum(shares[::-1])[::-1]
    return Contributions(whole.numerators * shares[alive], whole.denominators, fit_variance(evidence, 1 - shares[1:]))


def lengths_considered(count: int) -> IntArray:
    """Which of `count` returns take part: all, or 64 spread evenly from the shortest to the longest.

    >>> lengths_considered(3)
    array([0, 1, 2])
    """
    return np.unique(np.linspace(0, count - 1, min(count, MOST_LENGTHS)).round().astype(np.int64))


def least_squared_error(whole: Contributions, lengths: IntArray) -> FloatArray:
    """The blend on the simplex that minimises variance + bias² as estimated from WDR's contributions."""
    n = whole.n_episodes
    parts = np.cumsum(whole.numerators / whole.denominators.sum(axis=0), axis=1)[:, lengths]  # g_i⁽ʲ⁾, [n, J]
    returns = parts.sum(axis=0)
    margin = ndtri((1 + INTERVAL_LEVEL) / 2) * np.sqrt(np.square(whole.influence).sum()) / n
    distances = returns - returns[-1]
    bias = np.sign(distances) * np.maximum(np.abs(distances) - margin, 0.0)
    # Ω = Σ_i centred² · n/(n − 1), factored so that the error of a blend x is |factor · x|².
    factor = np.linalg.qr(parts - parts.mean(axis=0), mode="r") * np.sqrt(n / max(n - 1, 1))
    return smallest_on_simplex(np.vstack([factor, bias]))


def smallest_on_simplex(factor: FloatArray) -> FloatArray:
    """The x ≥ 0 with Σx = 1 that minimises |factor·x|².

    For x = s·u with Σu = 1, |factor·x|² + (Σx − 1)² is least at s = 1 / (1 + |factor·u|²), where it grows with
    |factor·u|². So non-negative least squares with one more row finds u.

    >>> smallest_on_simplex(np.diag([1.0, 2.0])).round(9)
    array([0.8, 0.2])
    """
    width = factor.shape[1]
    scale = np.abs(factor).max()
    if scale == 0:
        return np.full(width, 1 / width)
    rows = np.vstack([factor / scale, np.ones(width)])
    solution, _ = nnls(rows, np.r_[np.zeros(len(factor)), 1.0])
    return np.asarray(solution / solution.sum())
