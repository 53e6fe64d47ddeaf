"""`learn`: the whole job. Split, behavior, candidates, fits, choice, one evaluation on the test logs."""

import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from poela.behavior.gaussian import refuse_plain_densities
from poela.behavior.staying import lost_share, with_staying
from poela.core.errors import InputError, PoelaWarning
from poela.core.interruption import deferred_signals, safe_point
from poela.core.options import apply_options, with_options
from poela.core.temporary import own_folder, remove_own_folder
from poela.core.validation import expect_kind, expect_list
from poela.data.checks import learning_problems
from poela.data.context_columns import with_features, without_constants
from poela.data.layout import LogLayout
from poela.data.opening import named
from poela.data.receipts import is_receipts
from poela.data.tables import read_and_warn, warn_of
from poela.data.trajectories import Trajectories
from poela.evaluation.densities import density_problem
from poela.evaluation.scoring import Scoring
from poela.policies.saving import live_objects
from poela.studies.audit import audited
from poela.studies.by_group import GroupRequest
from poela.studies.findings_of_audit import Audit
from poela.studies.finishing import finish, guarded_of
from poela.studies.fold_data import FoldData, remove_folds
from poela.studies.guards import Guard, outcomes_of
from poela.studies.keeping_apart import hashes_of, logging_value, refuse_same, refuse_unlike, write_episodes
from poela.studies.options import Execution, LearnOptions, RoundOptions, StudyOptions
from poela.studies.outcome_unit import Outcome
from poela.studies.parents import refuse_changed_parents
from poela.studies.place import study_place
from poela.studies.priced_candidates import paid_columns
from poela.studies.records import DataRecord, Session, StudyRecord, Task
from poela.studies.requests import STUDY_SCORING, Deadlines, fit_to_logs, parse_settings
from poela.studies.rounds import Round, RoundLogs, with_limits_of
from poela.studies.running import run
from poela.studies.runs import versions
from poela.studies.samples import said_of_samples
from poela.studies.selection import DEFAULT_SELECTION, Selection
from poela.studies.settings import StudySettings
from poela.studies.so_far import SoFar
from poela.studies.splits import Splits, parts_of, splits_of, store_splits
from poela.studies.store import SCRATCH, Store
from poela.studies.study import Study

Parts = tuple[Trajectories, Trajectories | None, Trajectories | None]
Given = Trajectories | str | PathLike[str]


@with_options(LearnOptions(), RoundOptions(), StudyOptions(), DEFAULT_SELECTION, STUDY_SCORING, Execution())
def learn(
    logs: Given | Sequence[Given],
    *,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    layout: LogLayout | None = None,
    selection: Selection | None = None,
    scoring: Scoring | None = None,
    **settings: Any,
) -> Study:
    """Learn a policy from logs, and recommend it if the logs show that it is better than what is done now.

    The episodes are split into `folds`: what four of five teach is judged by the fifth, and the weights of all folds
    together show what a policy is worth. Several logs teach together; one that taught a policy which made another log
    judges nothing. What the command line takes as names separated by commas may be a list.

    Args:
        logs: The logged decisions: `Trajectories`, a table's file, or a list of them.
        out: Directory of the study; None: it is kept as long as the object.
        resume: Continue what an interruption left in `out`.
        layout: Which parts the columns of files play; None: by their default names.
        selection: How the policy is chosen; its settings may be given by themselves.
        scoring: How policies are evaluated; its settings may be given by themselves.

    >>> from poela.simulators.registry import simulate
    >>> from poela.studies.candidates import Candidate
    >>> study = learn(simulate("tumor", episodes=300), candidates=[Candidate("fittedq")], backend="inline")
    >>> study.keeps_logging_policy, study.gain.low > 0
    (False, True)
    """
    layout = None if layout is None else expect_kind("layout", layout, LogLayout, "a LogLayout, or None")
    resume = expect_kind("resume", resume, bool, "True or False")
    round_options = apply_options(RoundOptions(), settings)
    learn_options, execution, study_settings = parse_settings(settings, selection, scoring)
    deadlines = Deadlines.of(execution.time)
    place = None if out is None else study_place(out, resume)
    study_settings = _as_recorded(study_settings, place)
    begun = Round.of(round_options, place, study_settings)
    guards = study_settings.selection.rails
    study_settings, layout = begun.settings(study_settings), with_outcomes(begun.layout(layout), guards)
    every, begun = begun.split(list(logs) if isinstance(logs, list | tuple) else [logs])
    read, of_round = _observed(every, learn_options, layout, begun, study_settings.seed)
    _refuse_parts(every, learn_options, study_settings, of_round.reference is not None)
    _refuse_returns_outside(study_settings.scoring, read)
    study_settings = _capped(study_settings, read[0])
    problem = _look_at_densities(read)
    study_settings = _smoothed_where_possible(fit_to_logs(study_settings, learn_options, read[0]), read)
    parts = parts_of(*read, study_settings)
    given = (every[0] if len(every) == 1 else read[0]) if learn_options.validation is None else learn_options.validation
    request = _group_request(learn_options, given, read[0] if read[1] is None else read[1], layout, guards)
    returns = study_settings.scoring.capped(read[0]).returns(study_settings.scoring.discount)
    outcome = Outcome.of(learn_options.outcome, returns) if learn_options.outcome else None
    looked_at = audited(read[0], learn_options.no_audit, study_settings.seed)
    about = About(looked_at, problem, request, outcome, _names(every), of_round, deadlines)
    with deferred_signals(passed_on=True), _store(place) as store, store.locked():
        remove_folds(store.directory / SCRATCH)  # training rows that a killed process left behind
        study = _carry_out(store, study_settings, parts, layout or LogLayout(), execution, about)
        if place is not None:
            _tell_of_live_objects(study)
        return study


