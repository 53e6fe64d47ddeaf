"""A study on disk: plain files, each written whole or not at all, by one process at a time, for its owner alone.

    .poela-study         marks the folder as a study's; locked by whoever works on it
    study.json           what the study is: settings, seed, hash of the data, features and actions
    runs/ID.safetensors  one finished run: its record (settings, seed, versions, time, metrics of every checkpoint), the
                         policies of its checkpoints, and their weights on the episodes held out from them; ID ends in
                         the fold that was held out, or beyond the last fold in the number of a pair of folds
    runs/PATH-pairs.safetensors  the finished runs of a path that leave out two folds, once there are all of them: what
                         their policies show, without these
    shared/HASH.safetensors  large arrays that many runs share, such as the logged contexts of a radius rule
    episodes/            hashes of the episodes that learn and choose
    behavior/, propensities/   the estimated logging policy, where the logs carry no propensities or it is kept
    folds/               the same for each fold
    so_far.json          a provisional answer, while the study runs
    choice.json, table.parquet, policy/, promising/, looks.json   what came of it

Every document and every run has a checksum, and what came of the study names the checksums of the runs that it rests
on.
"""

import errno
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.core.files import make_private, refuse_foreign, remove_file, sha256, sync_folder, unwritable, write_bytes
from poela.core.paths import STUDY_MARK, is_there, kind_of, place
from poela.core.records import document_of, read_record, record_of, write_record
from poela.core.storage import Stored, explained_reading, read_bytes
from poela.core.temporary import sweep, take
from poela.studies.held_out import HeldOut
from poela.studies.records import ChoiceRecord, EvaluationsRecord, RunRecord, SoFarRecord, StudyRecord
from poela.studies.run_files import (
    PackedPolicies,
    Run,
    gathered,
    opened,
    record_in,
    run_among,
    run_file,
    runs_in,
    shared_path,
)

MARK = STUDY_MARK
PAIRS = "-pairs"  # at the end of a file of all runs of a path that leave out two folds
SCRATCH = ".scratch"  # what workers are given, while they work
LOTLESS = "without-lots"  # the best policy that people can carry out without drawing lots
ACTING = ("policy", "promising", LOTLESS)  # folders that hold a policy to act by
FOLDERS = ("runs", "shared", "episodes", "behavior", "propensities", *ACTING, "folds", SCRATCH)
FORMATS: dict[type, tuple[str, str]] = {
    StudyRecord: ("poela-study", "study.json"),
    ChoiceRecord: ("poela-choice", "choice.json"),
    EvaluationsRecord: ("poela-looks", "looks.json"),
    SoFarRecord: ("poela-so-far", "so_far.json"),
}
RUN_FORMAT = "poela-run"
FORMAT_VERSION = 3
OF_A_RUN: Any = {"file_format": RUN_FORMAT, "version": FORMAT_VERSION}

T = TypeVar("T")
_Version = tuple[int, ...] | None


