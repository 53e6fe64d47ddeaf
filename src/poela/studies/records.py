"""What a study writes down, as types: built and checked once, written once, and checked again when read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from poela.core.errors import InputError
from poela.core.files import sha256
from poela.core.readable import effective
from poela.core.typed import Count, NonNegative, Seed, Share, Whole, one_of, to_plain
from poela.data.layout import LogLayout
from poela.evaluation.estimate import Estimate
from poela.stats.gain import Gain
from poela.stats.verdict import TrustThresholds
from poela.studies.candidates import Candidate
from poela.studies.findings_of_audit import Audit
from poela.studies.groups import Groups
from poela.studies.guards import GuardRecord
from poela.studies.outcome_unit import Outcome
from poela.studies.round_records import RoundsRecord
from poela.studies.selection import LoggingValue as LoggingValue
from poela.studies.selection import Point as Point
from poela.studies.selection import Selection
from poela.studies.settings import StudySettings

Metrics = Mapping[str, float | None]
Versions = Mapping[str, str]
Status = Annotated[str, one_of("done", "broke down", "failed")]
FoldsError = Annotated[str, one_of("", "leave-two-out", "doubled")]


def fingerprint_of(record: Any) -> str:
    """A hash of a record, which does not depend on the order of its fields."""
    return sha256(json.dumps(to_plain(record), sort_keys=True).encode())


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do."""

    candidate: Candidate
    restart: Whole
    seed: Seed
    fold: Whole | None = None  # held out from learning (beyond the folds: two of them); None: every episode teaches

    @cached_property
    def run_id(self) -> str:
        """The name of the run's files.

        >>> Task(Candidate("pocrm", {}), restart=1, seed=7, fold=2).run_id
        'pocrm-51ea6387a88e-1-2'
        """
        return f"{self.path_id}-{'all' if self.fold is None else self.fold}"

    @cached_property
    def path_id(self) -> str:
        """The path that the run is a part of: the same in every fold."""
        return f"{self.candidate.learner}-{self.candidate.key}-{self.restart}"


@dataclass(frozen=True)
class CheckpointRecord:
    """A policy on the way, and how it scored."""

    step: Whole
    note: str
    metrics: Metrics