def _names(logs: Sequence[Any]) -> str | None:
    """The names of the files that logs come from; None where they come from none."""
    return " and ".join(Path(one).name for one in logs if isinstance(one, str | PathLike)) or None


def _as_recorded(settings: StudySettings, place: Path | None) -> StudySettings:
    """With the limits of the study that is resumed, where nothing is said of them: none is dropped without a word."""
    if place is None or not Store(place).exists:
        return settings
    selection, kept = with_limits_of(Study(Store(place)).settings.selection, settings.selection)
    if kept:
        warn_of([f"this study began with {'; '.join(kept)}: kept (to be without, choose another folder)"])
    return replace(settings, selection=selection)


def _observed(
    every: list[Any], options: LearnOptions, layout: LogLayout | None, begun: Round, seed: int
) -> tuple[Parts, RoundLogs]:
    """The logs with chances of being seen, where outcomes were lost; refused where nothing makes up for the loss."""
    validation, test, of_round = _read(every, options, layout, begun)
    parts = (of_round.logs, validation, test)
    if of_round.reference is not None and any(part is not None and part.lost is not None for part in parts):
        raise InputError("several logs need outcomes that were all observed, and some were lost here: leave one out")
    first, second, third = (None if part is None else with_staying(part, seed) for part in parts)
    assert first is not None
    return (first, second, third), replace(of_round, logs=first)


def _refuse_returns_outside(scoring: Scoring, read: Parts) -> None:
    """Refuse returns beyond what was said to bound them: better now than after hours of fitting."""
    if scoring.bounds is not None:
        for part in filter(None, read):
            scoring.bounds.refuse_outside(part.returns(scoring.discount))


def _tell_of_live_objects(study: Study) -> None:
    """Say that a recommended policy is not among the files of the study, where no file can hold it."""
    if not study.keeps_logging_policy and (objects := live_objects(study.policy.stored())):
        warn_of(
            [
                f"the recommended policy is made of {' and '.join(objects)}, an object of this Python session that no "
                f"file can hold: {study.directory} has the answer and the table, and the policy decides in this "
                "session alone"
            ]
        )


@dataclass(frozen=True)
class About:
    """What is known of the logs beside what they hold, and what is to be told."""

    audit: Audit
    problem: str  # why no weight can be right, if that is known
    groups: GroupRequest
    outcome: Outcome | None  # what the return is called
    source: str | None  # the name of the file that they were read from
    round: RoundLogs  # who made them, and what is done now
    deadlines: Deadlines  # of the work on them


def with_outcomes(layout: LogLayout | None, guards: Sequence[Guard]) -> LogLayout | None:
    """The layout with the outcomes that guardrails need, too.

    >>> with_outcomes(None, [Guard.of("pain <= +0.1")]).side_outcomes
    ('pain',)
    """
    needed = outcomes_of(guards)
    if not needed:
        return layout
    layout = layout or LogLayout()
    return replace(layout, side_outcomes=tuple(dict.fromkeys((*layout.side_outcomes, *needed))))


