"""The gain over the logging policy that a log can show, for all policies of all paths together.

A point takes part if its verdict is "trust". Its gain is shown in up to two ways, by self-normalised weights and by
control variates. The bound is the one-sided lower end of the gain's interval, widened by how much the largest of all
errors exceeds a single one (max-t over all points and both ways, by a multiplier bootstrap over episodes or clusters,
as in Chernozhukov, Lee, Rosen & Sun 2025; points of one path are nearly one policy, so this costs far less than
Bonferroni's correction), and by what folds add to the error by teaching each other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.progress import progress
from poela.evaluation.controlled import Controlled, weight_factors
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import lost_outside, lowest_return
from poela.evaluation.scoring import Scoring
from poela.evaluation.tails import NO_TAIL, Tail, gains_of, tail_of, ways_of
from poela.stats.bounds import against_tail, in_clusters
from poela.stats.contributions import Contributions, standard_error
from poela.stats.gain import Gain, least_value, seen_factors, student_quantile
from poela.stats.verdict import TAIL
from poela.studies.critical_values import Block, critical_pair
from poela.studies.guarded import Guarded
from poela.studies.guards import HOLDS
from poela.studies.held_out import Episodes, estimate_of

AHEAD_SHARE = 0.3  # of episodes, effective: a policy bold enough to gain, and not too bold to be judged


@dataclass(frozen=True, eq=False)
class Proof:
    """One way of showing a point's gain: its estimate, and by how much it is at least better than the logging policy.

    `reach` is how far that is below the estimate by chance, and `error` the gain's standard error, both of folds that
    are independent; `factor` is by how much folds that teach each other add to both (None: not looked at).
    `controlled` says that control variates take part: paired and doubly robust, rather than self-normalised weights.
    """

    value: float
    shown: float
    reach: float = 0.0
    error: float = 0.0
    controlled: bool = False
    factor: float | None = None
    low: float | None = None  # the bound of this proof alone, as if no other policy had been tried
    lost: float = 0.0  # to weights that are wrong by a factor of Γ

    def knowing(self, shared: float | None) -> "Proof":
        """The same with the variance that folds share added to the squared error; None: the worst case.

        Where nothing is to be gained, what two folds make of each other's noise enters the error once and the variance
        twice, and never more than twice. Where there is something, folds also teach each other what is true, which is
        no error: so that twice the squared error is enough.

        >>> plain = Proof(3.0, shown=1.0, reach=2.0, error=0.5)
        >>> [round(plain.knowing(shared).factor, 6) for shared in (0.11, None, 9.0)]
        [1.2, 1.414214, 1.414214]
        >>> round(plain.knowing(0.11).shown, 6)
        0.6
        """
        alone = self.error**2
        factor = float(np.sqrt(2.0 if shared is None or shared > alone else 1 + (shared / alone if alone > 0 else 0.0)))
        return replace(self, shown=self.shown - (factor - 1) * self.reach, factor=factor)

    def at_face(self, *, folds: bool) -> float:
        """What would be shown if everything that matters was recorded; the worst case for folds not looked at.

        >>> round(Proof(3.0, shown=-1.0, reach=2.0, lost=2.5).at_face(folds=False), 6)
        1.5
        """
        known = self.knowing(None) if folds and self.factor is None else self
        return known.shown + self.lost

    @property
    def stands(self) -> bool:
        """Whether the bound of independent folds stays above zero with twice the variance.

        Leave-two-out sees little of what folds share just when they agree by luck, as they often do where policies
        differ in one thing only, such as two actions. So that there is something to gain at all is asked of the error
        that holds where there is nothing; how much there is, of the one that was seen.

        >>> Proof(3.0, shown=1.0, reach=2.0).stands, Proof(3.0, shown=0.5, reach=2.5).stands
        (True, False)
        """
        return self.knowing(None).shown > 0


@dataclass(frozen=True, eq=False)
class Guarding:
    """What a point does to a guarded outcome: the estimated change for the better, and the proof of its bound."""

    guarded: Guarded
    value: float
    proof: Proof | None = None  # None: not looked at, or it cannot be told

    @property
    def bound(self) -> float | None:
        """By how much the outcome is at least better; None: cannot be told."""
        return None if self.proof is None else self.proof.shown

    @property
    def state(self) -> float:
        """Whether the guardrail holds."""
        return self.guarded.state(self.value, self.bound)

    def knowing(self, shared: float | None) -> "Guarding":
        """The same with the variance that folds share; the worst case where the guardrail does not hold in that.

        So a guardrail, as a gain, has to stand with twice the variance of independent folds.
        """
        if self.proof is None:
            return self
        worst = self.proof.knowing(None)
        stands = self.guarded.state(self.value, worst.shown) == HOLDS
        return replace(self, proof=self.proof.knowing(shared) if stands else worst)


@dataclass(frozen=True, eq=False)
class Judged:
    """A point's estimate, and the ways in which its gain is shown: none where it cannot be told."""

    estimate: Estimate
    proofs: tuple[Proof, ...] = ()
    guards: tuple[Guarding, ...] = ()

    @property
    def best(self) -> Proof | None:
        """The way that shows most; the first of equals."""
        return max(self.proofs, key=lambda proof: proof.shown, default=None)

    @property
    def shown(self) -> float | None:
        """By how much the point is at least better than the logging policy; None: cannot be told."""
        return None if self.best is None else self.best.shown

    @property
    def claim(self) -> float | None:
        """What is shown, where every guardrail holds."""
        return self.shown if all(one.state == HOLDS for one in self.guards) else None

    def knowing(self, shared: Sequence[float | None]) -> "Judged":
        """The same with the variance that folds share in each proof, and then in each guarded outcome.

        The worst case where that leaves no gain.
        """
        first, others = shared[: len(self.proofs)], shared[len(self.proofs) :]
        pairs = zip(self.proofs, first, strict=True)
        return replace(
            self,
            proofs=tuple(one.knowing(own if one.stands else None) for one, own in pairs),
            guards=tuple(one.knowing(own) for one, own in zip(self.guards, others, strict=True)),
        )

    @property
    def unknown(self) -> list[None]:
        """What folds share in all of these, where that is not known: the worst case."""
        return [None] * (len(self.proofs) + len(self.guards))


