"""Guardrails: by how much a policy may change other outcomes, or the return of a group, relative to what is done now.

A policy is recommended only if its gain is shown and every guardrail holds with the same confidence: an
intersection–union test, so that a policy needs no correction for how many guardrails it has to pass. Which of them is
in danger may differ from policy to policy; the critical value is therefore that of the largest error of all policies in
all outcomes, one max-t. (The maximum over policies of the *minimum* over outcomes would be smaller, but is right only
where all outcomes of a policy are in danger at once.)
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from poela.core.errors import InputError
from poela.core.readable import plain
from poela.data.costs import Capacity, Costs, capacities_in

RETURN = "return"  # the goal itself, in guardrails by group
HOLDS, FEW, HARM = 1.0, 0.0, -1.0  # the states of a guardrail
SPELLED = re.compile(
    r"\s*(?P<outcome>.+?)(?P<step> per step)?(?: by (?P<by>[^<>=]+?))?\s*"
    r"(?P<sign><=|>=)\s*(?P<limit>[-+]?[0-9.eE+-]+)\s*"
)
HOW = "write something like 'kidney_failure <= +0.01' or 'return by ward >= -0.02'"


@dataclass(frozen=True)
class Guard:
    """By how much an outcome may change at most, relative to what is done now, per episode and in its own unit.

    >>> Guard.of("kidney_failure <= +0.01")
    Guard(outcome='kidney_failure', at_most=True, limit=0.01, by=None, per_step=False, level=False)
    >>> print(Guard.of("return by ward>=-0.02"), "|", Guard.of("pain per step <= 0"))
    return by ward >= -0.02 | pain per step <= 0
    """

    outcome: str  # a column or a formula, or "return"; of spend, what decisions cost
    at_most: bool  # or else at least
    limit: float | None  # None: it is only reported
    by: str | None = None  # the column of groups, each of which has to keep the limit
    per_step: bool = False  # the mean of an episode's steps, rather than their sum
    level: bool = False  # spend: what the policy costs, rather than by how much it changes something

    @classmethod
    def of(cls, text: str) -> "Guard":
        """From a text such as "kidney_failure <= +0.01"; a limit other than 0 has a sign, since it is a change."""
        spelled = SPELLED.fullmatch(text) if isinstance(text, str) else None
        try:
            limit = math.nan if spelled is None else float(spelled["limit"])
        except ValueError:
            limit = math.nan
        if spelled is None or not math.isfinite(limit):
            raise InputError(f"a guardrail cannot be read: {HOW}")
        if limit and spelled["limit"][0] not in "+-":
            raise InputError(
                f"the limit {spelled['limit']} of a guardrail has no sign: it is by how much the outcome may change, "
                f"so write +{spelled['limit']} or -{spelled['limit']}"
            )
        guard = cls(spelled["outcome"], spelled["sign"] == "<=", limit, spelled["by"], bool(spelled["step"]))
        if guard.outcome == RETURN and guard.by is None:
            raise InputError("the return needs no guardrail, since it has to gain: guard it by group (return by ward)")
        return guard

    def __str__(self) -> str:
        by = "" if self.by is None else f" by {self.by}"
        limit = "" if self.limit is None else f" {'<=' if self.at_most else '>='} {self.limit_in_words}"
        return f"{self.called}{by}{limit}"

    @property
    def called(self) -> str:
        """What is guarded, in words."""
        if self.level:
            only = Costs.of(self.outcome).only
            return "spend per case" if only is None else f"{only} per case"
        return f"{self.outcome}{' per step' * self.per_step}"

    @property
    def limit_in_words(self) -> str:
        """The limit, of a change with its sign."""
        assert self.limit is not None
        return f"{'+' * (self.limit > 0 and not self.level)}{plain(self.limit)}"

    @property
    def column(self) -> str | None:
        """The column or formula that a log has to carry beside the return."""
        if self.level:
            return Costs.of(self.outcome).column
        return None if self.outcome == RETURN else self.outcome

    def own(self, change: float | None) -> float | None:
        """A change for the better as one of the outcome in its own direction, or the other way round."""
        return None if change is None else 0.0 - change if self.at_most else change


def guards_in(texts: Sequence[str]) -> tuple[Guard, ...]:
    """The guardrails that texts spell, each once."""
    return tuple(dict.fromkeys(map(Guard.of, texts)))


def outcomes_of(guards: Sequence[Guard]) -> tuple[str, ...]:
    """The further outcomes that guardrails need from a log.

    >>> outcomes_of(guards_in(["harm <= 0", "harm by ward <= +1", "return by ward >= -1"]))
    ('harm',)
    """
    return tuple(dict.fromkeys(guard.column for guard in guards if guard.column is not None))


def limits_in(guards: "Sequence[GuardRecord]") -> "list[GuardRecord]":
    """Those that are more than reported."""
    return [one for one in guards if one.guard.limit is not None]


@dataclass(frozen=True)
class GuardRecord:
    """What was guarded: a guardrail, whose outcome it is (empty: everybody's), and in words what that is called.

    What became of it is with each point, by its number among all of these from 1.
    """

    guard: Guard
    group: str = ""

    @property
    def name(self) -> str:
        """What is guarded.

        >>> GuardRecord(Guard.of("pain <= 0"), "ward: b").name
        'pain (ward: b)'
        """
        return f"{self.guard.called}{f' ({self.group})' if self.group else ''}"


def guard_metrics(metrics: Iterable[str]) -> list[str]:
    """Which of these names of metrics are about guardrails.

    >>> guard_metrics({"shown": 1.0, "guard_1": 0.2, "guard_1_state": 1.0, "guarded": 3.0})
    ['guard_1', 'guard_1_state']
    """
    return [name for name in metrics if name.startswith("guard_")]


def states(metrics: Mapping[str, float | None]) -> list[float]:
    """The states of all guardrails at a point.

    >>> states({"shown": 1.0, "guard_1_state": 1.0, "guard_2_state": -1.0})
    [1.0, -1.0]
    """
    found = (metrics[name] for name in guard_metrics(metrics) if name.endswith("_state"))
    return [state for state in found if state is not None]


def keeps_guards(metrics: Mapping[str, float | None]) -> bool:
    """Whether a point keeps every guardrail, where there are any."""
    return all(state == HOLDS for state in states(metrics))


def harms(metrics: Mapping[str, float | None]) -> bool:
    """Whether some outcome of a point is estimated to be beyond its guardrail."""
    return HARM in states(metrics)


def failures_in_words(points: Sequence[Mapping[str, float | None]], guards: Sequence[Guard]) -> str:
    """Why policies that are shown to be better may break a guardrail, each by its metrics.

    >>> points = [{"guard_1_state": -1.0}, {"guard_1_state": 0.0}, {"guard_1_state": -1.0}]
    >>> failures_in_words(points, guards_in(["pain <= +0.1"]))
    'none is shown to keep within the guardrail pain <= +0.1: ... beyond it, in 1 there are too few cases to tell'
    """
    harmful = sum(map(harms, points))
    few = len(points) - harmful
    rail = f"guardrail {guards[0]}" if len(guards) == 1 else "guardrails"
    it = "it" if len(guards) == 1 else "one of them"
    reasons = [f"in {harmful} the estimate is beyond {it}"] * (harmful > 0)
    reasons += [f"in {few} there are too few cases to tell"] * (few > 0)
    return f"none is shown to keep within the {rail}: {', '.join(reasons)}"


# What policies may spend: costs and capacities as guardrails on what a policy itself spends per case.


def spend_guards(cost: str, spend: float | None, capacity: str) -> tuple[Guard, ...]:
    """Guardrails on what a policy spends per case; without a limit, what is only to be reported.

    >>> list(map(str, spend_guards("large=3", 0.5, "large=100/1000")))
    ['spend per case <= 0.5', 'large per case <= 0.1']
    >>> list(map(str, spend_guards("price", None, "")))
    ['spend per case']
    """
    if spend is not None and not cost:
        raise InputError(
            "what may be spent needs to know what decisions cost: --cost COLUMN, or --cost large=3,small=1"
        )
    guards = [Guard(Costs.of(cost).text, at_most=True, limit=spend, level=True)] if cost else []
    for one in capacities_in(capacity) if capacity else ():
        limit = None if one.per is None else one.count / one.per  # known once the log is read
        guards.append(Guard(f"{one.action}=1", at_most=True, limit=limit, level=True))
    return tuple(guards)


def capacity_of(text: str, cases: int) -> str:
    """A capacity with the number of cases that it is of.

    >>> capacity_of("large=100, small=3/10", 2000)
    'large=100/2000,small=3/10'
    """
    return ",".join(str(one.per_case(cases)) for one in capacities_in(text)) if text else ""


def costs_to_walk(cost: str, capacity: str) -> str:
    """The costs by which cases are sorted: what was named, or of a single capacity its action; else none.

    >>> costs_to_walk("large=3", "large=1/10"), costs_to_walk("", "large=1/10"), costs_to_walk("", "a=1/2,b=1/3")
    ('large=3', 'large=1', '')
    """
    if cost:
        return cost
    limited = capacities_in(capacity) if capacity else ()
    return f"{limited[0].action}=1" if len(limited) == 1 else ""


def costs_to_price(cost: str, capacity: str) -> str:
    """The costs that may have a price: the same, and of several capacities one for each of their actions."""
    limited: tuple[Capacity, ...] = capacities_in(capacity) if capacity else ()
    return costs_to_walk(cost, capacity) or ",".join(f"{one.action}=1" for one in limited)
