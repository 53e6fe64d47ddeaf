"""`learn`: the whole job. Split, behavior, candidates, fits, choice, one look at the test logs."""

import math
import time
import warnings
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
from poela.data.layout import LogLayout
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.learners.learner import Learner
from poela.policies.storage import FILE_FORMAT as POLICY_FORMAT
from poela.studies.budget import seconds_of
from poela.studies.candidates import Candidate
from poela.studies.defaults import default_candidates
from poela.studies.execution import Lost, Outcome, available_cores, run_inline, run_local
from poela.studies.logging_policy import LoggingPolicy, keep, kept_logging_policy, model_of_logging_policy
from poela.studies.material import Material, remove_material, write_behavior, write_material
from poela.studies.place import TABLE, study_place
from poela.studies.records import ChoiceRecord, DataRecord, RunRecord, Session, StudyRecord, Task
from poela.studies.roles import StudyData, hashes_of, logging_value, refuse_unlike, write_episodes
from poela.studies.runs import versions
from poela.studies.scoring import Scoring
from poela.studies.selection import DEFAULT_SELECTION, Selection
from poela.studies.settings import StudySettings
from poela.studies.stacks import has_gpu, run_stacked
from poela.studies.store import SCRATCH, Store
from poela.studies.study import Study
from poela.studies.tracking import TRACKERS, tracker

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


class Best:
    """The best score so far, for the progress bar."""

    def __init__(self, selection: Selection) -> None:
        self._selection, self._score, self.note = selection, -math.inf, ""

    def see(self, record: RunRecord) -> None:
        """Look at a finished run."""
        scores = [self._selection.score(row.metrics) for row in record.checkpoints]
        highest = max((score for score in scores if score is not None), default=-math.inf)
        if highest > self._score:
            self._score, self.note = highest, f"best so far {highest:.4g} ({record.task.candidate})"


def learn(
    logs: Logs,
    *,
    out: str | PathLike[str] | None = None,
    validation: Logs | None = None,
    test: Logs | None = None,
    learners: Sequence[str] | None = None,
    candidates: Sequence[Candidate | Learner] | None = None,
    restarts: int = 2,
    seed: int = 0,
    shares: Sequence[float] = (0.5, 0.3, 0.2),
    selection: Selection | None = None,
    behavior: str = "auto",
    discount: float = 1.0,
    level: float = 0.95,
    layout: LogLayout | None = None,
    resume: bool = False,
    backend: str = "local",
    jobs: int | None = None,
    budget: float | str | None = None,
    address: str | None = None,
    track: str | None = None,
) -> Study:
    """Learn a policy from logs, choose it honestly, and say what it is worth.

    The episodes are split by `shares` to learn from, to choose by and to test with, unless `validation` (and `test`)
    are given apart. Everything is kept in the directory `out`, where `resume=True` continues after an interruption;
    without `out` the study lives as long as the returned object.

    >>> from poela.simulators.registry import simulate
    >>> study = learn(simulate("tumor", episodes=100), candidates=[Candidate("fittedq")], backend="inline")
    >>> study.chosen_name
    'fittedq, restart 0, temperature ...'
    >>> study.estimate.n_episodes
    20
    """
    selection = expect_kind(
        "selection", DEFAULT_SELECTION if selection is None else selection, Selection, "a Selection, or None"
    )
    layout = None if layout is None else expect_kind("layout", layout, LogLayout, "a LogLayout, or None")
    resume = expect_kind("resume", resume, bool, "True or False")
    settings = StudySettings.checked(
        candidates if candidates is not None else default_candidates(learners),
        restarts=restarts,
        seed=seed,
        shares=expect_list("shares", shares),
        selection=selection,
        scoring=Scoring(discount=discount, value_model=selection.by != "sntis"),
        behavior=behavior,
        level=level,
    )
    execution = Execution(backend, jobs, seconds_of(budget), address, track)
    place = None if out is None else study_place(out, resume)
    parts = _parts(logs, validation, test, settings, layout)
    with orderly(passed_on=True), _store(place) as store, store.locked():
        remove_material(store.directory / SCRATCH)  # training rows that a killed process left behind
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
    parts: tuple[Trajectories | None, ...],
    layout: LogLayout,
    execution: Execution,
) -> Study:
    hashes = hashes_of(parts)
    earlier = Study(store) if store.exists else None
    if earlier is not None:
        earlier.refuse_changed(missing_is_fine=True)
        settings = settings.continuing(earlier.settings)
        _check_resumable(earlier, settings, hashes)
    given = kept_logging_policy(store.directory, parts, settings.behavior, settings.seed)
    data = StudyData(given.parts, hashes)
    keep(store.directory, given)
    write_episodes(store, data)
    record = _record(settings, data, given, layout, _sessions(earlier))
    if earlier is not None and earlier.record.fingerprint != record.fingerprint:
        store.withdraw_choice()  # before anything that it rests on changes
    store.write(record)
    study = Study(store)
    if study.left_out:
        material = Material(data.train, data.validation, given.model, settings.scoring)
        _run(study, material, execution)
        study = Study(store)
    _finish(study, data, given)
    return study


