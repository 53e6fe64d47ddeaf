"""A study's guardrails while its policy runs: how other outcomes have changed, and whether a limit is broken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poela.core.readable import readable
from poela.data.groups import Grouping
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.rounds.compared import Comparison, Units, compared
from poela.rounds.ending import by_last
from poela.rounds.looks import EXACT, SEQUENCE, WatchPlan
from poela.studies.guarded import guarded_in
from poela.studies.guards import Guard


@dataclass(frozen=True)
class GuardSeen:
    """One guardrail: by how much its outcome has changed, in its own direction, and whether the limit is broken."""

    name: str
    change: float
    low: float | None
    high: float | None
    broken: bool
    words: str


def watched_guards(guards: Sequence[Guard], logs: Trajectories) -> list[Guard]:
    """Those that can be watched: about an outcome of everybody, which these logs carry."""
    return [
        one
        for one in guards
        if one.limit is not None and one.by is None and not one.level and one.column in logs.outcome_names
    ]


def guards_seen(
    guards: Sequence[Guard],
    cases: Trajectories,
    old: Trajectories,
    scoring: Scoring,
    plan: WatchPlan,
    sizes: tuple[int, ...],
    paired: bool,
) -> tuple[GuardSeen, ...]:
    """Each guardrail on new cases against old ones, or (`paired`) against practice beside them, which grows, too.

    The error of the plan is split over all guardrails: together they raise a false alarm no more often than it says.
    """
    if not guards:
        return ()
    method = SEQUENCE if plan.method == EXACT else plan.method
    split = replace(plan, method=method, level=1 - (1 - plan.level) / len(guards))
    new, before = (guarded_in(guards, [logs], logs.returns(scoring.discount), _no_groups) for logs in (cases, old))
    places = by_last(cases.units), by_last(old.units)
    found = []
    for guard, now, then in zip(guards, new, before, strict=True):
        arms = [Units(values.values, place) for values, place in zip((now, then), places, strict=True)]
        against = arms[1] if paired else arms[1].summary
        seen = compared(arms[0], against, split, sizes, None)
        found.append(_seen(guard, seen, now.slack))
    return tuple(found)


def _no_groups(column: str) -> Grouping:
    raise AssertionError("guardrails by group are not watched")


def _seen(guard: Guard, seen: Comparison, slack: float) -> GuardSeen:
    """`seen` is a change for the better; what is told is the change of the outcome itself."""
    broken = seen.high is not None and seen.high + slack < 0
    ends = (seen.high, seen.low) if guard.at_most else (seen.low, seen.high)
    low, high = (guard.own(end) for end in ends)
    change = guard.own(seen.value)
    assert change is not None
    between = "too early for bounds" if low is None or high is None else f"{_signed(low)} to {_signed(high)}"
    words = f"{guard.called} has changed by {_signed(change)} ({between}), where {guard.limit_in_words} is allowed"
    return GuardSeen(str(guard), change, low, high, broken, words)


def _signed(value: float) -> str:
    return readable(value, signed=True)