def judged(
    episodes: Episodes,
    points: Sequence[tuple[Evidence, Float32Array]],
    scoring: Scoring,
    confidence: float,
    sensitivity: float = 1.0,
    least_ess: float = 0.0,
    guards: Sequence[Guarded] = (),
    ahead: Sequence[int] = (),
) -> list[Judged]:
    """Every point with the gain that is shown, with this confidence in all of them together, by independent folds.

    A point is its pooled evidence and the log weights [copies, n] of recombined episodes. Where there are `guards`, the
    confidence is that in all points and all guarded outcomes together; points whose gain is shown have bounds of these.
    Of the points `ahead`, by their numbers, the one that leaves about `AHEAD_SHARE` of the episodes effective is judged
    ahead of the others: half of what may go wrong is its own, so that many other points hardly widen its bound.
    """
    # "At least" is one-sided: the lower end of an interval that misses as often on its other side.
    single = replace(scoring, estimator="sntis", discount=1.0, level=2 * confidence - 1)
    whole, estimates = episodes.evaluator(single), []
    with progress(f"{len(points)} policies judged", len(points)) as advance:
        for point in points:
            estimates.append(estimate_of(episodes, point, single, least_ess))
            advance()
    able = [
        number
        for number, estimate in enumerate(estimates)
        if estimate.gain is not None and estimate.gain.low is not None
    ]
    watched = [Watched.of(one, episodes, [evidence for evidence, _ in points], single) for one in guards]
    result = [
        Judged(estimate, guards=tuple(Guarding(one.guarded, one.gains[number].value) for one in watched))
        for number, estimate in enumerate(estimates)
    ]
    if not able:
        return result
    # Gains are worked out when they are looked at: of many points and episodes they would fill the memory.
    influences = (own.influence for number in able for own in gains_of(points[number][0]))
    blocks: list[Block] = [(slice(None), influences), *(one.block(able) for one in watched)]
    first = first_of([number for number in ahead if number in able], [one.ess for one in estimates], episodes)
    in_both_ways = [number for number in able for _ in range(1 if points[number][0].controlled is None else 2)]
    owners = [in_both_ways, *(able for _ in watched)]
    of_first = [np.array([number == first for number in numbers]) for numbers in owners]
    wide = critical_pair(blocks, of_first, episodes.logs.n_units, confidence, scoring.seed)
    lowest, most_skew = lowest_return(episodes.logs.rewards, whole.bounds), scoring.thresholds.gain_skew[0]
    for number in able:
        evidence, both = points[number][0], gains_of(points[number][0])
        estimate, widened = estimates[number], wide[0 if number == first else 1] / float(ndtri(confidence))
        tail = NO_TAIL if whole.is_rate else tail_of(ways_of(evidence), evidence)
        proving = Proving(confidence, widened, lowest, sensitivity, not episodes.estimated, tail, most_skew)
        one = replace(result[number], proofs=proving.proofs(evidence, estimate, both, estimate.gain))
        if proving.has_tail:
            one = replace(one, estimate=replace(estimate, verdict="caution", reasons=(TAIL, *estimate.reasons)))
        if (one.shown or 0.0) > 0:  # else no guardrail decides
            one = replace(one, guards=tuple(each.guarding(number, points[number][1], proving) for each in watched))
        result[number] = one
    return result


