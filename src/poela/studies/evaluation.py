"""A study's policy on other logs: read as the study's own were, annotated by its model, and recorded as a look."""

from dataclasses import replace
from os import PathLike
from typing import Any

from poela.data.continuous import Logs
from poela.data.episodes import LoggedEpisodes
from poela.data.layout import LogLayout
from poela.data.tables import told
from poela.studies.material import data_hash, read_behavior
from poela.studies.records import LookRecord
from poela.studies.roles import recorded_look
from poela.studies.study import Study


def evaluate_study(
    study: Study, logs: Logs | str | PathLike[str], layout: LogLayout | None = None, **settings: Any
) -> LookRecord:
    """Evaluate the recommended policy on logs that took no part in learning, as the study itself evaluates.

    `settings` are those of `Scoring` that shall differ. Where the logging policy is kept, what it is worth is what it
    achieved.
    """
    kept = study.keeps_logging_policy  # which says so where the study has not come to its end
    given = logs if isinstance(logs, LoggedEpisodes) else told(logs, _layout(study, layout))
    key = data_hash(given)
    scoring = replace(study.settings.scoring, **settings)
    scoring = replace(scoring, estimator="behavior") if kept else scoring
    if not kept and not given.knows_logging_policy:
        model = read_behavior(study.directory / "behavior")
        given = given if model is None else model.annotate(given)
    with study.store.locked():
        return recorded_look(study.store, None if kept else study.policy, study.chosen_name, given, key, scoring)


def _layout(study: Study, given: LogLayout | None) -> LogLayout:
    own = study.record.data.layout
    return own if given is None else given.over(own)
