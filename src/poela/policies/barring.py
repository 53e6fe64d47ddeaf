"""Practice without what is worst: actions whose value is too far below what practice is worth are barred."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.policy import LoggedSteps
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_contents, expect_setting
from poela.eligibility.fitted import Eligible
from poela.policies.ruled import followed, softmax
from poela.policies.valued import PARTS, SETTINGS, ValuedPolicy, priced, supported, valued_fields


@dataclass(frozen=True, eq=False, kw_only=True)
class BarringPolicy(ValuedPolicy):
    """π ∝ μ·1{Q(x, a) > V(x) + margin} over the eligible actions, with V = Σ μ·Q; what μ does best is never barred."""

    margin: float  # usually below 0: how far below average an action may be

    def decided(
        self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None = None
    ) -> FloatArray:
        """Probabilities [N, A] from Q and μ."""
        practice = priced(behavior, eligible)
        return followed(without_worst(q, practice, self.margin), eligible)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """As practice does, where nothing is known of values."""
        return softmax(np.zeros(scores.shape), supported(scores > -np.inf, eligible))

    def barred_along(self, trajectories: LoggedSteps) -> BoolArray:
        """What must no longer be done [N, A] along logged episodes."""
        eligible = self.eligibility.along(trajectories)
        practice = priced(self.behavior_along(trajectories), eligible)
        barred = barred_by(self.q_along(trajectories), practice, self.margin)
        return np.asarray(barred & ~eligible.stranded[:, None])

    def leaves_along(self, trajectories: LoggedSteps) -> BoolArray:
        """Where it says no more than what is barred [N]: everywhere."""
        return np.ones(len(trajectories.contexts), np.bool_)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return self.stored_as("barring_policy", {"margin": self.margin})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "BarringPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, settings=(*SETTINGS, "margin"), parts=PARTS)
        margin = expect_setting(stored, "margin", float, low=-LARGEST, high=LARGEST)
        return cls(margin=margin, **valued_fields(stored, load_part))


def barred_by(q: FloatArray, practice: FloatArray, margin: float) -> BoolArray:
    """What practice [N, A] does that is worth no more than its average and the margin; never the best that it does.

    >>> q, practice = np.array([[0.0, 1.0, 5.0]]), np.array([[0.5, 0.5, 0.0]])
    >>> barred_by(q, practice, margin=-0.5), barred_by(q, practice, margin=-0.6), barred_by(q, practice, margin=9.0)
    (array([[ True, False, False]]), array([[False, False, False]]), array([[ True, False, False]]))
    """
    taken = practice > 0
    value = (practice * q).sum(axis=1, keepdims=True)
    best = np.where(taken, q, -np.inf).max(axis=1, keepdims=True)
    return np.asarray(taken & (q <= value + margin) & (q < best))


def without_worst(q: FloatArray, practice: FloatArray, margin: float) -> FloatArray:
    """Practice [N, A] without what is barred.

    >>> without_worst(np.array([[0.0, 1.0, 2.0]]), np.array([[0.5, 0.3, 0.2]]), margin=-0.6)
    array([[0. , 0.6, 0.4]])
    """
    left = np.where(barred_by(q, practice, margin), 0.0, practice)
    return np.asarray(left / left.sum(axis=1, keepdims=True))
