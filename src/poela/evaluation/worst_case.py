"""What an interval has to allow for beyond chance: the outcomes of what was never done."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import FloatArray
from poela.core.readable import readable, share_in_words
from poela.evaluation.estimators import Estimator
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import LEAST_OUTSIDE, highest_return, lost_outside, lowest_return
from poela.stats.bounds import Bounds


@dataclass(frozen=True)
class WorstCase:
    """By how much a value may be too high, and too low, for what lies outside support: each with its standard error.

    `decisions` is the share of decisions there, `returns` what episodes with such a decision are taken to return.
    """

    too_high: tuple[float, float] = (0.0, 0.0)
    too_low: tuple[float, float] = (0.0, 0.0)
    decisions: float = 0.0
    returns: tuple[float, float] = (0.0, 0.0)
    bounded: bool = False  # whether nothing else is possible, rather than a guess

    @classmethod
    def of(
        cls, evidence: Evidence, chosen: Estimator, value: float, returns: FloatArray, bounds: Bounds | None
    ) -> "WorstCase":
        """Of a policy's estimate, from logged returns [n] and what is known of them.

        >>> from poela.data.trajectories import Trajectories
        >>> from poela.evaluation.estimators import ESTIMATORS
        >>> from poela.stats.diagnostics import OutsideSupport
        >>> from poela.stats.weights import LogWeights
        >>> logs = Trajectories([[0.0]] * 2, [0, 0], [0.0, 1.0], [0, 1, 2])
        >>> evidence = Evidence(LogWeights([0.0, 0.0], logs.offsets), logs, outside=OutsideSupport(0.1, 0.1))
        >>> found = WorstCase.of(evidence, ESTIMATORS["snis"], 0.75, logs.returns(), Bounds(0.0, 1.0))
        >>> round(found.too_high[0], 9), round(found.too_low[0], 9)  # a tenth is 0, or 1, instead of 0.75
        (0.075, 0.025)
        """
        outside = evidence.outside
        if outside is None or chosen.weights == "none" or not np.isfinite(value):
            return cls()
        lowest, highest = lowest_return(returns, bounds), highest_return(returns, bounds)
        # What the number has for episodes of which no weight is left: normalised weights have the others stand for
        # them, plain ones nothing; of a model, or of steps before they left, anything may be in it.
        if chosen.normalised:
            most, least = value, value
        elif chosen.whole_episodes:
            most, least = 0.0, 0.0
        else:
            most, least = max(highest, 0.0), min(lowest, 0.0)
        known = not evidence.logs.estimated
        too_high = lost_outside(outside, most, lowest, known=known)
        too_low = lost_outside(outside, -least, -highest, known=known)
        return cls(too_high, too_low, outside.decisions, (lowest, highest), bounds is not None)

    def ends(self, value: float, low: float, high: float, level: float) -> tuple[float, float]:
        """An interval that is right by chance, so that it allows for this too.

        >>> WorstCase((0.5, 0.0), (0.25, 0.0)).ends(2.0, 1.0, 3.0, level=0.95)
        (0.5, 3.25)
        """
        reach = float(ndtri((1 + level) / 2))
        down, up = max(value - low, 0.0), max(high - value, 0.0)
        lower = float(np.hypot(down, reach * self.too_high[1])) - down + self.too_high[0]
        upper = float(np.hypot(up, reach * self.too_low[1])) - up + self.too_low[0]
        return low - lower, high + upper

    @property
    def in_words(self) -> tuple[str, ...]:
        """What the interval allows for, as a reason; none where that is hardly anything.

        >>> WorstCase((0.5, 0.0), (0.25, 0.0), 0.037, (0.0, 1.0), bounded=True).in_words
        ('the interval takes the worst case, and the best, for the 4% of decisions outside support',)
        """
        if not self.decisions >= LEAST_OUTSIDE or self.too_high[0] + self.too_low[0] <= 0:
            return ()
        where = f"for the {share_in_words(self.decisions)} of decisions outside support"
        if self.bounded:
            return (f"the interval takes the worst case, and the best, {where}",)
        low, high = (readable(end) for end in self.returns)
        return (f"the interval takes returns from {low} to {high} {where}, which is a guess: --returns says the range",)
