"""A study's policy on other logs: read as the study's own were, annotated by its model, and recorded as a look."""

from dataclasses import replace
from os import PathLike
from typing import Any

from poela.data.layout import LogLayout
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.studies.logging_policy import ESTIMATED
from poela.studies.material import data_hash, read_behavior
from poela.studies.records import LookRecord
from poela.studies.roles import recorded_look
from poela.studies.study import Study


def evaluate_study(
    study: Study, logs: Trajectories | str | PathLike[str], layout: LogLayout | None = None, **settings: Any
) -> LookRecord:
    """Evaluate the chosen policy on logs that took no part in learning; `settings` are those of `evaluate`.

    Where the logging policy is kept, what it is worth is what it achieved.
    """
    given = logs if isinstance(logs, Trajectories) else read_logs(logs, layout=_layout(study, layout))
    key = data_hash(given)
    if study.choice.chosen is None:
        settings |= {"estimator": "behavior"}
        with study.store.locked():
            return recorded_look(study.store, None, study.chosen_name, given, key, **settings)
    model = read_behavior(study.directory / "behavior") if given.propensities is None else None
    if model is not None:
        given = model.annotate(given)
    reason = "" if model is None else ESTIMATED
    with study.store.locked():
        return recorded_look(study.store, study.policy, study.chosen_name, given, key, reason, **settings)


def _layout(study: Study, given: LogLayout | None) -> LogLayout:
    own = study.record.data.layout
    if given is None:
        return own
    return replace(given, context=given.context or own.context, actions=given.actions or own.actions)