@dataclass(frozen=True)
class RunRecord:
    """A finished run."""

    task: Task
    status: Status
    message: str
    warnings: tuple[str, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    wall_seconds: NonNegative
    versions: Versions
    policies_sha256: str | None = None  # of the file that holds the policies of its checkpoints

    @property
    def fingerprint(self) -> str:
        """A hash of all that a result can rest on: not of how long the run took, or with which versions."""
        return fingerprint_of(replace(self, wall_seconds=0.0, versions={}))


@dataclass(frozen=True)
class DataRecord:
    """The logs of a study: nothing that is in them, but for names of columns and actions."""

    hashes: Mapping[str, str | None]  # of the training, validation and test logs as they were given
    train_episodes: Count  # that teach, in one fold or another
    validation_episodes: Count  # that judge
    test_episodes: Whole
    folds: Count  # 1: one split
    layout: LogLayout
    propensities: str  # where they come from, in words
    estimated: bool
    source: str | None = None  # the name of the file that they were read from
    lost: Share = 0.0  # of the episodes that teach: broken off before their outcome was seen

    @property
    def doubted(self) -> bool:
        """Whether weights rest on estimates, of propensities or of the chance of being seen."""
        return self.estimated or self.lost > 0

    @property
    def chances(self) -> str:
        """What the logs know of the logging policy, or what is estimated of it."""
        return self.layout.action_space.chances


@dataclass(frozen=True)
class Session:
    """When somebody worked on the study, and with which versions of which packages."""

    when: str
    versions: Versions


@dataclass(frozen=True)
class StudyRecord:
    """What the study is; `sessions` are those who made and continued it, the first one first."""

    settings: StudySettings
    data: DataRecord
    logging_policy: LoggingValue  # on the episodes that judge
    sessions: tuple[Session, ...]
    audit: Audit | None = None  # None: the study is older than audits
    outcome: Outcome | None = None  # what the return is called; None: nothing was said
    rounds: RoundsRecord | None = None  # None: one log, and no other round

    @property
    def fingerprint(self) -> str:
        """A hash of all that a result can rest on: not of who made it when, or of what the return is called."""
        return fingerprint_of(self._known)

    def is_of(self, fingerprint: str) -> bool:
        """Whether that is the hash of this study, also as it was before thresholds knew of skewed gains, or before that
        of what lies outside support.
        """
        if fingerprint == self.fingerprint:
            return True
        known = self._known
        thresholds = known["settings"]["scoring"]["thresholds"]
        for added in (("gain_skew",), ("missing_weight_z", "outside_share")):  # the latest first
            for name in added:
                if getattr(self.settings.scoring.thresholds, name) == getattr(TrustThresholds(), name):
                    del thresholds[name]
            if fingerprint == fingerprint_of(known):
                return True
        return False

    @property
    def _known(self) -> dict[str, Any]:
        known: dict[str, Any] = to_plain(replace(self, sessions=()))
        del known["data"]["source"]  # a file may be called otherwise
        del known["outcome"]
        if self.logging_policy.ess is None:
            del known["logging_policy"]["ess"]  # as it was when every case counted alike
        if not self.data.lost:
            del known["data"]["lost"]  # as it was before outcomes could be lost
        if self.audit is None:
            del known["audit"]  # as it was when there was none
        if self.rounds is None:
            del known["rounds"]  # the same
        else:
            usual = [(known["rounds"], "followed", 1.0), *((one, "known", True) for one in known["rounds"]["parents"])]
            for where, name, value in usual:
                if where[name] == value:
                    del where[name]
        if self.settings.selection.simplest == Selection().simplest:
            del known["settings"]["selection"]["simplest"]  # the same
        for name in ("guards", "cost", "spend", "capacity"):
            if getattr(self.settings.selection, name) == getattr(Selection(), name):
                del known["settings"]["selection"][name]
        return known


@dataclass(frozen=True)
class EvaluationRecord:
    """One evaluation on logs that were kept apart."""

    policy: str  # how it was made
    data: str  # the hash of the logs
    settings: Mapping[str, Any]
    number: Count  # 1: the first evaluation of this study on these logs
    seen: Whole  # how many of these episodes took part in learning or choosing
    when: str
    estimate: Estimate
    audit: Audit | None = None  # of these logs; None: the evaluation is older than audits

    @property
    def caveat(self) -> str:
        """What to know about the evaluation itself; empty for a first one on fresh episodes."""
        if self.seen:
            return (
                f"{self.seen} of {self.estimate.n_episodes} episodes were used for learning or choosing, so the "
                "estimate is too high: evaluate on other episodes"
            )
        if self.number > 1:
            return (
                f"this is evaluation {self.number} on these logs: choosing between policies by it makes the estimate "
                "too high; keep fresh logs for a final answer"
            )
        return ""

    @property
    def advice(self) -> str:
        """What to do next: nothing is to be acted on that was judged by what it was learned from."""
        return "evaluate it on episodes that the study did not use." if self.seen else self.estimate.advice


@dataclass(frozen=True)
class EvaluationsRecord:
    """All evaluations on other logs so far, the oldest first."""

    looks: tuple[EvaluationRecord, ...] = ()  # as stored


@dataclass(frozen=True)
class SoFarRecord:
    """A provisional answer, while a study runs: about the paths that all folds have finished, and no others.

    Its bound holds for the policies that it names together; it is replaced as runs finish, and goes with the result.
    """

    study: str  # the fingerprint of what the study is
    runs: Count  # finished, of
    of: Count
    policies: Whole  # judged
    policy: str  # how the best one was made; what it is called is known at the end
    gain: float | None  # as estimated; None: no policy is shown to be better
    low: float | None  # at least so much, with
    confidence: Share


@dataclass(frozen=True)
class LikeliestRecord:
    """What handing out the chosen policy's likeliest action is worth, judged as the policy of its own that it is."""

    gain: float | None  # over the logging policy, as estimated
    low: float | None  # at least so much, with `confidence`; None: its estimate cannot be trusted
    confidence: Share
    verdict: str
    ess: NonNegative

    @property
    def is_shown(self) -> bool:
        """Whether it is shown to be better than the logging policy."""
        return self.low is not None and self.low > 0

    def in_words(self, outcome: Outcome | None = None) -> str:
        """What is shown, in the unit of the outcome."""
        unit = outcome or Outcome()
        estimate = "no estimate" if self.gain is None else f"best estimate {unit.amount(self.gain)}"
        cases = f"{effective(self.ess)} effective cases"
        if self.low is None:
            return f"no gain is shown for it ({estimate}, {cases}: {self.verdict})"
        alone = f"{100 * self.confidence:g}%, as if no other policy had been tried"
        than = "compared with" if unit.title else "better than"
        what = f"at least {unit.amount(self.low)} {than} what is done now ({alone})"
        shown = what if self.is_shown else f"not shown to be better: {what}"
        return f"{shown}; {estimate}, {cases}, verdict: {self.verdict}"


def refuse_unshown(found: LikeliestRecord | None, anyway: str, outcome: Outcome | None = None) -> None:
    """Refuse to hand out likeliest actions where nothing is shown for them; `anyway` is how one says to do it."""
    if found is not None and found.is_shown:
        return
    why = "its gain was not judged" if found is None else found.in_words(outcome)
    raise InputError(
        f"always taking the likeliest action is not the policy that was judged: {why}; draw actions instead, or "
        f"add {anyway}"
    )


@dataclass(frozen=True)
class Unconfounded:
    """The gain if everything that matters was recorded, of the recommended policy or the one with the best such bound.

    The lower end holds for all policies together, and the upper one is as far from the gain. `measured` are columns of
    the context, the strongest first, with the factor by which weights would be wrong without them.
    """

    policy: str
    gain: float
    low: float
    at_gamma: float  # the lower end if weights may be wrong by a factor of
    gamma: float
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def high(self) -> float:
        """The upper end."""
        return 2 * self.gain - self.low


@dataclass(frozen=True)
class ChoiceRecord:
    """What came of the study; `study` and `runs` are the fingerprints of what it rests on."""

    study: str
    policy: str  # the name of the recommended one
    chosen: Whole | None  # of the points; None: the logging policy
    promising: Whole | None  # worth a trial
    score: float | None
    reason: str
    points: tuple[Point, ...]  # every policy that was judged
    estimate: Estimate  # of the recommended policy, on the episodes that judged it
    gain: Gain | None  # of the chosen point (its lower end holds for all together), or of the one worth a trial, or
    # closest to it (its own lower end)
    needed: float | None  # episodes that would show that gain, if it is as estimated
    look: Count | None  # as stored: the number of the evaluation on the test logs
    logging_policy_on_test: LoggingValue | None
    left_out: tuple[str, ...]
    runs: Mapping[str, str]
    plain: Whole | None = None  # the best of the points that can be said in words, if one is shown to gain (or, where
    # none is recommended, is worth a trial)
    words: str = ""  # what it says
    folds_error: FoldsError = ""  # how bounds allow for folds that teach each other; "": they do not
    closest: Whole | None = None  # to being worth a trial, where none is
    likeliest: LikeliestRecord | None = None  # None: it was not judged (no policy, real-valued, or an older study)
    groups: Groups | None = None  # who gets what, and who gains; None: no policy, or an older study
    unconfounded: Unconfounded | None = None  # None: propensities are known and all outcomes seen, or an older study
    guards: tuple[GuardRecord, ...] = ()  # what was guarded; by their numbers, what became of it is with the points
    trial: str = ""  # the name of the one that is worth a trial, or closest to it
    lotless: Whole | None = None  # the best of the points that people can carry out without drawing lots, where the
    # one in words draws them
    lotless_words: str = ""  # what it says

    @property
    def guarded_point(self) -> Point | None:
        """The point whose guardrails are told of: the chosen one, else the one with the highest bound of its gain."""
        if self.chosen is not None or not self.points:
            return None if self.chosen is None else self.points[self.chosen]
        best = max(self.points, key=lambda point: point.metrics.get("shown") or 0.0)
        return best if (best.metrics.get("shown") or 0.0) > 0 else None

    @property
    def units(self) -> str:
        """How many independent units judged, in words: episodes or clusters."""
        return self.estimate.diagnostics.units_in_words

    def __post_init__(self) -> None:
        numbers = (self.chosen, self.promising, self.plain, self.closest, self.lotless)
        if max(number or 0 for number in numbers) >= max(len(self.points), 1):
            raise InputError("the chosen policy is none of those that were judged")
