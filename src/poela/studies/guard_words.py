"""Guardrails in words: what became of each under a policy, and a column of the ladder for each."""

from collections.abc import Mapping, Sequence
from typing import Any

from poela.core.readable import MOST_DIGITS, readable
from poela.studies.guards import FEW, HARM, HOLDS, Guard, GuardRecord

STATES = {HOLDS: "holds", FEW: "too few cases", HARM: "harm"}
ABOUT_CELLS = "Guardrails: confidence bound of the change; ≈: the estimate, without a bound or itself beyond the limit."
TOO_MUCH = "too much"  # of spend, in place of harm


def guard_sentences(guards: Sequence[GuardRecord], metrics: Mapping[str, Any]) -> list[str]:
    """What a policy with these metrics does to each guarded outcome, and whether that is allowed.

    >>> metrics = {"guard_1": 0.0021, "guard_1_bound": 0.0084, "guard_1_state": 1.0}
    >>> guard_sentences([GuardRecord(Guard.of("pain <= +0.01"))], metrics)
    ['pain: +0.0021, at most +0.0084; allowed at most +0.01: holds']
    """
    told = []
    for number, one in enumerate(guards, start=1):
        change, bound, state = (metrics.get(f"guard_{number}{end}") for end in ("", "_bound", "_state"))
        if state is None:
            continue
        found = f"{one.name}: {_number(change, one.guard)}{_bound(one.guard, bound)}"
        if one.guard.limit is not None:
            found += f"; allowed {_side(one.guard)} {one.guard.limit_in_words}: {_state(one.guard, state)}"
        told.append(found)
    return told


def guard_columns(guards: Sequence[GuardRecord]) -> dict[Guard, list[int]]:
    """The columns of a ladder: each guardrail, with the numbers of its outcomes (several by group)."""
    columns: dict[Guard, list[int]] = {}
    for number, one in enumerate(guards, start=1):
        columns.setdefault(one.guard, []).append(number)
    return columns


def guard_cell(guard: Guard, numbers: Sequence[int], metrics: Mapping[str, Any]) -> str:
    """The bound of the outcome, of the worst group where there are several, and whether the guardrail holds.

    Where there is no bound, or the estimate itself is beyond the limit, it is the estimate, after the sign ≈.

    >>> metrics = {"guard_1": 0.0, "guard_1_bound": 0.004, "guard_1_state": 1.0, "guard_2": 0.03, "guard_2_state": -1.0}
    >>> guard_cell(Guard.of("pain <= +0.01"), [1], metrics), guard_cell(Guard.of("pain <= +0.01"), [1, 2], metrics)
    ('+0.0040 holds', '≈ +0.030 harm')
    """
    known = [number for number in numbers if metrics.get(f"guard_{number}_state") is not None]
    if not known:
        return "-"
    worst = min(known, key=lambda number: (metrics[f"guard_{number}_state"], guard.own(_told(metrics, number)) or 0.0))
    told = _told(metrics, worst)
    number = f"{'' if told == metrics.get(f'guard_{worst}_bound') else '≈ '}{_number(told, guard)}"
    return number if guard.limit is None else f"{number} {_state(guard, metrics[f'guard_{worst}_state'])}"


def guard_header(guard: Guard) -> str:
    """The head of its column, on two lines."""
    if guard.limit is None:
        return str(guard)
    what, sign, limit = str(guard).rpartition("<=" if guard.at_most else ">=")
    return f"{what.strip()}\n{sign} {limit.strip()}"


def guard_documents(guards: Sequence[GuardRecord], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a policy with these metrics does to each guarded outcome, for JSON."""
    return [
        {
            "guard": str(one.guard),
            "group": one.group or None,
            "change": known.get(f"guard_{number}"),
            "bound": known.get(f"guard_{number}_bound"),
            "limit": one.guard.limit,
            "state": None if one.guard.limit is None else _known_state(one.guard, known.get(f"guard_{number}_state")),
        }
        for number, one in enumerate(guards, start=1)
    ]


def amount_number(amount: float | None) -> str:
    """What is spent, as people read it.

    >>> amount_number(0.4236), amount_number(None)
    ('0.42', '-')
    """
    return "-" if amount is None else readable(amount, abs(amount)) if amount else "0"


def _told(metrics: Mapping[str, Any], number: int) -> float | None:
    """The bound, where the estimate does not go beyond the guardrail by itself."""
    bound, estimate = metrics.get(f"guard_{number}_bound"), metrics.get(f"guard_{number}")
    return estimate if bound is None or metrics.get(f"guard_{number}_state") == HARM else bound


def _side(guard: Guard) -> str:
    return "at most" if guard.at_most else "at least"


def _bound(guard: Guard, bound: float | None) -> str:
    return "" if bound is None else f", {_side(guard)} {_number(bound, guard)}"


def _number(change: float | None, guard: Guard) -> str:
    """To two digits or, near a limit, so many that it does not seem to be on the other side.

    >>> _number(1.2034, Guard("price", True, 1.2, level=True)), _number(0.0096, Guard.of("pain <= +0.0096"))
    ('1.203', '+0.0096')
    """
    if not change:
        return amount_number(change)
    limit = change if guard.limit is None else guard.limit
    for digits in range(MOST_DIGITS):
        number = readable(change, abs(change) / 10**digits, signed=not guard.level)
        apart = float(number.replace(",", "")) - limit
        if change == limit or ((apart > 0) == (change > limit) and apart):
            break
    return number


def _state(guard: Guard, state: float) -> str:
    return TOO_MUCH if guard.level and state == HARM else STATES[state]


def _known_state(guard: Guard, state: float | None) -> str | None:
    return None if state is None else _state(guard, state)
