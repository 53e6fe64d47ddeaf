"""`learn`: the whole job. Split, behavior, candidates, fits, choice, one look at the test logs."""

import time
import warnings
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.core.files import atomic_file, unwritable
from poela.core.interruption import orderly, safe_point
from poela.core.progress import progress
from poela.core.storage import remove_stored
from poela.core.temporary import own_folder, remove_own_folder
from poela.core.typed import Count, Positive, one_of, refuse_problems
from poela.core.validation import expect_kind, expect_list
from poela.data.checks import learning_problems
from poela.data.context_columns import with_features, without_constants
from poela.data.layout import LogLayout
from poela.data.tables import tell, told
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.learners.learner import Learner
from poela.policies.storage import FILE_FORMAT as POLICY_FORMAT
from poela.policies.storage import save_policy
from poela.studies.budget import seconds_of
from poela.studies.candidates import Candidate
from poela.studies.defaults import default_candidates
from poela.studies.execution import Lost, Outcome, available_cores, run_inline, run_local
from poela.studies.final_gain import GainsShown
from poela.studies.findings import findings
from poela.studies.held_out import Episodes
from poela.studies.judging import judged_points
from poela.studies.logging_policy import model_of_logging_policy
from poela.studies.material import ALL, Material, remove_folds, write_behavior, write_folds
from poela.studies.outcomes import write_outcomes
from poela.studies.place import TABLE, study_place
from poela.studies.records import ChoiceRecord, DataRecord, LoggingValue, LookRecord, Session, StudyRecord, Task
from poela.studies.roles import hashes_of, logging_value, recorded_look, refuse_unlike, write_episodes
from poela.studies.runs import carry_out, versions
from poela.studies.selection import DEFAULT_SELECTION, Point, Selection, choose, promising
from poela.studies.settings import StudySettings
from poela.studies.splits import Splits, keep_splits, parts_of, splits_of
from poela.studies.stacks import has_gpu, run_stacked
from poela.studies.store import SCRATCH, Store
from poela.studies.study import LOGGING_POLICY, Study
from poela.studies.tracking import TRACKERS, tracker

STUDY_SCORING = Scoring(smoothing=0.01, folds=2)
Parts = tuple[Trajectories, Trajectories | None, Trajectories | None]
Logs = Trajectories | str | PathLike[str]


@dataclass(frozen=True)
class Execution:
    """Where and for how long: nothing that results depend on, but for what a budget cuts off."""

    backend: Annotated[str, one_of("local", "inline", "ray")] = "local"
    jobs: Count | None = None  # None: every core
    budget: Positive | None = None  # seconds
    address: str | None = None  # of a Ray cluster
    track: Annotated[str, one_of(*TRACKERS)] | None = None

    def __post_init__(self) -> None:
        refuse_problems(self)
        if self.backend == "ray" and find_spec("ray") is None:
            raise InputError("the Ray backend needs Ray: pip install 'poela[ray]'")
        if self.address is not None and self.backend != "ray":
            raise InputError(f"address is that of a Ray cluster: choose the backend 'ray', not {self.backend!r}")
        if self.track is not None and find_spec(self.track) is None:
            raise InputError(f"tracking with {self.track} needs it: pip install 'poela[track]'")


