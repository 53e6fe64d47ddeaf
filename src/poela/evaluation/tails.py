"""Tails of losses: how far the few worst cases pull a gain down, and those that chance has kept out of the log.

A one-sided bound of a mean errs with its third moment: where losses are rare and large, a log that has few of them has
a mean that is too high and an error that is too small, both at once. Hall's transformation (1992) corrects the reach to
second order. What it needs is the skewness, and three things hide that from a look at the gain: what contexts foresee,
whose noise buries it; losses of those whom the policy treats less often, which count as gains; and chance. So it is
looked for in every way of showing the gain, and once more with all cases turned to the side of their outcome.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.stats.bounds import in_clusters
from poela.stats.contributions import Contributions, skewness


def ways_of(evidence: Evidence) -> list[Contributions]:
    """The gain of each episode by self-normalised weights, and where values are at hand by control variates."""
    by_weights = sntis(evidence).less(evidence.done_now)
    return [by_weights] if evidence.controlled is None else [by_weights, evidence.controlled.gain(evidence)]


def gains_of(evidence: Evidence) -> list[Contributions]:
    """The same of each unit: clusters of episodes, where there are any."""
    return [in_clusters(way, evidence.logs.clusters, evidence.logs.loggers) for way in ways_of(evidence)]


@dataclass(frozen=True)
class Tail:
    """How skewed towards losses a gain is, over √units: as it is `seen`, and at `most`."""

    seen: float = 0.0  # the largest of all ways to show it
    most: float = 0.0  # the same, or that of cases turned to the side of their outcome


NO_TAIL = Tail()


def tail_of(ways: Sequence[Contributions], evidence: Evidence) -> Tail:
    """The skewness towards losses of what episodes add to a gain, in any way to show it; 0 if gains are what is rare.

    Turned: where it has less weight than others, what an episode adds counts with the other sign. A loss that the
    policy would rather have avoided tells of losses that it would have had elsewhere.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories(np.zeros((100, 1)), [0, 1] * 50, np.append(np.zeros(99), -9.0), np.arange(101))
    >>> more, less = (Evidence(LogWeights(np.log([2 - one, one] * 50), logs.offsets), logs) for one in (1.5, 0.5))
    >>> tails = [tail_of(ways_of(one), one) for one in (more, less)]  # the action of the loss is taken more, or less
    >>> [(round(tail.seen, 2), round(tail.most, 2)) for tail in tails]
    [(0.95, 0.97), (0.0, 0.97)]
    """
    weights = np.exp(evidence.used)
    side = np.sign(weights - weights.mean())
    seen = max(_loss_skew(way.influence, evidence) for way in ways)
    return Tail(seen, max(seen, *(_loss_skew(way.influence * side, evidence) for way in ways)))


def _loss_skew(added: FloatArray, evidence: Evidence) -> float:
    """Of what episodes [n] add, by unit."""
    sums = np.asarray(np.bincount(evidence.logs.units, added), np.float64)
    return max(-skewness(sums) / float(np.sqrt(len(sums))), 0.0)