def first_of(ahead: Sequence[int], effective: Sequence[float], episodes: Episodes) -> int | None:
    """Of some points, by their numbers, the one whose effective sample size is closest to `AHEAD_SHARE`; None: of none.

    Sizes come of weights alone, so that what policies gained has no part in it.
    """
    wanted = AHEAD_SHARE * episodes.logs.n_units
    return min(ahead, key=lambda number: abs(effective[number] - wanted), default=None)


@dataclass(frozen=True)
class Proving:
    """How gains become bounds: with which confidence, and what they have to survive."""

    confidence: float  # one-sided
    widened: float  # by how much the largest error of all that is judged together exceeds a single one
    lowest: float  # what an episode outside support is taken to return
    sensitivity: float = 1.0  # Γ
    known: bool = True  # whether propensities are
    tail: Tail = NO_TAIL  # how skewed towards losses the gain is, whatever shows it
    most_skew: float = np.inf  # of the tail as it is seen, at most

    @property
    def has_tail(self) -> bool:
        """Whether few units may hold losses that the others hide: then nothing is shown."""
        return self.tail.seen > self.most_skew

    def proofs(
        self, evidence: Evidence, estimate: Estimate, both: Sequence[Contributions], found: Gain | Estimate | None
    ) -> tuple[Proof, ...]:
        """What shows the gain (or the value) that was found, at the one-sided level; none where it cannot be told."""
        if found is None or found.low is None or self.has_tail:
            return ()
        # As many standard errors of the gain as its own interval has, whatever shows it.
        reach = in_errors(found.value - found.low, both[0])
        worst, chance = lost_outside(evidence.outside, estimate.value, self.lowest, known=self.known)
        proofs = []
        for controlled, gain in enumerate(both):
            error = standard_error(gain)
            errors = max(reach, student_quantile(gain, 2 * self.confidence - 1)) if controlled else reach
            far = against_tail(self.widened * errors, self.tail.most) * error
            by_chance = float(np.hypot(far, self.widened * ndtri(self.confidence) * chance))
            by_control, gamma = evidence.controlled if controlled else None, self.sensitivity
            factor = lost_to(gamma, evidence, by_control)
            lost = worst + factor
            if np.isfinite(by_chance):
                low = gain.value - against_tail(errors, self.tail.most) * error
                bounds: Any = {"shown": gain.value - lost - by_chance, "low": low, "lost": factor}
                proofs.append(Proof(gain.value, reach=by_chance, error=error, controlled=bool(controlled), **bounds))
        return tuple(proofs)


@dataclass(frozen=True, eq=False)
class Watched:
    """A guarded outcome under some points, by their numbers: what each does to it."""

    guarded: Guarded
    episodes: Episodes  # whose returns are the outcome
    evidence: Sequence[Evidence]
    gains: Sequence[Contributions]
    units: slice | IntArray
    scoring: Scoring

    @classmethod
    def of(cls, guarded: Guarded, episodes: Episodes, points: Sequence[Evidence], scoring: Scoring) -> "Watched":
        """From pooled evidence; what is known of the goal's range says nothing of another outcome."""
        own = guarded.episodes(episodes)
        evidence = [guarded.evidence(point, own) for point in points]
        gains = [level_of(one) if guarded.record.guard.level else gains_of(one)[0] for one in evidence]
        return cls(guarded, own, evidence, gains, guarded.units(episodes), replace(scoring, bounds=None, cap=None))

    def block(self, numbers: Iterable[int]) -> tuple[slice | IntArray, FloatArray]:
        """The units that the outcome rests on, and their influences on what some points do to it."""
        return self.units, np.stack([np.nan_to_num(self.gains[number].influence) for number in numbers])

    def guarding(self, number: int, recombined: Float32Array, proving: "Proving") -> Guarding:
        """What a point does to the outcome, with its bound where the estimate can be trusted."""
        gain, evidence = self.gains[number], self.evidence[number]
        evaluator = self.episodes.evaluator(self.scoring)
        pool = self.episodes.pool(evidence, self.guarded.recombined(recombined), self.scoring.seed)
        estimate = evaluator.estimate(evidence, pool, by_chance=True)
        if estimate.verdict != "trust":
            return Guarding(self.guarded, gain.value)
        lowest = lowest_return(self.episodes.logs.rewards, evaluator.bounds)
        found = estimate if self.guarded.record.guard.level else estimate.gain
        own = sntis(evidence) if self.guarded.record.guard.level else ways_of(evidence)[0]
        tail = NO_TAIL if evaluator.is_rate else tail_of([own], evidence)
        limit = self.scoring.thresholds.gain_skew[0]
        proving = replace(proving, lowest=lowest, tail=tail, most_skew=limit)
        proofs = proving.proofs(evidence, estimate, [gain], found)
        return Guarding(self.guarded, gain.value, proofs[0] if proofs else None)