class Store:
    """The files of one study."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._known: dict[Path, tuple[_Version, Any]] = {}  # documents as they were written or read last

    def __repr__(self) -> str:
        return f"Store({str(self.directory)!r})"

    @property
    def exists(self) -> bool:
        """Whether a study is here."""
        return is_there(self.directory / "study.json")

    def refuse_foreign(self) -> None:
        """Refuse a folder that is neither empty nor a study's, or holds things in our places; touches nothing."""
        refuse_foreign(self.directory, (MARK, "study.json"), "study")
        for kind in FORMATS:
            self.read(kind)  # which refuses documents that are not ours
        for path in self._folders():
            if not stat.S_ISDIR(mode := path.lstat().st_mode):
                what = kind_of(mode) or "a file"
                raise InputError(f"{place(path)} is {what}, where a folder of this study should be: move it away")

    def _folders(self) -> list[Path]:
        return [path for name in FOLDERS if is_there(path := self.directory / name)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works on a study at a time; the lock vanishes with the process that holds it."""
        self.refuse_foreign()
        make_private(self.directory)
        for folder in (self.directory, *self._folders()):
            _refuse_unwritable(folder)
        try:
            handle = os.open(self.directory / MARK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise unwritable(self.directory, error) from None
        try:
            if not take(handle):
                if not take(handle, without=True):
                    raise PoelaError(
                        f"{place(self.directory)} is in use by another process: wait for it, or choose another "
                        "directory"
                    )
                warnings.warn(
                    f"{place(self.directory)} is on a disk that knows no locks: see that no other process works on it",
                    PoelaWarning,
                    stacklevel=2,
                )
            for folder in (self.directory, self.directory / "runs", self.directory / "shared"):
                sweep(folder)
            yield
        finally:
            os.close(handle)

    def write(self, record: StudyRecord | ChoiceRecord | EvaluationsRecord) -> None:
        """Write one of the study's documents, once the names of the runs that it may rest on outlast a power cut."""
        sync_folder(self.directory / "runs")
        file_format, name = FORMATS[type(record)]
        self._write(self.directory / name, record, file_format)

    def read(self, kind: type[T]) -> T | None:
        """Read one of the study's documents; None where it has not been written."""
        file_format, name = FORMATS[kind]
        path = self.directory / name
        if not is_there(path):
            return None
        return self._read(kind, path, file_format)

    def _write(self, path: Path, record: Any, file_format: str) -> None:
        known = write_record(path, record, file_format=file_format, version=FORMAT_VERSION)
        self._known[path] = (_version(path), known)

    def _read(self, kind: type[T], path: Path, file_format: str) -> T:
        """A document: parsed and checked, unless it is the very file that this store wrote or read before."""
        return self._once(path, lambda: read_record(kind, path, file_format=file_format, version=FORMAT_VERSION))

    def _once(self, path: Path, read: Callable[[], T], part: str = "") -> T:
        version, key = _version(path), path / part
        if version is None or key not in self._known or self._known[key][0] != version:
            self._known[key] = (version, read())
        known: T = self._known[key][1]
        return known

    def write_so_far(self, record: SoFarRecord) -> None:
        """Write the provisional answer; nobody waits for the disk, since the next one is soon there."""
        file_format, name = FORMATS[SoFarRecord]
        write_record(self.directory / name, record, file_format=file_format, version=FORMAT_VERSION, lasting="no")

    def withdraw_so_far(self) -> None:
        """Take back the provisional answer."""
        remove_file(self.directory / FORMATS[SoFarRecord][1])

    def withdraw_choice(self) -> None:
        """Take back what came of the study, which from now on is unfinished."""
        remove_file(self.directory / FORMATS[ChoiceRecord][1])

    def record(self) -> StudyRecord:
        """What the study is."""
        record = self.read(StudyRecord)
        if record is None:
            raise InputError(f"{place(self.directory)} holds no study (no study.json): make one with poela learn")
        return record

    def write_run(self, record: RunRecord, policies: PackedPolicies | None) -> None:
        """Write a finished run."""
        path = self._run_path(record.task.run_id)
        if policies is not None:
            for key, content in policies.shared.items():
                shared = shared_path(self.directory / "shared", key)
                if not shared.exists():
                    write_bytes(shared, content)
            record = replace(record, policies_sha256=sha256(policies.own))
        document = document_of(record, **OF_A_RUN)
        write_bytes(path, run_file(document, policies), lasting="whole")  # lost with its name, it is made again
        self._known[path] = (_version(path), record_of(RunRecord, document, place(path), **OF_A_RUN))

    def gather(self, path_id: str, run_ids: Sequence[str]) -> None:
        """Put finished runs of a path, those that leave two folds out, into one file: a study has many of them.

        That file lasts before theirs go; where both are there, after a kill, they are the same.
        """
        paths = [self._run_path(run_id) for run_id in run_ids]
        if not any(map(is_there, paths)) or any(is_there(path.with_suffix(".json")) for path in paths):
            return
        write_bytes(self._pairs_path(path_id), gathered({run_id: self._content(run_id) for run_id in run_ids}))
        for path in paths:
            remove_file(path)

    def finished_runs(self) -> dict[str, RunRecord]:
        """The records of all finished runs, by their ids."""
        runs = self.directory / "runs"
        try:
            names = sorted(os.listdir(runs))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"{place(runs)} cannot be read: {error.strerror}") from None
        ids = {Path(name).stem for name in names if Path(name).suffix in (".json", ".safetensors") and name[0] != "."}
        several = {run_id for run_id in ids if run_id.endswith(PAIRS)}
        ids = ids - several | {inner for one in several for inner in self._together(one.removesuffix(PAIRS))}
        found = {run_id: self._run(run_id) for run_id in sorted(ids)}
        return {run_id: record for run_id, record in found.items() if record is not None}

    def _run(self, run_id: str) -> RunRecord | None:
        """The record of a run; None where a run of version 0.2 has not come to its record."""
        path = self._run_path(run_id)
        if is_there(of_its_own := path.with_suffix(".json")):
            record: RunRecord | None = self._read(RunRecord, of_its_own, RUN_FORMAT)
        elif is_there(path) or (pairs := self._among(run_id)) is None:
            record = self._once(path, lambda: self._record_in(path))
        else:
            path = pairs
            record = self._once(path, lambda: self._record_among(path, run_id), run_id)
        if record is not None and record.task.run_id != run_id:
            raise InputError(f"{place(path)} is the record of another run: it was renamed or changed")
        return record

    def _record_in(self, path: Path) -> RunRecord | None:
        with explained_reading(path):
            document = record_in(path)
        return None if document is None else record_of(RunRecord, document, place(path), **OF_A_RUN)

    def _record_among(self, path: Path, run_id: str) -> RunRecord:
        with explained_reading(path):
            try:
                document = opened(self._content(run_id))[1]
            except (KeyError, TypeError, AttributeError):
                raise ValueError("it does not hold the runs that it names") from None
        return record_of(RunRecord, document, place(path), **OF_A_RUN)

    def _content(self, run_id: str) -> bytes:
        """The bytes of a run's file, or of its part of one."""
        path = self._run_path(run_id)
        if is_there(path) or (pairs := self._among(run_id)) is None:
            return read_bytes(path)
        return run_among(pairs, self._together(run_id.rpartition("-")[0])[run_id])

    def _together(self, path_id: str) -> dict[str, tuple[int, int]]:
        """The runs of a path that stand in one file, and where; none where there is no such file."""
        path = self._pairs_path(path_id)
        if not is_there(path):
            return {}

        def read() -> dict[str, tuple[int, int]]:
            with explained_reading(path):
                found = runs_in(path)
                if any(run_id.rpartition("-")[0] != path_id or "/" in run_id for run_id in found):
                    raise ValueError("it names runs of another path: it was renamed or changed")
                return found

        return self._once(path, read)

    def _among(self, run_id: str) -> Path | None:
        """The file that holds the run among others of its path."""
        path_id = run_id.rpartition("-")[0]
        return self._pairs_path(path_id) if run_id in self._together(path_id) else None

    def _pairs_path(self, path_id: str) -> Path:
        return self._run_path(f"{path_id}{PAIRS}")

    def _run_path(self, run_id: str) -> Path:
        return self.directory / "runs" / f"{run_id}.safetensors"

    def policy(self, run_id: str, number: int) -> Stored:
        """The stored policy of a run's checkpoint, after checking its bytes."""
        return self._checked(run_id, lambda run: run.policy(number, self.directory / "shared"))

    def held_out(self, run_id: str) -> HeldOut:
        """What the policies of a run show on held-out episodes, after checking its bytes."""

        return self._checked(run_id, lambda run: HeldOut.of_arrays(run.arrays))

    def _checked(self, run_id: str, read: Callable[[Run], T]) -> T:
        """What is read out of a run, after checking its bytes."""
        path = self._run_path(run_id)
        record, content = self._run(run_id), self._content(run_id)
        try:
            own = content if is_there(path.with_suffix(".json")) else opened(content)[0]
            if record is None or record.policies_sha256 != sha256(own):
                raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match")
            return read(Run(own))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
            raise InputError(f"{place(path)} does not hold the policies of a run: it was changed") from None


def _version(path: Path) -> _Version:
    """What changes whenever somebody writes the file; None where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refuse_unwritable(folder: Path) -> None:
    """Better now than after the first fit."""
    effective = os.access in os.supports_effective_ids
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=effective):
        raise unwritable(folder, OSError(errno.EACCES, os.strerror(errno.EACCES)))
