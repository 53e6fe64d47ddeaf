"""A study's policy on other logs: read as the study's own were, annotated by its model, and recorded."""

from dataclasses import replace
from os import PathLike
from typing import Any

from poela.data.continuous import Logs
from poela.data.episodes import LoggedEpisodes
from poela.data.layout import LogLayout
from poela.data.tables import read_and_warn
from poela.studies.audit import audited
from poela.studies.fold_data import data_hash, read_behavior
from poela.studies.keeping_apart import recorded_evaluation
from poela.studies.records import EvaluationRecord
from poela.studies.study import Study


def evaluate_study(
    study: Study,
    logs: Logs | str | PathLike[str],
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
    annotated = logs if isinstance(logs, LoggedEpisodes) else read_and_warn(logs, _layout(study, layout))
    key = data_hash(annotated)
    looked_at = audited(annotated, no_audit)
    scoring = replace(study.settings.scoring, **settings)
    scoring = replace(scoring, estimator="behavior") if keeps else scoring
    if not keeps and not annotated.knows_logging_policy:
        model = read_behavior(study.directory / "behavior")
        annotated = annotated if model is None else model.annotate(annotated)
    with study.store.locked():
        return recorded_evaluation(
            study.store,
            None if keeps else study.policy,
            study.chosen_name,
            annotated,
            key,
            scoring,
            looked_at.problem,
            looked_at,
        )


def _layout(study: Study, layout: LogLayout | None) -> LogLayout:
    own = study.record.data.layout
    return own if layout is None else layout.over(own)