def level_of(evidence: Evidence) -> Contributions:
    """What a policy brings itself, by self-normalised weights, rather than its gain."""
    return in_clusters(sntis(evidence), evidence.logs.clusters, evidence.logs.loggers)


def in_errors(distance: float, gain: Contributions) -> float:
    """A distance in standard errors of a gain."""
    error = standard_error(gain)
    return distance / error if error > 0 else (0.0 if distance == 0 else np.inf)


def lost_to(gamma: float, evidence: Evidence, controlled: Controlled | None = None) -> float:
    """How much of a gain goes to weights that are wrong by a factor of up to Γ, in the worst way.

    Where episodes were lost, the odds of having been seen may be wrong by that factor, in what the policy is worth and
    in what was achieved; where propensities are known, nothing else may. With control variates, those of `controlled`.

    >>> import numpy as np
    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories(np.zeros((2, 1)), [0, 0], [0.0, 1.0], [0, 1, 2])
    >>> round(lost_to(2.0, Evidence(LogWeights(np.zeros(2), logs.offsets), logs)), 9)  # 1/2 less (1/2) / (2 + 1/2)
    0.3
    """
    if gamma <= 1:
        return 0.0
    returns, seen = evidence.returns, evidence.logs.seen_weights
    achieved = 0.0
    if seen is not None:
        mean = Contributions.of_logging(returns, seen).value
        achieved = -mean - least_value(seen, -returns, gamma, seen_factors(seen, gamma))
    if controlled is not None:
        return controlled.lost(evidence, gamma) + achieved
    least = least_value(evidence.used, returns, gamma, weight_factors(evidence, gamma))
    return sntis(evidence).value - least + achieved


def corrected(
    judged_ones: Sequence[Judged],
    paths: Sequence[str],
    shared: Callable[[str, Sequence[int]], Sequence[Sequence[float | None]]],
) -> list[Judged]:
    """Bounds that know of what folds share, as far as that matters: it has to be learned, path by path.

    `shared` gives the variance that folds share in each proof of some points (by their places) of a path. The best
    claim's path comes first, until the best claim is a corrected one, or none is above zero. Other bounds above zero,
    of points that do not matter any more, take the worst case; so do those that it leaves at or below zero.

    >>> bounds = ((3.0, 2.0), (1.5, 1.0), (-1.0, 1.0))
    >>> plain = [Judged(None, (Proof(9.0, shown, reach, 1.0),)) for shown, reach in bounds]
    >>> [round(one.shown, 3) for one in corrected(plain, ["a", "b", "c"], lambda path, places: [[0.21]])]
    [2.8, 1.086, -1.0]
    """
    ones, known = list(judged_ones), set[str]()
    able = [place for place, one in enumerate(ones) if one.proofs]
    while able:
        best = max(able, key=lambda place: ones[place].claim or 0.0)  # the first of equals, as the choice has it
        path = paths[best]
        if (ones[best].claim or 0.0) <= 0 or path in known:
            break
        known.add(path)
        places = [place for place in able if paths[place] == path]
        matters = any(proof.stands for place in places for proof in ones[place].proofs)
        worst: Sequence[Sequence[None]] = [ones[place].unknown for place in places]
        for place, variances in zip(places, shared(path, places) if matters else worst, strict=True):
            ones[place] = ones[place].knowing(variances)
    return [one if path in known else _worst_case(one) for one, path in zip(ones, paths, strict=True)]


def _worst_case(one: Judged) -> Judged:
    """Where a bound is above zero: with an error twice as large, squared, in every proof."""
    return one.knowing(one.unknown) if one.shown is not None and one.shown > 0 else one
