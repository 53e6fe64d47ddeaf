"""The gain of one policy in each of several groups of episodes, with bounds that hold for all groups together.

Each group is judged as all episodes are: by the paired gain of its own episodes, the reach of its own interval, what
folds share and, where propensities are estimated, Γ. One max-t covers all groups and all policies that could have been
recommended, so that the choice of the policy is paid for here, too. Of a single group it is the bound of the study.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.evaluation.controlled import weight_factors
from poela.evaluation.estimate import Estimate
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import highest_return, lost_outside, lowest_return
from poela.evaluation.scoring import Scoring
from poela.evaluation.tails import NO_TAIL, gains_of, tail_of, ways_of
from poela.stats.bounds import against_tail
from poela.stats.gain import least_value, student_quantile
from poela.stats.verdict import WORDS
from poela.studies.critical_values import critical_pair, critical_values
from poela.studies.fold_errors import Pair, shared_within
from poela.studies.held_out import Episodes, HeldOut, part_of, units_of
from poela.studies.pooled_points import PooledEvidence
from poela.studies.shown_gain import Proof, Proving, in_errors


@dataclass(frozen=True)
class GroupGain:
    """The gain within a group: estimate, bound, two-sided interval and its standard error; None: cannot be told."""

    gain: float | None
    shown: float | None
    low: float | None
    high: float | None
    error: float | None
    ess: float
    verdict: str


@dataclass(frozen=True, eq=False)
class GroupJudge:
    """What the gain of a policy in groups of episodes rests on.

    `others` are the policies that could have been chosen in its place; `first` is the number of the one that is judged
    ahead of all (0: this one; None: none is). `sizes` are those of the folds, and `pairs` what
    runs without two folds show, with the `number` of the policy on its path; without folds there are no pairs, and
    with `sizes` of several folds but no pairs the worst case of what folds share is allowed for.
    """

    policy: PooledEvidence
    episodes: Episodes
    scoring: Scoring
    confidence: float = 0.95
    gamma: float = 1.0
    controlled: bool = False  # whether control variates show the gain
    others: Sequence[Evidence] = ()
    first: int | None = None
    sizes: Sequence[int] = ()
    number: int = 0
    pairs: Mapping[Pair, HeldOut] = field(default_factory=dict)

    def judged(self, groups: Sequence[BoolArray]) -> list[GroupGain]:
        """The gain in each of these groups of episodes [n]."""
        if not groups:
            return []
        family = (self.policy[0], *self.others)
        blocks = [self._block(family, episodes) for episodes in groups]
        known = [(units, rows) for units, rows, _ in blocks if len(rows)]
        ahead = [first for _, rows, first in blocks if len(rows)]
        n, seed = self.episodes.logs.n_units, self.scoring.seed
        place = 0 if self.first == 0 else 1
        one = critical_pair(known, ahead, n, self.confidence, seed)[place] if known else float(ndtri(self.confidence))
        at_least = one / float(ndtri(self.confidence))
        level = self.scoring.level
        both = critical_values(known, n, level, seed)[1] / float(ndtri((1 + level) / 2)) if known else 1.0
        return [self._judged(episodes, at_least, both) for episodes in groups]

    def _block(self, family: Sequence[Evidence], episodes: BoolArray) -> tuple[IntArray, FloatArray, BoolArray]:
        """The units of a group, their influence on the gain there of every policy in every way, and which are first."""
        units = units_of(self.episodes.logs.units[episodes])
        rows = [
            (own.influence, number == self.first)
            for number, evidence in enumerate(family)
            for own in gains_of(part_of(evidence, episodes))
            if np.isfinite(own.influence).all()
        ]
        influences = np.array([row for row, _ in rows]).reshape(-1, len(units))
        return units, influences, np.array([first for _, first in rows], np.bool_)

    def _judged(self, members: BoolArray, at_least: float, both_sides: float) -> GroupGain:
        evidence, episodes = part_of(self.policy[0], members), self.episodes.take(members)
        pool = episodes.pool(evidence, self.policy[1][:, members], self.scoring.seed)
        scoring = self._scoring()
        one, two = (
            episodes.evaluator(replace(scoring, level=level)).estimate(evidence, pool, by_chance=True)
            for level in (2 * self.confidence - 1, self.scoring.level)
        )
        word = "caution" if episodes.estimated and one.verdict == "trust" else one.verdict
        gains = gains_of(evidence)
        everybody = self.episodes.evaluator(scoring)
        lowest = lowest_return(self.episodes.logs.rewards, episodes.evaluator(scoring).bounds)
        tail, most = (
            NO_TAIL if everybody.is_rate else tail_of(ways_of(evidence), evidence),
            scoring.thresholds.gain_skew,
        )
        known = not self.episodes.estimated
        proving = Proving(self.confidence, at_least, lowest, self.gamma, known, tail, most[0])
        proofs = proving.proofs(evidence, one, gains, one.gain) if word in WORDS[:2] else ()
        proof = next((proof for proof in proofs if proof.controlled == self.controlled), None)
        gain = gains[int(self.controlled)]
        if proof is None:
            value = gain.value if np.isfinite(gain.value) else None
            return GroupGain(value, None, None, None, None, one.ess, word)
        if len(self.sizes) > 1:
            proof = proof.knowing(self._shared(evidence, members)[int(self.controlled)])
        low, high = self._ends(two, evidence, proof, both_sides, tail.most)
        return GroupGain(proof.value, proof.shown, low, high, proof.error * (proof.factor or 1.0), one.ess, word)

    def _scoring(self) -> Scoring:
        """As all episodes are judged: a group whose outcomes are all alike has the range of everybody's."""
        scoring = replace(self.scoring, estimator="sntis", discount=1.0)
        known = self.episodes.evaluator(scoring).bounds
        return scoring if scoring.cap is not None or known is None else replace(scoring, bounds=known)

    def _ends(
        self, estimate: Estimate, evidence: Evidence, proof: Proof, widened: float, tail: float
    ) -> tuple[float | None, float | None]:
        """The two-sided interval: as many errors of the gain as that of the estimate has, on either side.

        Its ends allow for Γ and for what lies outside support, as the bound does.
        """
        gain, level, gains = estimate.gain, self.scoring.level, gains_of(evidence)
        if gain is None or gain.low is None or gain.high is None:
            return None, None
        least = student_quantile(gains[1], level) if proof.controlled else 0.0
        down, up = (
            (proof.factor or 1.0)
            * against_tail(widened * max(in_errors(distance, gains[0]), least), skew)
            * proof.error
            for distance, skew in ((gain.value - gain.low, tail), (gain.high - gain.value, 0.0))
        )
        lost = proof.value - proof.shown - (proof.factor or 1.0) * proof.reach
        gained = self._gained(evidence) + self._missed(evidence, estimate.value)
        return proof.value - lost - down, proof.value + gained + up

    def _missed(self, evidence: Evidence, value: float) -> float:
        """By how much what was never done may be better than it counts."""
        bounds = self.episodes.evaluator(self._scoring()).bounds
        highest = highest_return(self.episodes.logs.rewards, bounds)
        return lost_outside(evidence.outside, -value, -highest, known=not self.episodes.estimated)[0]

    def _gained(self, evidence: Evidence) -> float:
        """By how much weights that are wrong by a factor of up to Γ may hide a larger gain."""
        if self.gamma <= 1:
            return 0.0
        controlled = evidence.controlled if self.controlled else None
        at_stake = evidence.returns if controlled is None else controlled.beyond(evidence)
        weights = np.exp(evidence.used)
        factors = weight_factors(evidence, self.gamma)
        highest = -least_value(evidence.used, -at_stake, self.gamma, factors)
        return highest - float(weights @ at_stake / weights.sum())

    def _shared(self, evidence: Evidence, members: BoolArray) -> list[float | None]:
        """The variance that folds share within a group, in either way."""
        return shared_within(evidence, members, self.sizes, self.number, self.pairs)
