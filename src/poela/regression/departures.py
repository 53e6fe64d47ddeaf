"""How far a policy may depart from the logging policy, given how often each action was seen nearby.

Each is a function of Q, of the logging policy over eligible actions and of counts, all [N, A]; an action that the
logging policy does not take is never taken.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.typed import NonNegative, one_of, refuse_problems

SPENT = 1e-9  # of the budget: what is left is rounding


@dataclass(frozen=True)
class Departure:
    """A manner of departing, and its limit.

    "spibb" keeps the logging policy on pairs seen at most `limit` times; "defer" acts where the best of the actions
    seen at least `limit` times is worth as much as the logging policy, which acts elsewhere; "soft" allows
    Σ e·|π − μ| ≤ `limit` with e = `error`/√count.

    >>> q, behavior, counts = np.array([[0.0, 2.0, 1.0]]), np.array([[0.5, 0.25, 0.25]]), np.array([[9.0, 1.0, 9.0]])
    >>> Departure("spibb", 5).act(q, behavior, counts)
    array([[0.  , 0.25, 0.75]])
    >>> Departure("defer", 5).act(q, behavior, counts)
    array([[0., 0., 1.]])
    >>> Departure("soft", 0.25, error=3.0).act(q, behavior, counts)
    array([[0.375, 0.25 , 0.375]])
    """

    manner: Annotated[str, one_of("spibb", "defer", "soft")]
    limit: NonNegative
    error: NonNegative = 0.0  # of a pair seen once, for "soft"

    def __post_init__(self) -> None:
        refuse_problems(self)

    def act(self, q: FloatArray, behavior: FloatArray, counts: FloatArray) -> FloatArray:
        """Probabilities [N, A]."""
        # Sums of shares may round to a little above 1.
        return np.minimum(self._acted(q, behavior, np.where(behavior > 0, counts, 0.0)), 1.0)

    def _acted(self, q: FloatArray, behavior: FloatArray, seen: FloatArray) -> FloatArray:
        if self.manner == "spibb":
            return _bootstrapped(q, behavior, seen > self.limit)
        if self.manner == "defer":
            return _deferring(q, behavior, seen >= max(self.limit, 1))
        with np.errstate(divide="ignore"):
            errors = np.where(seen > 0, self.error / np.sqrt(seen), np.inf)
        return _softly_bootstrapped(q, behavior, errors, float(self.limit))


def _bootstrapped(q: FloatArray, behavior: FloatArray, sure: BoolArray) -> FloatArray:
    """SPIBB: the logging policy on pairs that are not sure; what it gives to the sure ones goes to the best of them."""
    best, any_sure = _best(q, sure)
    policy = np.where(sure & any_sure[:, None], 0.0, behavior)
    rows = np.flatnonzero(any_sure)
    policy[rows, best[rows]] = np.where(sure, behavior, 0.0).sum(axis=1)[rows]
    return policy


def _deferring(q: FloatArray, behavior: FloatArray, sure: BoolArray) -> FloatArray:
    """DPRL: the best of the sure actions where it is worth as much as the logging policy, which acts elsewhere."""
    best, any_sure = _best(q, sure)
    every = np.arange(len(q))
    acts = any_sure & (q[every, best] >= (behavior * q).sum(axis=1))
    policy = behavior.copy()
    policy[acts] = 0.0
    policy[every[acts], best[acts]] = 1.0
    return policy


def _softly_bootstrapped(q: FloatArray, behavior: FloatArray, errors: FloatArray, budget: float) -> FloatArray:
    """Approx-Soft-SPIBB: from the worst action up, probability goes to where it gains most for the error.

    As published, neither side of a transfer may take more than half of the budget that is left; there the giving side
    is asked once for all its transfers, here at each of them, so that the budget holds exactly.
    """
    policy, left = behavior.copy(), np.full(len(q), budget)
    from_worst = np.argsort(q, axis=1, kind="stable")
    every = np.arange(len(q))
    for place in range(q.shape[1] - 1):
        giving = from_worst[:, place]
        rows = every[(policy[every, giving] > 0) & (left > SPENT * budget) & np.isfinite(errors[every, giving])]
        gains = q[rows] - q[rows, giving[rows]][:, None]
        from_best = np.argsort(-gains / errors[rows], axis=1, kind="stable")
        for rank in range(q.shape[1]):
            taking = from_best[:, rank]
            pairs = errors[rows, giving[rows]], errors[rows, taking]
            mass = np.minimum(policy[rows, giving[rows]], left[rows] / (2 * np.maximum(*pairs)))
            mass = np.where(gains[np.arange(len(rows)), taking] > 0, mass, 0.0)
            if not mass.any():
                break
            policy[rows, giving[rows]] -= mass
            policy[rows, taking] += mass
            left[rows] -= mass * np.where(mass > 0, np.add(*pairs), 0.0)
    return policy


def _best(q: FloatArray, sure: BoolArray) -> tuple[IntArray, BoolArray]:
    """The best of the sure actions [N], and whether there is one."""
    return np.where(sure, q, -np.inf).argmax(axis=1), np.asarray(sure.any(axis=1))
