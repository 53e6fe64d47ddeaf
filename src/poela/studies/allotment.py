"""What a study says of allotting a batch by value for money: by which values, and what was shown for such a spend.

The allotment is the hull walk on new cases, by the values that the walk of the study learned from all episodes. That
walk was judged at several spends: what is said of a batch is what was shown at the nearest of them that spends no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.readable import readable
from poela.data.costs import Costs
from poela.data.layout import LogLayout
from poela.policies.allotting import BatchLimits, allotted
from poela.policies.deciding import Deciding, decisions
from poela.studies.guards import HOLDS, GuardRecord, guard_metrics
from poela.studies.outcomes import read_outcomes
from poela.studies.priced_candidates import WALK
from poela.studies.selection import Point

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.studies.study import Study


@dataclass(frozen=True)
class SpendPoint:
    """A policy on the plane of spend and gain."""

    name: str
    spend: float  # per case, as estimated
    at_most: float | None  # its upper bound; None: not looked at
    gain: float | None  # over what is done now, as estimated
    shown: float | None  # at least so much; None: these cases cannot tell
    verdict: str
    walk: bool  # whether it is a policy of the walk by value for money
    keeps: bool  # whether it keeps all other guardrails
    chosen: bool
    what: str = ""  # is spent


def spend_number(guards: Sequence[GuardRecord]) -> int | None:
    """The number of the first spend among guarded outcomes, from 1."""
    return next((number for number, one in enumerate(guards, start=1) if one.guard.level), None)


def spend_name(study: "Study") -> str:
    """What is spent, in words."""
    guards = () if study.result is None else study.result.guards
    number = spend_number(guards)
    return "" if number is None else guards[number - 1].guard.called


def spend_points(study: "Study") -> list[SpendPoint]:
    """Every policy with its spend and its gain, the cheapest first; none where no cost was named."""
    result = study.result
    number = None if result is None else spend_number(result.guards)
    if result is None or number is None:
        return []
    found = []
    for place, point in enumerate(result.points):
        spend = point.metrics.get(f"guard_{number}")
        if spend is not None:
            found.append(_spend_point(study, point, number, spend, place == result.chosen))
    return sorted(found, key=lambda one: one.spend)


def curve(points: Sequence[SpendPoint]) -> list[SpendPoint]:
    """Of the points those that no cheaper one beats in what is shown: shown gain against spend.

    Those with a gain that may break another guardrail are not among them; of those without, guardrails are not looked
    at.
    """
    best: list[SpendPoint] = []
    for one in points:
        if one.shown is None or (one.shown > 0 and not one.keeps):
            continue
        if not best or one.shown > (best[-1].shown or 0.0):
            best.append(one)
    return best


def _spend_point(study: "Study", point: Point, number: int, spend: float, chosen: bool) -> SpendPoint:
    metrics = point.metrics
    others = [name for name in guard_metrics(metrics) if name.endswith("_state") and name != f"guard_{number}_state"]
    return SpendPoint(
        study.name_of(point),
        spend,
        metrics.get(f"guard_{number}_bound"),
        metrics.get("gain"),
        metrics.get("shown"),
        point.verdict,
        walk=is_walk(study, point),
        keeps=all(metrics[name] == HOLDS for name in others),
        chosen=chosen,
        what=spend_name(study),
    )


def is_walk(study: "Study", point: Point) -> bool:
    """Whether a point is one of the walk by value for money, and not of one without costs."""
    candidate = study.origin(point)[0].candidate
    return candidate.learner == WALK and bool(candidate.settings.get("cost"))


def walk_end(study: "Study", points: Sequence[Point]) -> Point | None:
    """The end of the walk, where all that pays is spent: it has the values by which batches are allotted."""
    own = [point for point in points if point.final and is_walk(study, point)]
    return own[0] if own else None


@dataclass(frozen=True)
class JudgedAllotment:
    """The values by which a batch is allotted, and what was shown of allotting so."""

    policy: Any
    point: SpendPoint | None  # nearest below; None: not judged
    why: str  # it was not judged, or nothing is shown

    @property
    def is_shown(self) -> bool:
        """Whether allotting so is shown to be better than what is done now."""
        return not self.why

    def __str__(self) -> str:
        if self.point is None or self.point.shown is None:
            return self.why
        best = "" if self.point.gain is None else f"; best estimate {readable(self.point.gain, signed=True)}"
        judged = f"judged at {readable(self.point.spend)} {self.point.what} ({self.point.name})"
        least = f"at least {readable(self.point.shown, signed=True)} compared with what is done now{best}"
        return f"{judged}: {least}" + (f" ({self.why})" if self.why else "")


def allotment(
    study: "Study", rows: Any, how: Deciding, limits: BatchLimits, layout: LogLayout | None = None
) -> tuple[Deciding, JudgedAllotment]:
    """How the rows of a table are decided about within limits, and what is known of deciding so."""
    end = None if study.result is None else walk_end(study, study.points)
    if end is None:
        raise InputError(
            f"{study.directory} has no values to allot by: learn with --capacity large=100/1000 (or --cost), from "
            "single decisions and with fittedq among the learners"
        )
    policy = study.policy_of(end)
    walked = Costs.of(str(study.origin(end)[0].candidate.settings["cost"]))
    found = allotted(policy, rows, how, limits, walked, layout)
    return replace(how, allotted=found), _judged(study, end, _per_case(limits, walked, len(found.chosen)), walked)


def refuse_unshown_allotment(known: JudgedAllotment, anyway: str) -> None:
    """Refuse to allot where nothing is shown for it; `anyway` is how one says to do it."""
    if not known.is_shown:
        raise InputError(
            f"allotting a batch is another policy than the recommended one, which draws: {known}; draw actions "
            f"instead, or add {anyway}"
        )


def _judged(study: "Study", end: Point, per_case: float | None, walked: Costs) -> JudgedAllotment:
    policy = study.policy_of(end)
    if per_case is None:
        return JudgedAllotment(policy, None, f"not judged, since this study sorted cases by {walked.text}")
    if not _in_units_of(study, walked):
        return JudgedAllotment(policy, None, f"not judged, since this study was not asked what {walked.text} comes to")
    own = {study.name_of(point) for point in study.points if point.path_id == end.path_id}
    known = [one for one in spend_points(study) if one.name in own and one.spend <= per_case * (1 + 1e-9)]
    if not known:
        return JudgedAllotment(policy, None, "not judged at so small a spend")
    point, why = known[-1], ""
    if point.shown is None:
        why = "too few cases to tell what it gains"
    elif point.shown <= 0:
        why = "not shown to be better"
    elif not point.keeps:
        why = "it may break a guardrail"
    return JudgedAllotment(policy, point, why)


def _in_units_of(study: "Study", walked: Costs) -> bool:
    """Whether what policies are judged to spend is what the walk weighed."""
    guards = () if study.result is None else study.result.guards
    number = spend_number(guards)
    return number is not None and Costs.of(guards[number - 1].guard.outcome).amounts == walked.amounts


def _per_case(limits: BatchLimits, walked: Costs, cases: int) -> float | None:
    """What the limits come to per case at the costs of the walk; None where these are others."""
    if limits.spend is not None:
        return limits.spend
    if len(limits.capacity) == 1 and walked.only == limits.capacity[0].action:
        return limits.capacity[0].among(cases) / max(cases, 1)
    return None


def decided_batch(
    study: "Study", rows: Any, limits: BatchLimits, *, unproven: bool, likeliest: bool, **settings: Any
) -> "pa.Table":
    """The decisions of a batch as a table; `settings` are fields of `Deciding`."""
    if likeliest:
        raise InputError("a batch is allotted, or each case gets its likeliest action: say one of them")
    settings["keep"] = tuple(settings.get("keep", ()))
    how, known = allotment(study, rows, Deciding(outcomes=read_outcomes(study.directory), **settings), limits)
    if not unproven:
        refuse_unshown_allotment(known, "unproven=True")
    return decisions(known.policy, rows, how)
