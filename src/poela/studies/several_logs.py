"""Logs of several logging policies in one study: who made each, which of them judge, and which only teach.

A policy must not be judged, nor be made a weight, by what taught it. So a log that taught a policy which logged another
one only teaches: the others judge, by balanced weights where several policies made them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from os.path import normpath
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.paths import is_there, place
from poela.core.policy import Policy
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.data.words import counted
from poela.evaluation.balanced import Logger, balanced
from poela.policies.decides import Decides
from poela.policies.storage import load_policy
from poela.studies.fold_data import data_hash
from poela.studies.keeping_apart import refuse_repeated, seen_before
from poela.studies.parents import is_study, taught_by
from poela.studies.round_records import PRACTICE, LogRecord, ParentRecord
from poela.studies.store import ACTING
from poela.studies.study import Study


@dataclass(frozen=True, eq=False)
class Gathered:
    """The episodes of all logs, those that only teach first, and what is done now."""

    logs: Trajectories
    records: tuple[LogRecord, ...]
    current: str
    policy: Any = None  # what is done now; None: practice, known where it was logged alone
    reference: FloatArray | None = None  # its log weights [n] in the episodes that judge; None: it made all of them
    note: str = ""
    followed: float = 1.0  # of what is recommended now


def gathered(
    logs: Sequence[Trajectories],
    logged_by: Sequence[Any] | None,
    parents: Sequence[ParentRecord] = (),
    current: str | None = None,
    near: Sequence[Study] = (),
) -> Gathered:
    """Several logs as one, with propensities that let them judge; `near` are studies whose policies may be among them.

    A policy whose study is not known may have been taught by any log of another logger.
    """
    names = _names(logs, logged_by, parents)
    studies = {name: _study(name) for name in dict.fromkeys(map(_name, names)) if name != PRACTICE}
    loggers = [_logger(name, studies) for name in names]
    hashes = [data_hash(one) for one in logs]
    if len(set(hashes)) < len(hashes):
        raise InputError("two of these logs are the same: give each of them once")
    refuse_repeated(logs)
    origins, strange = _origins(loggers, studies, [*near, *filter(None, (_study(one.name) for one in parents))])
    taught = _taught(logs, hashes, origins, parents, loggers)
    taught |= {number for number, one in enumerate(loggers) if set(strange) - {one.name}}
    judges = [place for place in range(len(logs)) if place not in taught]
    if not judges:
        raise InputError(
            "each of these logs taught a policy that made one of them, or has the same episodes as one that did, so "
            "that none is left to judge by: add a log of what is done now"
            + (f"; {_strange_in_words(strange)}" if strange else "")
        )
    pool = balanced(
        [logs[one] for one in judges], [loggers[one] for one in judges], None if current is None else _name(current)
    )
    order = [*sorted(taught), *judges]
    records = tuple(LogRecord(loggers[one].name, logs[one].n_episodes, hashes[one], one in judges) for one in order)
    now = loggers[judges[-1]].name if current is None else _name(current)
    note = "; ".join(filter(None, (pool.note, _strange_in_words(strange) if taught else "")))
    policy = next(one.policy for one in loggers if one.name == now)
    followed = all(logs[one].recommended is None for one in judges)
    # What cannot be stored, or is not what was done, is not built on.
    policy = policy if followed and callable(getattr(policy, "stored", None)) else None
    teaching = [replace(logs[one], loggers=np.full(logs[one].n_episodes, -1)) for one in sorted(taught)]
    whole = joined(*teaching, pool.logs) if teaching else pool.logs
    share = [(logs[one].adherence or 0.0, logs[one].n_steps) for one in judges if logs[one].recommended is not None]
    adherence = sum(part * steps for part, steps in share) / sum(steps for _, steps in share) if share else 1.0
    return Gathered(whole, records, now, policy, pool.reference, note, adherence)


def _names(logs: Sequence[Trajectories], logged_by: Sequence[Any] | None, parents: Sequence[ParentRecord]) -> list[Any]:
    """Who made each log: as said with the logs, or here, or practice first and then each round in turn."""
    if logged_by is not None:
        if len(logged_by) != len(logs):
            names = counted(len(logged_by), "name")
            raise InputError(f"logged_by has {names} for {counted(len(logs), 'log')}: name one for each log")
        return list(logged_by)
    known = [one.logged_by for one in logs]
    if any(one is not None for one in known):
        return [PRACTICE if one is None else one for one in known]
    usual = _acting(parents)
    if len(logs) == 1:
        return usual[-1:]
    if len(logs) == len(usual):
        return usual
    raise InputError(
        f"who made each of these {len(logs)} logs is not known: say logged_by (--logged-by practice,study1/)"
    )


def _acting(parents: Sequence[ParentRecord]) -> list[str]:
    """What acted before the first round and after each one: its policy, or where it recommended none the one before."""
    acting = [PRACTICE]
    for parent in parents:
        study = _study(parent.name)
        keeps = study is not None and study.result is not None and study.result.chosen is None
        acting.append(acting[-1] if keeps else parent.name)
    return acting


def _name(given: Any) -> str:
    if isinstance(given, str | PathLike):
        return normpath(fspath(given))
    return type(given).__name__ if isinstance(given, type) else f"{type(given).__name__} {id(given):x}"


def _study(name: str) -> Study | None:
    folder = Path(name)
    folder = folder.parent if folder.name in ACTING and is_study(folder.parent) else folder
    return Study.open(folder) if is_study(folder) else None


def _logger(given: Any, studies: dict[str, Study | None]) -> Logger:
    name = _name(given)
    if name == PRACTICE:
        return Logger(PRACTICE)
    if not isinstance(given, str | PathLike):
        if not isinstance(given, Policy) and not callable(getattr(given, "log_density", None)):
            raise InputError(f"logged_by is a {type(given).__name__}: it must be practice, a folder, or a policy")
        return Logger(name, given)
    folder, study = Path(name), studies[name]
    if not is_there(folder):
        raise InputError(
            f"{place(folder)} made one of these logs and is not there: restore its folder, whose policy is needed"
        )
    if study is None:
        return Logger(name, load_policy(folder))
    if folder.name in ACTING:
        return Logger(name, load_policy(folder))
    if study.result is None or study.result.chosen is None:
        raise InputError(f"{place(folder)} recommends no policy, so that it made no log: say who did (practice)")
    return Logger(name, study.acting_policy)


def policy_of(given: Any) -> Any:
    """The policy of a study's folder, a policy's folder, or an object; None for practice."""
    return _logger(given, {_name(given): _study(_name(given))}).policy


def _origins(
    loggers: Sequence[Logger], studies: dict[str, Study | None], near: Sequence[Study]
) -> tuple[list[Study], list[str]]:
    """The studies that the loggers come from, with those before them; and learned policies whose study is not known."""
    found, strange = [study for study in studies.values() if study is not None], []
    for logger in loggers:
        if studies.get(logger.name) is None and isinstance(logger.policy, Decides):
            own = [study for study in near if logger.policy.content_hash in _made_by(study)]
            found += own
            strange += [] if own else [logger.name]
    known: dict[Path, Study] = {}
    while found:
        study = found.pop()
        if study.directory.resolve() not in known:
            known[study.directory.resolve()] = study
            rounds = study.record.rounds
            found += (
                []
                if rounds is None
                else filter(None, (_study(log.logged_by) for log in rounds.logs if log.logged_by != PRACTICE))
            )
    return list(known.values()), list(dict.fromkeys(strange))


def _made_by(study: Study) -> set[str]:
    """The hashes of the policies that a study recommends or finds worth a trial."""
    if study.result is None:
        return set()
    policies = [None if study.result.chosen is None else study.acting_policy, study.promising]
    return {one.content_hash for one in policies if one is not None}


def _strange_in_words(names: Sequence[str]) -> str:
    which = " and ".join(names)
    return (
        f"what taught {which} is not known (name the folder of its study), so logs by others only teach"
        if names
        else ""
    )


def _taught(
    logs: Sequence[Trajectories],
    hashes: Sequence[str],
    studies: Sequence[Study],
    parents: Sequence[ParentRecord],
    loggers: Sequence[Logger],
) -> set[int]:
    """Which of the logs taught a policy that made another one, in its round or an earlier one."""
    acted = {logger.name for logger in loggers}
    known = {one for parent in parents if parent.name in acted for one in parent.taught_by}
    known |= {one for study in studies for one in taught_by(study)}
    return {
        number
        for number, (one, own) in enumerate(zip(logs, hashes, strict=True))
        if own in known or any(seen_before(study.store, one) for study in studies)
    }
