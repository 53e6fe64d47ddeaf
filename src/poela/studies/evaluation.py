"""A study's policy on other logs: read as the study's own were, annotated by its model, and recorded."""

from dataclasses import replace
from os import PathLike
from typing import Any

from poela.behavior.staying import with_staying
from poela.data.layout import LogLayout
from poela.data.tables import read_and_warn
from poela.data.trajectories import Trajectories
from poela.studies.audit import audited
from poela.studies.by_group import GroupRequest, evaluated_groups
from poela.studies.fold_data import data_hash, read_behavior
from poela.studies.groups import Groups
from poela.studies.guards_later import GuardsLater, guards_later
from poela.studies.keeping_apart import recorded_evaluation
from poela.studies.records import EvaluationRecord
from poela.studies.study import Study


def evaluate_study(
    study: Study,
    logs: Trajectories | str | PathLike[str],
    layout: LogLayout | None = None,
    *,
    no_audit: bool = False,
    **settings: Any,
) -> EvaluationRecord:
    """Evaluate the recommended policy on logs that took no part in learning, as the study itself evaluates.

    `settings` are those of `Scoring` that shall differ; `no_audit` takes the logs as they are. Where the logging policy
    is kept, what it is worth is what it achieved.
    """
    keeps = study.keeps_logging_policy  # which says so where the study has not come to its end
    given = logs if isinstance(logs, Trajectories) else read_and_warn(logs, layout_for(study, layout))
    looked_at = audited(given, no_audit)
    scoring = replace(study.settings.scoring, **settings)
    scoring = replace(scoring, estimator="behavior") if keeps else scoring
    with study.store.locked():
        return recorded_evaluation(
            study.store,
            None if keeps else study.policy,
            study.details_of(study.choice.chosen),
            given if keeps else _annotated(study, given),
            data_hash(given),
            scoring,
            looked_at.problem,
            looked_at,
        )


def evaluate_study_groups(
    study: Study, logs: Trajectories, request: GroupRequest, problem: str = "", **settings: Any
) -> Groups:
    """Who gets what, and who gains, on other logs under the recommended policy.

    `problem` says why no weight can be right, if that is known; `settings` are those of `Scoring` that shall differ.
    """
    return evaluated_groups(
        study.acting_policy,
        study.chosen_name,
        _annotated(study, logs),
        replace(study.settings.scoring, **settings),
        request,
        gamma=study.settings.selection.sensitivity,
        problem=problem,
        outcome=study.record.outcome,
    )


def evaluate_study_guards(
    study: Study, logs: Trajectories, request: GroupRequest, problem: str = "", **settings: Any
) -> GuardsLater:
    """What the recommended policy does to guarded outcomes, and spends, on other logs; else as its groups are told."""
    return guards_later(
        study.acting_policy,
        with_staying(_annotated(study, logs), study.settings.seed),
        study.settings.selection,
        replace(study.settings.scoring, **settings),
        request,
        problem,
    )


def layout_for(study: Study, layout: LogLayout | None) -> LogLayout:
    """How other logs are read: as the study's own were, but for what is said here."""
    own = replace(study.record.data.layout, side_outcomes=())  # guardrails are the study's
    return own if layout is None else layout.over(own)


def _annotated(study: Study, logs: Trajectories) -> Trajectories:
    """With propensities of the study's model where the logs carry none."""
    model = None if logs.knows_logging_policy else read_behavior(study.directory / "behavior")
    annotated: Trajectories = logs if model is None else model.annotate(logs)
    return annotated
