"""Guardrails and spend on logs that came later: what the recommended policy does to guarded outcomes there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.errors import InputError
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
from poela.studies.guard_words import guard_documents, guard_sentences
from poela.studies.guarded import Guarded, guarded_in
from poela.studies.guards import Guard, GuardRecord, outcomes_of
from poela.studies.held_out import Episodes
from poela.studies.judging import guard_metrics_of
from poela.studies.selection import Selection
from poela.studies.shown_gain import Guarding, Proving, Watched

if TYPE_CHECKING:
    from poela.studies.study import Study


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
