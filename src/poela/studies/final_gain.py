"""What is said of the recommended policy, or of one worth a trial: estimate, gain, and what would show it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from poela.evaluation.estimate import Estimate
from poela.evaluation.outside import lost_outside, lowest_return
from poela.evaluation.tails import NO_TAIL, gains_of, tail_of, ways_of
from poela.stats.bounds import against_tail
from poela.stats.contributions import standard_error
from poela.stats.gain import Gain, least_value, vanishing_sensitivity
from poela.stats.verdict import TrustThresholds
from poela.studies.held_out import Episodes, finite
from poela.studies.judging import evidence_of
from poela.studies.own_bounds import fold_factor
from poela.studies.pooled_points import MOST_KEPT, PooledEvidence
from poela.studies.selection import Point
from poela.studies.settings import StudySettings
from poela.studies.shown_gain import in_errors, lost_to

if TYPE_CHECKING:
    from poela.studies.study import Study

USUAL_WIDENING = 1.3  # of studies with their default candidates
POWER = 0.8  # the chance with which the needed episodes show the gain


class FinalEstimates:
    """Points of a study looked at once more, with two-sided intervals."""

    def __init__(self, study: "Study", episodes: Episodes, settings: StudySettings) -> None:
        self._study, self._episodes, self._settings = study, episodes, settings
        self._estimates: dict[tuple[str, bool], Estimate] = {}
        self._evidence: dict[str, PooledEvidence] = {}

    def estimate(self, point: Point | None, *, by_chance: bool = False) -> Estimate:
        """The estimate on the episodes that judged the point; None: what the logging policy achieved.

        With intervals for chance alone, or also for what lies outside support.
        """
        key = "" if point is None else f"{point.path_id} {point.number}"
        if (key, by_chance) not in self._estimates:
            self._estimates[key, by_chance] = self._estimated(point, by_chance)
        return self._estimates[key, by_chance]

    def _evidence_of(self, point: Point) -> PooledEvidence:
        """The pooled evidence on a point; its weights are read once."""
        key = f"{point.path_id} {point.number}"
        if key not in self._evidence:
            if (len(self._evidence) + 1) * self._episodes.logs.n_episodes > MOST_KEPT:
                self._evidence.clear()
            self._evidence[key] = evidence_of(
                self._study.store, point, self._episodes, self._settings, self._study.n_folds
            )
        return self._evidence[key]

    def _estimated(self, point: Point | None, by_chance: bool) -> Estimate:
        episodes, scoring = self._episodes, replace(self._settings.scoring, estimator="sntis", discount=1.0)
        if point is None:
            if episodes.reference is not None:
                return episodes.evaluator(scoring).estimate(episodes.evidence(episodes.reference, scoring, None))
            evaluator = episodes.evaluator(replace(scoring, estimator="behavior"), survives=False)
            return evaluator.estimate(next(evaluator.evidence([None])))
        evidence, recombined = self._evidence_of(point)
        if episodes.estimated:
            episodes = replace(episodes, logs=replace(episodes.logs, estimated=True))
            evidence = replace(evidence, logs=episodes.logs)
        evaluator = episodes.evaluator(scoring, survives=False)
        return evaluator.estimate(evidence, episodes.pool(evidence, recombined, scoring.seed), by_chance=by_chance)

    def own_bound(self, point: Point) -> float | None:
        """What a point shows on its own by weights, one-sided; None where that cannot be told.

        It survives Γ where propensities are estimated, and the worst of what lies outside support.
        """
        episodes, confidence = self._episodes, self._settings.selection.confidence
        evidence, recombined = self._evidence_of(point)
        scoring = replace(self._settings.scoring, estimator="sntis", discount=1.0, level=2 * confidence - 1)
        evaluator = episodes.evaluator(scoring)
        pool = episodes.pool(evidence, recombined, scoring.seed)
        estimate = evaluator.estimate(evidence, pool, by_chance=True)
        gain = estimate.gain
        if gain is None or gain.low is None:
            return None
        lowest = lowest_return(episodes.logs.rewards, evaluator.bounds)
        worst, chance = lost_outside(evidence.outside, estimate.value, lowest, known=not episodes.estimated)
        tail = NO_TAIL if evaluator.is_rate else tail_of(ways_of(evidence), evidence)
        paired = gains_of(evidence)[0]
        far = against_tail(in_errors(gain.value - gain.low, paired), tail.most) * standard_error(paired)
        reach = float(np.hypot(far, ndtri(confidence) * chance))
        factor = fold_factor(point, self._study.n_folds)
        own = finite(gain.value - self._lost(point) - worst - factor * reach)
        shown = point.metrics.get("shown")  # holds for this policy too, and may be had by control variates
        return own if shown is None or own is None else max(own, shown)

    def gain(self, chosen: Point | None, tried: Point | None) -> Gain | None:
        """That of the chosen policy, or else of one that is worth a trial, or closest to it.

        Its lower end is what is shown, or the bound of its own where that was looked at.
        """
        point = tried if chosen is None else chosen
        gain = None if point is None else self.estimate(point).gain
        if point is None or gain is None:
            return None
        if chosen is None:
            bound = point.metrics.get("own")
            value = point.metrics.get("controlled") if bound == point.metrics.get("shown") else None
        else:
            bound, value = point.metrics.get("shown"), point.metrics.get("controlled")
        return gain if bound is None else self._shown(gain, bound, point, value)

    def _shown(self, gain: Gain, shown: float, chosen: Point, value: float | None) -> Gain:
        """With what is shown as its lower end, and the Γ at which nothing would be shown any more.

        `value` is the gain by control variates, where these show it.
        """
        if shown <= 0:
            return replace(gain, low=shown, sensitivity=None)
        evidence, returns = self._evidence_of(chosen)[0], self._episodes.logs.rewards
        controlled = evidence.controlled
        allowed = self._settings.selection.sensitivity if self._episodes.doubted else 1.0
        if value is None or controlled is None:
            apart = self._episodes.done_now(evidence.truncation) - float(returns.mean())
            margin = gain.value - shown - self._lost(chosen) + apart
            return replace(gain, low=shown, sensitivity=vanishing_sensitivity(evidence.used, returns, margin))
        at_stake = controlled.beyond(evidence) if controlled.estimated else returns
        weighted = least_value(evidence.used, at_stake, 1.0)
        margin = weighted - float(at_stake.mean()) - shown - controlled.lost(evidence, allowed)
        sensitivity = vanishing_sensitivity(evidence.used, at_stake, margin)
        high = None if gain.high is None else max(gain.high, value)
        return replace(gain, value=value, low=shown, high=high, sensitivity=sensitivity)

    def needed(self, point: Point, points: Sequence[Point]) -> float | None:
        """About how many episodes would show the gain of a point, if it is as large as estimated.

        None where that cannot be told, or where their number is not what keeps it from being shown.
        """
        gain = self.estimate(point, by_chance=True).gain
        ess = point.metrics.get("ess")
        if gain is None or gain.low is None or not gain.value > 0 or not ess:
            return None
        error = error_of(gain, self._settings.scoring.level)
        n, confidence = self._episodes.logs.n_episodes, self._settings.selection.confidence
        wider = widening(points, estimated=self._episodes.estimated)
        left = gain.value - self._lost(point)
        found = episodes_needed(left, error, ess, n, confidence, wider) if left > 0 else 0.0
        return found if found > n else None  # else it is not their number that keeps the gain from being shown

    def _lost(self, point: Point) -> float:
        """How much of a gain goes to the factor by which estimated propensities may be wrong."""
        if not self._episodes.doubted:
            return 0.0
        return lost_to(self._settings.selection.sensitivity, self._evidence_of(point)[0])


def error_of(gain: Gain, level: float) -> float:
    """The standard error behind the lower end of a gain's interval at this level.

    >>> round(error_of(Gain(2.0, 0.04, 3.0), level=0.95), 3)
    1.0
    """
    assert gain.low is not None
    return (gain.value - gain.low) / float(ndtri((1 + level) / 2))


def widening(points: Sequence[Point], *, estimated: bool) -> float:
    """By what factor bounds that hold for all policies together are wider than that of a single one.

    >>> widening([Point("a", 0, True, {"gain": 3.0, "gain_low": 2.0, "shown": 1.75})], estimated=False)
    1.25
    """
    known = [tuple(point.metrics.get(name) for name in ("gain", "gain_low", "shown")) for point in points]
    ratios = [(gain - shown) / (gain - low) for gain, low, shown in known if gain and low and shown and gain > low]
    return max(ratios) if ratios and not estimated else USUAL_WIDENING  # Γ is in the bounds of estimated propensities


def episodes_needed(gain: float, error: float, ess: float, n: int, confidence: float, widening: float = 1.0) -> float:
    """How many episodes show a gain with power 80%, where n episodes gave this error and effective sample size.

    At least as many as an estimate needs to be trusted; `widening` is that of bounds for many policies together.

    >>> round(episodes_needed(gain=2.0, error=1.0, ess=100.0, n=100, confidence=0.95))
    155
    """
    reach = float(widening * ndtri(confidence) + ndtri(POWER)) * error
    return float(max(n * (reach / gain) ** 2, n * TrustThresholds().ess[0] / ess))
