"""How many episodes would show a gain of a given size: planned from logs that are at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from poela.core.options import with_options
from poela.core.readable import about, readable
from poela.core.typed import Count, Positive, Range, refuse_problems
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Cap
from poela.stats.gain import Gain
from poela.studies.final_gain import POWER, FinalEstimates, episodes_needed, error_of, widening
from poela.studies.findings_of_audit import Audit
from poela.studies.held_out import Episodes
from poela.studies.learning import learn
from poela.studies.options import Execution, LearnOptions, StudyOptions
from poela.studies.requests import STUDY_SCORING, USUAL
from poela.studies.selection import DEFAULT_SELECTION, Selection
from poela.studies.splits import splits_of
from poela.studies.study import Study


@dataclass(frozen=True)
class Goal:
    """The gain that shall be shown, and how surely."""

    gain: Positive
    confidence: Annotated[float, Range(above=0.5, below=1)] = DEFAULT_SELECTION.confidence

    def __post_init__(self) -> None:
        refuse_problems(self)


@dataclass(frozen=True)
class PathPoint:
    """A policy of a path: its gain as estimated, the gain's standard error, and its effective sample size."""

    policy: str
    gain: float
    error: float
    ess: float
    verified: bool  # whether its estimate can be trusted already
    lost: float = 0.0  # what Γ takes of its gain, where weights rest on estimates


@dataclass(frozen=True)
class Need:
    """So many episodes for a gain of this size."""

    gain: float
    episodes: float


@dataclass(frozen=True)
class Plan:
    """What it takes to show a gain, by a policy that these logs taught."""

    asked: Goal  # so named in the JSON of `poela plan`
    at_hand: Count
    rung: PathPoint | None  # None: no policy has an estimate with an interval
    reached: bool  # whether that policy's estimated gain is at least the one asked for
    needs: tuple[Need, ...]  # for half the gain, the gain, and twice the gain
    estimated: bool  # whether propensities are
    audit: Audit | None = None
    cap: Cap | None = None  # of returns, where the gain is one of capped ones
    gamma: float = 1.0  # the factor by which weights may be wrong
    doubted: float | None = None  # episodes that show the gain so; None: nothing is in doubt, or no number does

    def __str__(self) -> str:
        gain = readable(self.asked.gain) + ("" if self.cap is None else f" ({self.cap.in_words})")
        if self.audit is not None and self.audit.problem:
            return f"These logs do not tell how many episodes would show a gain of {gain}: {self.audit.problem}."
        if self.rung is None:
            return (
                f"These logs do not tell how many episodes would show a gain of {gain}: no policy has a standard error."
            )
        which = f"{self.rung.policy}: {readable(self.rung.gain, self.rung.error, signed=True)} as estimated now"
        of = f"for the policy that needs fewest ({which})"
        if not self.reached:
            of = f"going by the boldest policy that can be verified ({which}); none is estimated to gain as much"
        begin = "If everything that mattered was recorded (no hidden confounding), showing"
        return (
            f"{begin if self.estimated else 'Showing'} a gain of {gain} takes about "
            f"{about(self.needs[1].episodes)} episodes ({POWER:.0%} power, {100 * self.asked.confidence:g}% "
            f"confidence), {of}.{self._in_doubt(gain)}"
        )

    def _in_doubt(self, gain: str) -> str:
        """What it takes if weights, which rest on estimates, may be wrong by a factor."""
        if not self.estimated or self.rung is None or self.gamma <= 1:
            return ""
        if self.doubted is not None:
            return f" At Γ = {self.gamma:g} it takes about {about(self.doubted)}."
        left = readable(self.asked.gain - self.rung.lost, self.rung.error, signed=True)
        return f" At Γ = {self.gamma:g} no number of episodes shows it: of a gain of {gain} that leaves {left}."


@with_options(LearnOptions(), StudyOptions(), DEFAULT_SELECTION, STUDY_SCORING, Execution())
def plan(logs: Trajectories, gain: float, *, confidence: float = DEFAULT_SELECTION.confidence, **settings: Any) -> Plan:
    """How many episodes would show this gain over the logging policy; `settings` are those of `learn`.

    >>> from poela.simulators.registry import simulate
    >>> from poela.studies.candidates import Candidate
    >>> logs = simulate("tumor", episodes=200)
    >>> found = plan(logs, gain=2.0, candidates=[Candidate("fittedq")], backend="inline")
    >>> found.reached, 10 < found.needs[1].episodes < 1000
    (True, True)
    """
    goal = Goal(gain, confidence)
    quick = USUAL[logs.action_space.kind].quick(settings)
    study = learn(logs, **{**quick, "selection": Selection("gain", "best", goal.confidence), **settings})
    estimated = study.record.data.doubted
    wider = widening(study.points, estimated=estimated)
    found = study.record.audit
    rungs = [] if found is not None and found.problem else rungs_of(study, logs)
    gamma = study.settings.selection.sensitivity if estimated else 1.0
    whole = planned(rungs, goal, logs.n_episodes, estimated, wider, gamma)
    return replace(whole, audit=found, cap=study.settings.scoring.cap)


def rungs_of(study: Study, logs: Trajectories) -> list[PathPoint]:
    """The policies of a cross-fitted study whose gain has an interval."""
    splits = splits_of(logs, None, None, study.settings, study.directory)
    scoring = study.settings.scoring
    episodes = Episodes.of(splits.held_out, scoring.discount, cap=scoring.cap)
    shown = FinalEstimates(study, episodes, study.settings)
    rungs = []
    for point in study.points:
        gain: Gain | None = shown.estimate(point, by_chance=True).gain
        ess = point.metrics.get("ess")
        if gain is not None and gain.low is not None and ess:
            error = error_of(gain, scoring.level)
            verified = point.metrics.get("shown") is not None
            lost = point.metrics.get("own_lost") or 0.0
            rungs.append(PathPoint(study.name_of(point), gain.value, error, ess, verified, lost))
    return rungs


def planned(
    rungs: Sequence[PathPoint], goal: Goal, n: int, estimated: bool, wider: float = 1.0, gamma: float = 1.0
) -> Plan:
    """The plan by the policy that needs fewest episodes, of those whose estimated gain is at least the asked one.

    Where none is, by the boldest that can be verified: it stands for a policy that is yet to be found.

    >>> rungs = [PathPoint("mild", 1.0, 0.2, 90.0, True), PathPoint("bold", 3.0, 1.0, 50.0, True)]
    >>> str(planned(rungs, Goal(2.0), n=100, estimated=False))
    'Showing a gain of 2.00 takes about 150 episodes (80% power, 95% confidence), for the policy that needs fewest ...
    """

    def needed(rung: PathPoint, gain: float) -> float:
        return episodes_needed(gain, rung.error, rung.ess, n, goal.confidence, wider)

    able = [rung for rung in rungs if rung.gain >= goal.gain]
    rung = min(able, key=lambda one: needed(one, goal.gain), default=None)
    if rung is None:
        known = [one for one in rungs if one.verified] or list(rungs)
        rung = min(known, key=lambda one: one.ess, default=None)
    needs = () if rung is None else tuple(Need(gain, needed(rung, gain)) for gain in _sizes(goal.gain))
    left = 0.0 if rung is None else goal.gain - rung.lost
    doubted = needed(rung, left) if rung is not None and estimated and left > 0 else None
    return Plan(goal, n, rung, bool(able), needs, estimated, gamma=gamma, doubted=doubted)


def _sizes(gain: float) -> tuple[float, float, float]:
    return gain / 2, gain, 2 * gain
