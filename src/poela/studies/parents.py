"""The rounds before a study: opened, checked, and what they have shown so far."""

from os import PathLike, path
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.paths import is_there, place
from poela.studies.records import fingerprint_of
from poela.studies.round_records import ParentRecord
from poela.studies.study import Study


def is_study(folder: Path) -> bool:
    """Whether a study is in this folder."""
    return is_there(folder / "study.json")


def parents_of(after: str | PathLike[str] | None, out: Path | None) -> tuple[ParentRecord, ...]:
    """The rounds before one, the first one first; what is missing, changed, or leads back here is refused."""
    if after is None:
        return ()
    folder = Path(after)
    if not is_study(folder):
        raise InputError(f"{place(folder)} has no study, so that no round can come after it: give the folder of one")
    study = Study.open(folder)
    if study.result is None:
        raise InputError(f"{place(folder)} has come to no result yet: end it with --resume, and then learn after it")
    rounds = study.record.rounds
    earlier = () if rounds is None else rounds.parents
    own = fingerprint_of(study.result)
    if out is not None and any(_same(out, name) for name in (str(folder), *(one.name for one in earlier))):
        raise InputError(f"{place(out)} is one of the rounds before it: a study cannot come after itself")
    for one in earlier:
        if is_study(Path(one.name)) and _fingerprint(one.name) != one.fingerprint:
            raise InputError(
                f"{one.name} is not what it was when {place(folder)} was learned after it: restore it, or begin anew"
            )
    return (*earlier, _parent(study, path.normpath(after), own))


def taught_by(study: Study) -> tuple[str, ...]:
    """The hashes of the logs that a study, or a round before it, learned from."""
    rounds, data = study.record.rounds, study.record.data.hashes
    taught = tuple(one for role in ("train", "validation", "test") if (one := data.get(role)) is not None)
    if rounds is not None:
        taught += tuple(log.data for log in rounds.logs) + tuple(one for old in rounds.parents for one in old.taught_by)
    return tuple(dict.fromkeys(taught))


def refuse_changed_parents(before: tuple[ParentRecord, ...], now: tuple[ParentRecord, ...]) -> None:
    """Refuse to continue a study after other rounds than it came after."""
    then, since = ([one.fingerprint for one in rounds] for rounds in (before, now))
    if then != since:
        changed = next((one.name for one in before if one.fingerprint not in since), "the rounds before it")
        raise InputError(f"{changed} is not what this study came after: restore it, or choose another folder")


def _same(out: Path, name: str) -> bool:
    return path.realpath(out) == path.realpath(name)


def _fingerprint(folder: str) -> str:
    result = Study.open(folder).result
    return "" if result is None else fingerprint_of(result)


def _parent(study: Study, name: str, fingerprint: str) -> ParentRecord:
    rounds, result = study.record.rounds, study.result
    assert result is not None
    gain: Any = result.gain if result.chosen is not None else None
    shown, value = (0.0, 0.0) if gain is None else (gain.low or 0.0, gain.value)
    return ParentRecord(
        name,
        fingerprint,
        1 if rounds is None else rounds.number,
        shown if rounds is None else rounds.since(shown),
        value if rounds is None else rounds.estimated_since(value),
        1 if rounds is None else rounds.declared,
        1 - study.settings.selection.confidence if rounds is None else rounds.error,
        taught_by(study),
        known=rounds is None or rounds.since_first,
    )
