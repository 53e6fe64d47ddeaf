"""A study's policy on several other logs at once, by balanced weights; what taught it judges nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.core.files import sha256
from poela.data.beside import Beside
from poela.data.layout import LogLayout
from poela.data.opening import named
from poela.data.tables import read_and_warn, warn_of
from poela.data.trajectories import Trajectories
from poela.studies.audit import audited
from poela.studies.evaluation import layout_for
from poela.studies.fold_data import data_hash
from poela.studies.keeping_apart import recorded_evaluation, refuse_unlike, seen_before
from poela.studies.parents import taught_by
from poela.studies.receipt_logs import by_policy
from poela.studies.records import EvaluationRecord
from poela.studies.several_logs import gathered
from poela.studies.study import Study


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