def learn(
    logs: Logs,
    *,
    out: str | PathLike[str] | None = None,
    folds: int | None = 5,
    validation: Logs | None = None,
    test: Logs | float | None = None,
    shares: Sequence[float] | None = None,
    learners: Sequence[str] | None = None,
    candidates: Sequence[Candidate | Learner] | None = None,
    restarts: int = 1,
    seed: int = 0,
    selection: Selection | None = None,
    behavior: str = "auto",
    scoring: Scoring | None = None,
    layout: LogLayout | None = None,
    resume: bool = False,
    backend: str = "local",
    jobs: int | None = None,
    budget: float | str | None = None,
    address: str | None = None,
    track: str | None = None,
    **scored: Any,
) -> Study:
    """Learn a policy from logs, and recommend it if the logs show that it is better than what is done now.

    The episodes are split into `folds`: what four of five teach is judged by the fifth, and the weights of all folds
    together show what a policy is worth. `test` keeps a share of episodes (or other logs) for one last look. With
    `shares` (or `validation`) there is one split instead, to learn from, to choose by and to test with.
    `scoring` says how policies are evaluated; its settings (level, discount, …) may be given by themselves.
    Everything is kept in the directory `out`, where `resume=True` continues after an interruption; without `out` the
    study lives as long as the returned object.

    >>> from poela.simulators.registry import simulate
    >>> study = learn(simulate("tumor", episodes=300), candidates=[Candidate("fittedq")], backend="inline")
    >>> study.keeps_logging_policy, study.gain.low > 0
    (False, True)
    """
    selection = expect_kind(
        "selection", DEFAULT_SELECTION if selection is None else selection, Selection, "a Selection, or None"
    )
    layout = None if layout is None else expect_kind("layout", layout, LogLayout, "a LogLayout, or None")
    resume = expect_kind("resume", resume, bool, "True or False")
    one_split = shares is not None or validation is not None or folds is None
    given_shares = (0.5, 0.3, 0.2) if shares is None else expect_list("shares", shares)
    settings = StudySettings.checked(
        candidates if candidates is not None else default_candidates(learners),
        restarts=restarts,
        seed=seed,
        folds=None if one_split else folds,
        shares=given_shares if one_split else None,
        test_share=float(test) if isinstance(test, int | float) else 0.0,
        path="ambition" if selection.by == "gain" else "training",
        by_model=selection.by != "sntis",
        selection=selection,
        scoring=replace(scoring or STUDY_SCORING, **scored),
        behavior=behavior,
    )
    execution = Execution(backend, jobs, seconds_of(budget), address, track)
    place = None if out is None else study_place(out, resume)
    given = _read(logs, validation, None if isinstance(test, int | float) else test, layout)
    settings = _smoothed_where_possible(settings, given)
    parts = parts_of(*given, settings)
    with orderly(passed_on=True), _store(place) as store, store.locked():
        remove_folds(store.directory / SCRATCH)  # training rows that a killed process left behind
        return _carry_out(store, settings, parts, layout or LogLayout(), execution)


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
) -> Study:
    hashes = hashes_of(parts)
    earlier = Study(store) if store.exists else None
    if earlier is not None:
        earlier.refuse_changed(missing_is_fine=True)
        settings = settings.continuing(earlier.settings)
        _check_resumable(earlier, settings, hashes)
    splits = splits_of(*parts, settings, store.directory)
    keep_splits(store.directory, splits)
    write_episodes(store, *(part for part in splits.folds[0].parts[:2] if part is not None))
    record = _record(settings, splits, hashes, layout, _sessions(earlier))
    if earlier is not None and earlier.record.fingerprint != record.fingerprint:
        store.withdraw_choice()  # before anything that it rests on changes
    store.write(record)
    study = Study(store)
    scratch = store.directory / SCRATCH
    materials = splits.materials(settings)
    if study.left_out:
        _run(study, materials, execution)
        study = Study(store)
    _finish(study, splits, materials)
    remove_folds(scratch)
    return Study(store)


def _read(
    logs: Logs, validation: Logs | None, test: Logs | None, layout: LogLayout | None
) -> tuple[Trajectories, Trajectories | None, Trajectories | None]:
    """The logs as they were given."""
    first = without_constants(logs) if isinstance(logs, Trajectories) else told(logs, layout, for_learning=True)
    if isinstance(logs, Trajectories):
        tell(first.notes[len(logs.notes) :])
        if problems := learning_problems(first):
            raise InputError(problems)
    fixed = (layout or LogLayout()).fixed(first)

    def read(other: Logs | None) -> Trajectories | None:
        if other is None or isinstance(other, Trajectories):
            return None if other is None else with_features(other, first)
        return told(other, fixed)

    others = {"validation": read(validation), "test": read(test)}
    refuse_unlike(first, others)
    return first, others["validation"], others["test"]


def _smoothed_where_possible(settings: StudySettings, given: Sequence[Trajectories | None]) -> StudySettings:
    """Without smoothing where the logs have the propensities of logged actions alone: it needs those of all."""
    known = [logs.propensities for logs in given if logs is not None and logs.propensities is not None]
    if all(propensities.ndim == 2 for propensities in known):
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
            propensities=splits.whole.note,
            estimated=splits.whole.estimated,
        ),
        logging_policy=logging_value(held_out, settings.scoring.discount),
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
            f"this study was begun with other versions ({', '.join(changed)}): runs from now on may differ in the last "
            "digits from what they would have been; the record keeps both",
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


def _run(study: Study, materials: Mapping[str, Material], execution: Execution) -> None:
    deadline = None if execution.budget is None else time.monotonic() + execution.budget
    scratch = study.directory / SCRATCH
    tasks = study.left_out
    lost: list[str] = []
    told = tracker(execution.track, study.directory)
    try:
        write_folds(scratch, materials)
        with (
            closing(_outcomes(tasks, scratch, execution, deadline)) as outcomes,
            progress(f"{len(tasks)} runs", len(tasks)) as advance,
        ):
            for task, result in outcomes:
                if isinstance(result, Lost):
                    lost.append(f"{task.candidate}, restart {task.restart}: {result.reason}")
                else:
                    study.store.write_run(result.record, result.policies)
                    if told is not None:
                        told.finished(task.run_id, result.record)
                advance(1, note=str(task.candidate))
    except OSError as error:
        raise unwritable(study.directory, error) from None
    finally:
        remove_folds(scratch)
    if lost:
        raise PoelaError("; ".join(lost))


