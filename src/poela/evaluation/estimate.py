"""`Estimate`: a value with everything that is needed to believe it, or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from poela.behavior.calibration import reliability
from poela.core.arrays import FloatArray
from poela.core.readable import between, effective, readable, share_in_words
from poela.core.typed import Count, Unknowable, from_plain, to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Beyond
from poela.evaluation.estimators import Estimator
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import LEAST_OUTSIDE, highest_return, lost_outside, lowest_return
from poela.evaluation.recombination import Pool
from poela.stats.bounds import Bounds, Interval, carriers
from poela.stats.contributions import Contributions
from poela.stats.diagnostics import Diagnostics, diagnose
from poela.stats.gain import Gain

# What to know about how an estimate was computed, in sentences.


def computing_notes(
    contributions: Contributions, diagnostics: Diagnostics, interval: Interval | None, resamples: int
) -> tuple[str, ...]:
    """What went wrong in computing; whether to believe the result is the verdict's part."""
    notes = []
    if diagnostics.ess == 0:
        notes.append("every weight is zero: the policy takes none of the logged actions, so nothing can be estimated")
    elif np.isnan(contributions.value):
        notes.append("at some step every weight is zero: this estimator has nothing to weight from there on")
    elif np.isinf(contributions.value):
        notes.append("weights exceed floating point: use a self-normalised or truncated estimator")
    elif carriers(contributions) == 1:
        notes.append("a single episode has weight: its return is the estimate, and nothing tells how far off that is")
    if interval is not None and interval.undefined_resamples:
        notes.append(
            f"{interval.undefined_resamples} of {resamples} resamples drew only zero weights and were left out"
        )
    return tuple(notes)


def smoothing_notes(share: float) -> tuple[str, ...]:
    """That it is a mixture that was evaluated, where it was.

    >>> smoothing_notes(0.0)
    ()
    """
    return (f"{share:.0%} of the logging policy is mixed into this greedy policy: the mixture is evaluated",) * (
        share > 0
    )


def cap_notes(beyond: Beyond | None, gain: Gain | None, level: float) -> tuple[str, ...]:
    """What lies beyond the cap, where there is one.

    >>> cap_notes(None, None, 0.95)
    ()
    """
    if beyond is None:
        return ()
    least = None if gain is None or gain.low is None or gain.low <= 0 else gain.low
    words = beyond.in_words(least, (1 + level) / 2).removesuffix(".")
    return (f"{beyond.cap.in_words}: {words}",)


# The diagnostics of an estimate from the logs and the policy behind it.


def diagnosed(
    evidence: Evidence, chosen: Estimator, pool: Pool | None, returns: FloatArray, bounds: Bounds | None
) -> Diagnostics:
    """What the weights of a policy say about an estimator's number; nothing where neither has any."""
    logs = evidence.logs
    if not logs.knows_logging_policy and chosen.model != "none":
        return undiagnosed(logs)
    return diagnose(
        evidence.weights,
        used=chosen.used(evidence),
        truncation=chosen.truncation(evidence),
        stranded_steps=evidence.stranded_steps,
        outside=evidence.outside,
        calibration_error=calibration_error(logs),
        clusters=logs.clusters,
        pool=pool,
        returns=returns,
        bounds=bounds,
    )


def undiagnosed(logs: Trajectories) -> Diagnostics:
    """Where the logs carry no propensities, nothing is known of the weights.

    >>> from poela.data.trajectories import Trajectories
    >>> undiagnosed(Trajectories([[0.0]], [0], [1.0], [0, 1])).ess
    nan
    """
    unknown = float("nan")
    return Diagnostics(
        n_episodes=logs.n_episodes,
        n_steps=logs.n_steps,
        ess=unknown,
        ess_by_step=np.full(int(logs.lengths.max()), unknown),
        largest_share=unknown,
        pareto_k=unknown,
        mean_weight=unknown,
        mean_weight_z=unknown,
        zero_weight_share=unknown,
        ineligible_steps=0,
        truncated_share=unknown,
    )


