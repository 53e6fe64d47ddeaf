"""Guardrails and spend on logs that came later: what the recommended policy does to guarded outcomes there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.errors import InputError
from poela.core.readable import MOST_DIGITS, readable
from poela.data.groups import Grouping
from poela.data.layout import LogLayout
from poela.data.opening import open_source
from poela.data.reshaping import stem
from poela.data.rewards import columns_paid_in
from poela.data.trajectories import Trajectories
from poela.data.words import quoted
from poela.evaluation.outside import logged_support, lowest_return
from poela.evaluation.recombination import Recombined
from poela.evaluation.scoring import Evaluator, Scoring
from poela.studies.by_group import GroupRequest
from poela.studies.guarded import Guarded, guarded_in
from poela.studies.guards import FEW, HARM, HOLDS, Guard, GuardRecord, outcomes_of
from poela.studies.held_out import Episodes
from poela.studies.judging import guard_metrics_of
from poela.studies.selection import Selection
from poela.studies.shown_gain import Guarding, Proving, Watched

if TYPE_CHECKING:
    from poela.studies.study import Study

# Guardrails in words: what became of each under a policy, and a column of the ladder for each.

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


@dataclass(frozen=True)
class GuardsLater:
    """What a policy does to guarded outcomes on later logs, each with its own bound; and why some are not known."""

    guards: tuple[GuardRecord, ...]
    metrics: Mapping[str, float | None]
    unknown: Mapping[Guard, str]
    confidence: float

    @property
    def sentences(self) -> list[str]:
        """Each guardrail, and those that could not be looked at."""
        return [
            *guard_sentences(self.guards, self.metrics),
            *(f"{guard}: not looked at: {why}" for guard, why in self.unknown.items()),
        ]

    def documents(self) -> list[dict[str, Any]]:
        """For JSON."""
        missing = guard_documents([GuardRecord(guard) for guard in self.unknown], {})
        return [*guard_documents(self.guards, self.metrics), *({**one, "state": "not looked at"} for one in missing)]


def with_guarded(study: "Study", source: str | PathLike[str], layout: LogLayout) -> LogLayout:
    """The layout with those outcomes that the study guards, or pays for, which a table has."""
    wanted = outcomes_of(study.settings.selection.rails)
    if not wanted:
        return layout
    names = open_source(source, layout, layout.label_columns).names
    there = [*names, *map(stem, layout.wide)]
    known = tuple(text for text in wanted if set(columns_paid_in(text, there)) <= set(there))
    return replace(layout, side_outcomes=known)


def guards_later(
    policy: Any, logs: Trajectories, selection: Selection, scoring: Scoring, request: GroupRequest, problem: str = ""
) -> GuardsLater:
    """The guardrails of a study under its policy, on logs with propensities that took no part in choosing it.

    One policy that passes all of its guardrails needs no correction for how many they are, so each has the one-sided
    bound of its own, by self-normalised weights, with the confidence of the study.

    >>> pain = [[0.0], [1.0], [1.0], [0.0], [0.0], [1.0]] * 50  # 1/3 after action 0, 2/3 after 1
    >>> names = {"outcomes": pain, "outcome_names": ["pain"]}
    >>> logs = Trajectories([[0.0]] * 300, [0, 1] * 150, [0.0] * 300, np.arange(301), np.full((300, 2), 0.5), **names)
    >>> class Never:
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> guards = Selection("gain", confidence=0.95, guards=("pain <= 0", "harm <= 0"))
    >>> print(*guards_later(Never(), logs, guards, Scoring(), GroupRequest()).sentences, sep="\\n")
    pain: -0.17, at most -0.11; allowed at most 0: holds
    harm <= 0: not looked at: these logs have no column 'harm'
    """
    scoring = replace(scoring, estimator="sntis", level=2 * selection.confidence - 1).knowing(logs)
    episodes = Episodes.of([logs], scoring.discount, problem, scoring.cap)
    (evidence,) = Evaluator(logs, scoring, support=logged_support(logs)).evidence([policy])
    drawn = Recombined(logs, scoring.seed).log_weights(evidence).astype(np.float32)
    pooled = episodes.evidence(evidence.weights.episodes, scoring, None, evidence.outside)
    gamma = selection.sensitivity if episodes.doubted else 1.0
    lowest = lowest_return(episodes.logs.rewards, scoring.bounds)
    proving = Proving(selection.confidence, 1.0, lowest, gamma, known=not episodes.estimated)
    known, unknown = _known(selection, logs, episodes, request)
    found: list[Guarding] = []
    for one in known:
        watched = Watched.of(one, episodes, [pooled], replace(scoring, discount=1.0))
        found.append(watched.guarding(0, drawn, proving))
    records = tuple(one.record for one in known)
    return GuardsLater(records, guard_metrics_of(found), unknown, selection.confidence)


def _known(
    selection: Selection, logs: Trajectories, episodes: Episodes, request: GroupRequest
) -> tuple[list[Guarded], dict[Guard, str]]:
    """The guardrails that these logs can tell of, and why they cannot tell of the others."""

    def groups(column: str) -> Grouping:
        return request.grouping(column, [logs], episodes)

    known, unknown = list[Guarded](), dict[Guard, str]()
    for guard in selection.rails:
        if guard.column is not None and guard.column not in logs.outcome_names:
            unknown[guard] = f"these logs have no column {quoted(guard.column)}"
            continue
        try:
            known += guarded_in([guard], [logs], episodes.logs.rewards, groups)
        except InputError as error:  # a column of groups that is not there
            unknown[guard] = str(error)
    return known, unknown