def _outcomes(
    tasks: Sequence[Task], scratch: Path, execution: Execution, deadline: float | None
) -> Generator[Outcome, None, None]:
    if execution.backend == "inline":
        return run_inline(tasks, scratch, deadline)
    if execution.backend == "local":
        jobs = execution.jobs or available_cores()
        return (run_stacked if has_gpu() else run_local)(tasks, scratch, jobs, deadline)
    from poela.studies.ray_backend import run_ray

    return run_ray(tasks, scratch, execution.address, deadline)


def _finish(study: Study, splits: Splits, materials: Mapping[str, Material]) -> None:
    """Judge every policy, choose, fit what is chosen on all episodes, look at the test logs, and write it all down."""
    import pyarrow.parquet as pq

    settings = study.settings
    episodes = Episodes.of(splits.held_out, settings.scoring.discount)
    points, _ = judged_points(study.store, list(study.runs.values()), episodes, settings, study.n_folds)
    estimated, logging = study.record.data.estimated, study.record.logging_policy
    choice = choose(points, settings.selection, episodes.logs.n_episodes, logging, estimated)
    hopeful = promising(points) if settings.selection.by == "gain" else None
    wanted = {"policy": choice.chosen, "promising": hopeful}
    if study.n_folds > 1:
        _fit_on_all(study, [point for point in wanted.values() if point is not None], materials[ALL])
        study = Study(study.store)
    if choice.chosen is None:
        # A model of the logging policy can be worse than the thing itself, so there is no policy to act by.
        model = splits.model or model_of_logging_policy(splits.train, settings.seed)
        write_behavior(study.directory / "behavior", model)
    else:
        write_outcomes(study.directory, splits.train, settings.scoring.discount)
    gains = GainsShown(study, episodes, settings)
    name = LOGGING_POLICY if choice.chosen is None else study.name_of(choice.chosen)
    look = _look(study, choice.chosen, name, splits)
    result = ChoiceRecord(
        study=study.record.fingerprint,
        policy=name,
        chosen=None if choice.chosen is None else points.index(choice.chosen),
        promising=None if hopeful is None else points.index(hopeful),
        score=choice.score,
        reason=choice.reason,
        points=tuple(points),
        estimate=gains.estimate(choice.chosen),
        gain=gains.gain(choice.chosen, hopeful),
        needed=None if choice.chosen is not None or hopeful is None else gains.needed(hopeful),
        look=None if look is None else look.number,
        logging_policy_on_test=_logging_value(splits.test, settings),
        left_out=tuple(task.run_id for task in study.left_out),
        runs={run_id: study.all_runs[run_id].fingerprint for run_id in _rests_on(study, wanted.values())},
    )
    for folder, point in wanted.items():
        if point is None:
            remove_stored(study.directory / folder, POLICY_FORMAT)
        else:
            known = findings(result, study.record, promising=folder == "promising")
            save_policy(study.policy_of(point), study.directory / folder, overwrite=True, findings=known)
    study.store.write(result)
    with atomic_file(study.directory / TABLE) as temporary:
        pq.write_table(Study(study.store).table(), temporary)


def _rests_on(study: Study, points: Iterable[Point | None]) -> list[str]:
    """The runs behind a result: those that were judged, and those of its policies on all episodes.

    Fits on all episodes that an earlier result asked for are not among them.
    """
    fitted = {study.fitted_run(point) for point in points if point is not None}
    return [*study.runs, *sorted(fitted - set(study.runs))]


def _fit_on_all(study: Study, points: Sequence[Point], material: Material) -> None:
    """Fit the chosen candidates on every episode; those that an earlier session has fitted are there."""
    for point in points:
        task = replace(study.all_runs[f"{point.path_id}-0"].task, fold=None)
        if task.run_id not in study.store.finished_runs():
            safe_point()
            result = carry_out(task, material)
            if result.policies is None or len(result.record.checkpoints) <= point.number:
                raise PoelaError(f"{task.candidate} could not be fitted on all episodes: {result.record.message}")
            study.store.write_run(result.record, result.policies)


def _logging_value(test: Trajectories | None, settings: StudySettings) -> LoggingValue | None:
    return None if test is None else logging_value([test], settings.scoring.discount)


def _look(study: Study, chosen: Point | None, name: str, splits: Splits) -> LookRecord | None:
    """The one look at the test logs, where there are any."""
    key = study.record.data.hashes["test"]
    if splits.test is None or key is None:
        return None
    scoring = study.settings.scoring
    if chosen is None:
        return recorded_look(study.store, None, name, splits.test, key, replace(scoring, estimator="behavior"))
    return recorded_look(study.store, study.policy_of(chosen), name, splits.test, key, scoring)