def _group_request(
    options: LearnOptions, source: Given, logs: Trajectories, layout: LogLayout | None, guards: Sequence[Guard] = ()
) -> GroupRequest:
    """The groups that are asked for; what is wrong with them shows before anything is fitted."""
    columns = () if options.by is None else expect_list("by", options.by)
    if isinstance(source, Trajectories) or is_receipts(source):
        request = GroupRequest(columns, options.smallest_group)
    else:
        request = GroupRequest.of_table(columns, options.smallest_group, source, layout)
    warn_of(replace(request, by=(*request.by, *(guard.by for guard in guards if guard.by))).losses(logs))
    for name in outcomes_of(guards):
        logs.outcome(name)  # which says so where it is not there
    return request


@contextmanager
def _store(place: Path | None) -> Iterator[Store]:
    """The study's folder; without a place, one of its own, which goes if the work fails, and with the store."""
    if place is not None:
        yield Store(place)
        return
    own, handle = own_folder()
    store = Store(own)
    try:
        yield store
        safe_point()
        weakref.finalize(store, remove_own_folder, own, handle)
    except BaseException:
        remove_own_folder(own, handle)
        raise


def _carry_out(
    store: Store,
    settings: StudySettings,
    parts: Parts,
    layout: LogLayout,
    execution: Execution,
    about: About,
) -> Study:
    hashes = hashes_of(parts, paid_columns(settings))
    earlier = Study(store) if store.exists else None
    if earlier is not None:
        earlier.refuse_changed(missing_is_fine=True)
        settings = settings.continuing(earlier.settings)
        _check_resumable(earlier, settings, hashes)
        before, now = (() if one is None else one.parents for one in (earlier.record.rounds, about.round.record))
        refuse_changed_parents(before, now)
    rounds, known = about.round.record, about.round
    splits = splits_of(*parts, settings, store.directory, known.only_teach, known.policy).knowing(known.reference)
    store_splits(store.directory, splits)
    write_episodes(store, *(part for part in splits.folds[0].parts[:2] if part is not None))
    outcome = about.outcome or (None if earlier is None else earlier.record.outcome)
    record = _record(settings, splits, hashes, layout, _sessions(earlier))
    record = replace(record, data=replace(record.data, source=about.source), audit=about.audit, outcome=outcome)
    record = replace(record, rounds=rounds)
    if earlier is not None and earlier.record.fingerprint != record.fingerprint:
        store.withdraw_choice()  # before anything that it rests on changes
    store.write(record)
    study = Study(store)
    scratch = store.directory / SCRATCH
    folds = splits.fold_data(settings)
    problem = about.problem or about.audit.problem
    episodes = splits.episodes(settings.scoring, problem)
    if study.left_out:
        so_far = SoFar(study, episodes, guarded_of(settings, splits, episodes, about.groups))
        run(study, study.left_out, folds, execution, about.deadlines.learning, so_far.finished)
        study = Study(store)

    def fit(tasks: Sequence[Task], data: Mapping[str, FoldData]) -> None:
        run(study, tasks, data, execution, about.deadlines.everything)

    finish(study, splits, folds, (episodes, problem), fit, about.groups)
    remove_folds(scratch)
    return Study(store, parts)


def _read(
    logs: Sequence[Given], options: LearnOptions, layout: LogLayout | None, begun: Round
) -> tuple[Trajectories | None, Trajectories | None, RoundLogs]:
    """The logs as they were given: those to judge and to test by, and what teaches."""
    given, beside = logs[0], begun.beside.among([*logs, options.validation, options.test])
    first = (
        without_constants(given)
        if isinstance(given, Trajectories)
        else read_and_warn(given, layout, for_learning=True, beside=beside.of(given))
    )
    if isinstance(given, Trajectories):
        warn_of(first.notes[len(given.notes) :])
        if problems := learning_problems(first):
            raise InputError(problems)
    fixed = (layout or LogLayout()).fixed(first)

    def read(other: Given) -> Trajectories:
        if isinstance(other, Trajectories):
            return with_features(other, first)
        with named(other):
            return read_and_warn(other, fixed, beside=beside.of(other))

    later = {f"{place}.": read(other) for place, other in enumerate(logs[1:], start=2)}
    refuse_unlike(first, later)
    found = begun.logs([first, *later.values()])
    warn_of([found.note] if found.note else [])
    asked = {"validation": options.validation, "test": options.test}
    others = {role: None if other is None else read(other) for role, other in asked.items()}
    refuse_unlike(first, others)
    refuse_same(found.logs, others)
    return others["validation"], others["test"], found