def calibration_error(logs: Trajectories) -> float | None:
    """Expected calibration error of the logged propensities (of the likeliest action, in ten bins; Guo et al. 2017).

    None where only the logged action's propensity is known: then there is nothing to compare it with.

    >>> from poela.data.trajectories import Trajectories
    >>> contexts, half = np.zeros((4, 1)), np.full((4, 2), 0.5)
    >>> calibration_error(Trajectories(contexts, [0, 1, 0, 1], np.zeros(4), [0, 4], propensities=half))
    0.0
    """
    known = logs.all_propensities
    if known is None:
        return None
    likeliest = known.argmax(axis=1)
    highest = known[np.arange(logs.n_steps), likeliest]
    return reliability(highest, likeliest == logs.actions).error


# What an interval has to allow for beyond chance: the outcomes of what was never done.


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


@dataclass(frozen=True)
class Estimate:
    """The value of a policy, its gain over the logging policy, their intervals, and whether to believe them.

    `low`, `high`, `level` and `interval` are None where no interval was asked for, or none could be computed; `gain` is
    None where the value is that of the logging policy itself, or is no number.
    """

    value: Unknowable  # mean return of an episode under the policy
    low: float | None  # lower end of the interval
    high: float | None  # upper end of the interval
    level: float | None  # of the interval, such as 0.95
    estimator: str  # its name
    interval: str | None  # its name; None: none was asked for
    n_episodes: Count  # episodes behind it
    ess: Unknowable  # effective sample size, in episodes
    standard_error: Unknowable  # of the value
    diagnostics: Diagnostics  # of the weights, and what they warn of
    gain: Gain | None = None  # over the logging policy, with its own interval
    verdict: str = ""  # trust, caution or do not trust
    reasons: tuple[str, ...] = ()  # for the verdict, the gravest first
    advice: str = ""  # what to do next
    warnings: tuple[str, ...] = ()  # what went wrong, and the reasons unless the verdict is trust
    beyond: Beyond | None = None  # the cap of returns that all of this is about, and what it hides; None: there is none

    def __str__(self) -> str:
        error = self.standard_error
        interval = ""
        if self.low is not None and self.high is not None and self.level is not None:
            interval = f" {between(self.low, self.high, error)} ({100 * self.level:g}% {self.interval})"
        lines = [
            f"{readable(self.value, error)}{interval}{self.about}, {self.estimator}, ESS {effective(self.ess)} of "
            + self.units,
            *([f"new - current = {self.gain}"] if self.gain is not None else []),
            *([f"verdict: {self.verdict}"] if self.verdict else []),
            *(f"- {sentence}" for sentence in dict.fromkeys((*self.reasons, *self.warnings))),
            *([f"next: {self.advice}"] if self.advice else []),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from poela.core.readable import facts

        error, level = self.standard_error, "" if self.level is None else f" ({100 * self.level:g}%)"
        known = {
            "value": f"{readable(self.value, error)} {between(self.low, self.high, error)}{level}{self.about}",
            "new − current": "" if self.gain is None else str(self.gain),
            "verdict": self.verdict,
            "why": "; ".join(dict.fromkeys((*self.reasons, *self.warnings))),
            "next": self.advice,
            "effective cases": f"{effective(self.ess)} of {self.units}",
        }
        return facts(f"Estimate by {self.estimator}", known)

    @property
    def about(self) -> str:
        """What the value is one of, where that is not the return: for headlines."""
        return "" if self.beyond is None else f" ({self.beyond.cap.in_words})"

    @property
    def units(self) -> str:
        """How many independent units there are, in words where these are clusters."""
        return self.diagnostics.units

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a finite number becomes null."""
        result: dict[str, Any] = to_plain(self)
        return result

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Estimate":
        """The estimate that `to_dict` described; numbers that were not finite come back as NaN."""
        return from_plain(cls, document, "the estimate")
