"""A study's policy on other logs: read as the study's own were, annotated by its model, and recorded."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from poela.behavior.staying import with_staying
from poela.core.errors import InputError
from poela.core.files import sha256
from poela.data.beside import Beside
from poela.data.layout import LogLayout
from poela.data.opening import named
from poela.data.tables import read_and_warn, warn_of
from poela.data.trajectories import Trajectories
from poela.studies.audit import audited
from poela.studies.by_group import GroupRequest, evaluated_groups
from poela.studies.fold_data import data_hash, read_behavior
from poela.studies.groups import Groups
from poela.studies.guards_later import GuardsLater, guards_later
from poela.studies.keeping_apart import recorded_evaluation, refuse_unlike, seen_before
from poela.studies.parents import taught_by
from poela.studies.records import EvaluationRecord
from poela.studies.rounds import by_policy
from poela.studies.several_logs import gathered
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


# A study's policy on several other logs at once, by balanced weights; what taught it judges nothing.


def evaluate_on_several(
    study: Study,
    logs: Sequence[Any],
    layout: LogLayout | None = None,
    *,
    logged_by: Sequence[Any] | None = None,
    current: str | None = None,
    beside: Beside | None = None,
    no_audit: bool = False,
    **settings: Any,
) -> EvaluationRecord:
    """Evaluate the recommended policy on several logs, each `logged_by` practice or the policy of a study.

    Logs that taught this policy, or one that made another log, are left out with a word; `current` names what is done
    now (the last logger), which gains are over. `settings` are those of `Scoring` that shall differ.
    """
    policy, described = study.acting_policy, layout_for(study, layout)
    logs, logged_by = by_policy(logs, logged_by)
    if logged_by is not None and len(logged_by) != len(logs):
        raise InputError(f"logged_by has {len(logged_by)} names for {len(logs)} logs: name one for each log")
    asked = (beside or Beside()).among(logs)
    read = [_read(one, described, asked) for one in logs]
    refuse_unlike(read[0], {f"{number}.": one for number, one in enumerate(read[1:], start=2)})
    fresh = [place for place, one in enumerate(read) if not _taught(study, one)]
    if not fresh:
        raise InputError("this study learned from each of these logs: evaluate it on others")
    left_out = sum(one.n_episodes for place, one in enumerate(read) if place not in fresh)
    names = None if logged_by is None else [logged_by[place] for place in fresh]
    found = gathered([read[place] for place in fresh], names, (), current, [study])
    idle = sum(record.episodes for record in found.records if not record.judges)
    warn_of([found.note] if found.note else [])
    if left_out + idle:
        warn_of([f"{left_out + idle:,} episodes taught this policy, or one that made another log: left out"])
    judging = found.logs.take(np.arange(idle, found.logs.n_episodes)) if idle else found.logs
    looked_at, key = audited(judging, no_audit), data_hash(judging)
    key = key if found.reference is None else sha256(f"{key} over {found.current}".encode())
    with study.store.locked():
        return recorded_evaluation(
            study.store,
            policy,
            study.details_of(study.choice.chosen),
            judging,
            key,
            replace(study.settings.scoring, **settings),
            looked_at.problem,
            looked_at,
            found.reference,
        )


def _read(source: Any, layout: LogLayout, beside: Beside) -> Trajectories:
    if isinstance(source, Trajectories):
        return source
    with named(source):
        return read_and_warn(source, layout, beside=beside.of(source))


def _taught(study: Study, logs: Trajectories) -> bool:
    """Whether a study, or a round before it, learned from these logs."""
    return data_hash(logs) in taught_by(study) or seen_before(study.store, logs) > 0