def _refuse_parts(logs: Sequence[Given], options: LearnOptions, settings: StudySettings, pooled: bool) -> None:
    """Several logs are learned from in folds: who made an episode, and what it taught, says what it may judge."""
    if pooled and settings.selection.rails:
        raise InputError("guardrails need logs that one logging policy made: give the newest alone to judge by")
    if len(logs) > 1 and (options.validation is not None or settings.shares is not None or settings.test_share):
        raise InputError(
            "several logs are learned from in folds: leave away validation, shares and a share to test with; give "
            "other logs to test with"
        )


def _capped(settings: StudySettings, logs: Trajectories) -> StudySettings:
    """With the ends of the cap, where returns are to be capped: the same ones for all folds and later logs."""
    if settings.scoring.cap is None:
        return settings
    scoring = settings.scoring.knowing(logs)
    assert scoring.cap is not None
    scoring.cap.refuse_blind(logs.returns(scoring.discount))
    return replace(settings, scoring=scoring)


def _look_at_densities(parts: Parts) -> str:
    """Refuse densities in the place of their logarithms; say where log densities cannot be right, and why."""
    for part in parts:
        if part is not None:
            refuse_plain_densities(part)
    problems = [problem for part in parts if part is not None and (problem := density_problem(part))]
    warn_of(problems)
    return problems[0] if problems else ""


def _smoothed_where_possible(settings: StudySettings, parts: Sequence[Trajectories | None]) -> StudySettings:
    """Without smoothing where the logs have the propensities of logged actions alone: it needs those of all."""
    known = [logs for logs in parts if logs is not None and logs.knows_logging_policy]
    if all(logs.all_propensities is not None for logs in known):
        return settings
    return replace(settings, scoring=replace(settings.scoring, smoothing=0.0))


def _record(
    settings: StudySettings,
    splits: Splits,
    hashes: Mapping[str, str | None],
    layout: LogLayout,
    sessions: tuple[Session, ...],
) -> StudyRecord:
    held_out = splits.held_out
    return StudyRecord(
        settings=settings,
        data=DataRecord(
            hashes=hashes,
            train_episodes=splits.train.n_episodes,
            validation_episodes=sum(part.n_episodes for part in held_out),
            test_episodes=0 if splits.test is None else splits.test.n_episodes,
            folds=len(held_out),
            layout=layout.fixed(splits.train),
            propensities=splits.whole.note + said_of_samples(splits.train),
            estimated=splits.whole.estimated,
            lost=lost_share(splits.train),
        ),
        logging_policy=logging_value(held_out, settings.scoring, splits.reference),
        sessions=sessions,
    )


def _sessions(earlier: Study | None) -> tuple[Session, ...]:
    """Those before this one, and this one; says so where packages have changed in between."""
    now = Session(datetime.now(UTC).isoformat(timespec="seconds"), versions())
    before = () if earlier is None else earlier.record.sessions
    if before and before[-1].versions != now.versions:
        then = before[-1].versions
        changed = [
            f"{name} {then.get(name, '-')} → {new}" for name, new in now.versions.items() if then.get(name) != new
        ]
        warnings.warn(
            f"this study was begun with other versions ({', '.join(changed)}): further runs may differ in the last "
            "digits; the record keeps both",
            PoelaWarning,
            stacklevel=2,
        )
    return (*before, now)


def _check_resumable(earlier: Study, settings: StudySettings, hashes: Mapping[str, str | None]) -> None:
    problems = settings.conflicts_with(earlier.settings)
    before = earlier.record.data.hashes
    changed = [role for role in hashes if hashes[role] != before.get(role)]
    if changed and not problems:
        problems.append(
            f"the {' and '.join(changed)} logs are not those that this study began with: "
            "resume with the same file, or choose another directory"
        )
    if problems:
        raise InputError(problems)