def _parts(
    logs: Logs, validation: Logs | None, test: Logs | None, settings: StudySettings, layout: LogLayout | None
) -> tuple[Trajectories | None, ...]:
    """The three parts of the logs."""
    first = logs if isinstance(logs, Trajectories) else read_logs(logs, layout=layout, for_learning=True)
    if isinstance(logs, Trajectories) and (problems := learning_problems(logs)):
        raise InputError(problems)
    fixed = (layout or LogLayout()).fixed(first)

    def read(other: Logs | None) -> Trajectories | None:
        return other if other is None or isinstance(other, Trajectories) else read_logs(other, layout=fixed)

    given = {"validation": read(validation), "test": read(test)}
    refuse_unlike(first, given)
    if validation is not None:
        return first, given["validation"], given["test"]
    if test is not None:
        train_share, validation_share, _ = settings.shares
        total = train_share + validation_share
        return (*first.split((train_share / total, validation_share / total), seed=settings.seed), given["test"])
    return first.split(settings.shares, seed=settings.seed)


def _record(
    settings: StudySettings, data: StudyData, given: LoggingPolicy, layout: LogLayout, sessions: tuple[Session, ...]
) -> StudyRecord:
    return StudyRecord(
        settings=settings,
        data=DataRecord(
            hashes=data.hashes,
            train_episodes=data.train.n_episodes,
            validation_episodes=data.validation.n_episodes,
            test_episodes=data.n_test_episodes,
            layout=layout.fixed(data.train),
            propensities=given.note,
            estimated=given.estimated,
        ),
        logging_policy=logging_value(data.validation, settings.scoring.discount),
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


def _run(study: Study, material: Material, execution: Execution) -> None:
    deadline = None if execution.budget is None else time.monotonic() + execution.budget
    scratch = study.directory / SCRATCH
    tasks = study.left_out
    lost: list[str] = []
    told = tracker(execution.track, study.directory)
    try:
        write_material(scratch, material)
        with (
            closing(_outcomes(tasks, scratch, execution, deadline)) as outcomes,
            progress(f"{len(tasks)} runs", len(tasks)) as advance,
        ):
            best = Best(study.settings.selection)
            for task, result in outcomes:
                if isinstance(result, Lost):
                    lost.append(f"{task.candidate}, restart {task.restart}: {result.reason}")
                else:
                    study.store.write_run(result.record, result.policies)
                    best.see(result.record)
                    if told is not None:
                        told.finished(task.run_id, result.record)
                advance(1, note=best.note)
    except OSError as error:
        raise unwritable(study.directory, error) from None
    finally:
        remove_material(scratch)
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


def _finish(study: Study, data: StudyData, given: LoggingPolicy) -> None:
    """Save the chosen policy, if any, look at the test logs, and write the table."""
    import pyarrow.parquet as pq

    chosen, scoring = study.choice.chosen, study.settings.scoring
    settings: dict[str, Any] = {"level": study.settings.level, "discount": scoring.discount}
    if chosen is None:
        # A model of the logging policy can be worse than the thing itself, so there is no policy to act by.
        remove_stored(study.directory / "policy", POLICY_FORMAT)
        write_behavior(
            study.directory / "behavior", given.model or model_of_logging_policy(data.train, study.settings.seed)
        )
        look = data.look(study.store, None, study.chosen_name, estimator="behavior", **settings)
    else:
        study.policy.save(study.directory / "policy", overwrite=True)
        settings |= {"truncation": scoring.truncation, "smoothing": chosen.metrics["smoothing"]}
        look = data.look(study.store, study.policy, study.chosen_name, reason=given.reason, **settings)
    with atomic_file(study.directory / TABLE) as temporary:
        pq.write_table(study.table(), temporary)
    study.store.write(
        ChoiceRecord(
            study=study.record.fingerprint,
            policy=study.chosen_name,
            run=None if chosen is None else chosen.run_id,
            checkpoint=None if chosen is None else chosen.number,
            score=study.choice.score,
            reason=study.choice.reason,
            look=None if look is None else look.number,
            estimate=None if look is None else look.estimate,
            logging_policy_on_test=data.logging_value_on_test(study.settings.scoring.discount),
            left_out=tuple(task.run_id for task in study.left_out),
            runs={run_id: run.fingerprint for run_id, run in study.runs.items()},
        )
    )
