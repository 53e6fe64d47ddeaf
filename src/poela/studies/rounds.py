"""One error level over all rounds: which round a study is, what it may spend, and what its logs are."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.beside import Beside
from poela.data.costs import Capacity, capacities_in
from poela.data.layout import LogLayout
from poela.data.receipts import ReceiptsOf, is_receipts, policies_in
from poela.data.tables import warn_of
from poela.data.trajectories import Trajectories
from poela.data.words import counted
from poela.studies.guards import Guard, guards_in
from poela.studies.options import RoundOptions
from poela.studies.parents import parents_of
from poela.studies.round_records import PRACTICE, ParentRecord, RoundsRecord
from poela.studies.selection import Selection
from poela.studies.settings import StudySettings
from poela.studies.several_logs import policy_of
from poela.studies.study import Study

# Limits of a study that is resumed: those that are not said again stay as the record has them.


def with_limits_of(earlier: Selection, selection: Selection) -> tuple[Selection, tuple[str, ...]]:
    """A selection with the limits of an earlier one that it says nothing of, and what these are.

    >>> earlier = Selection("gain", confidence=0.95, guards=("pain <= +0.1", "harm <= 0"), capacity="large=1/10")
    >>> now, kept = with_limits_of(earlier, Selection("gain", confidence=0.95, guards=("pain <= +0.2",)))
    >>> now.guards, now.capacity, kept
    (('pain <= +0.2', 'harm <= 0'), 'large=1/10', ('harm <= 0', 'capacity large=1/10'))
    """
    said = {_subject(guard) for guard in guards_in(selection.guards)}
    guards = [text for text in earlier.guards if _subject(Guard.of(text)) not in said]
    kept, changed = list(guards), dict[str, Any](guards=(*selection.guards, *guards))
    if earlier.cost and not selection.cost:
        changed["cost"] = earlier.cost
        kept.append(f"cost {earlier.cost}")
    if earlier.spend is not None and selection.spend is None:
        changed["spend"] = earlier.spend
        kept.append(f"spend {earlier.spend:g}")
    limited = {one.action for one in _capacities(selection.capacity)}
    open_still = [str(one) for one in _capacities(earlier.capacity) if one.action not in limited]
    changed["capacity"] = ",".join(filter(None, (selection.capacity, *open_still)))
    kept += [f"capacity {one}" for one in open_still]
    return (replace(selection, **changed) if kept else selection), tuple(kept)


def _subject(guard: Guard) -> Guard:
    """What is guarded, whatever its limit."""
    return replace(guard, limit=0.0)


def _capacities(text: str) -> tuple[Capacity, ...]:
    return capacities_in(text) if text else ()


# Folders of receipts in which several policies wrote, as one log for each of these.


def by_policy(logs: Sequence[Any], logged_by: Sequence[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """The logs and who made each; where there are more names than logs, the folder of receipts is split by these.

    >>> by_policy(["first.parquet", "second.parquet"], ["practice", "study1"])
    (['first.parquet', 'second.parquet'], ['practice', 'study1'])
    """
    folders = [number for number, one in enumerate(logs) if is_receipts(one)]
    if logged_by is None:
        mixed = [logs[number] for number in folders if len(logs) > 1 and len(policies_in(logs[number])) > 1]
        if mixed:
            raise InputError(
                f"{place(mixed[0])} has receipts of several policies: say whose they are (--logged-by practice,study1/)"
            )
        return list(logs), None
    more = len(logged_by) - len(logs)
    if not folders or (more and len(folders) > 1) or more < 0:
        return list(logs), list(logged_by)
    found: list[Any] = []
    names = iter(logged_by)
    for number, one in enumerate(logs):
        own = [next(names) for _ in range(1 + more * (number in folders))]
        found += _split(one, own) if number in folders else [one]
    return found, list(logged_by)


def _split(folder: Any, names: Sequence[Any]) -> list[Any]:
    """The receipts of each of these policies."""
    there = policies_in(folder)
    hashes = [None if name == PRACTICE else getattr(policy_of(name), "short_hash", None) for name in names]
    for name, own in zip(names, hashes, strict=True):
        if len(names) > 1 and own is None:
            raise InputError(f"{place(folder)} cannot be split by {name}, which has no hash: give its log by itself")
        if own is not None and own not in there:
            known = " and ".join(f"{counted(n, 'receipt')} of {one}" for one, n in there.items())
            raise InputError(
                f"{place(folder)} has no receipts of {name} (policy {own}): it has {known}; name the study that "
                "made them"
            )
    told = frozenset(one for one in hashes if one is not None)
    return [folder if own is None else ReceiptsOf(folder, own, told - {own}) for own in hashes]


@dataclass(frozen=True, eq=False)
class Round:
    """A round that begins: those before it, and how much of the error it spends."""

    parents: tuple[ParentRecord, ...] = ()
    number: int = 1
    declared: int = 1
    error: float = 0.05  # of all rounds together
    logged_by: Sequence[Any] | None = None
    current: str | None = None
    beside: Beside = field(default_factory=Beside)  # of those logs that are receipts

    @classmethod
    def of(cls, options: RoundOptions, place: Path | None, settings: StudySettings) -> "Round":
        """As asked for, after what came before."""
        if (options.after is not None or options.rounds is not None) and settings.selection.by != "gain":
            raise InputError(f"rounds add up gains that are shown: choose by gain, not by {settings.selection.by}")
        parents = parents_of(options.after, place)
        error = 1 - settings.selection.confidence
        logs = (options.logged_by, options.current, Beside(options.outcomes, options.done, options.ended))
        if not parents:
            return cls((), 1, options.rounds or 1, error, *logs)
        last = parents[-1]
        if options.rounds is not None and options.rounds != last.declared > 1:
            raise InputError(
                f"{last.name} declared {last.declared} rounds, and now it shall be {options.rounds}: what is shown "
                "holds for the number that was declared first, so leave it out"
            )
        if last.declared == 1:
            raise InputError(
                f"{last.name} declared no further round and spent the whole error of {last.error:.2g}: continue it "
                "with --resume --rounds N, which fits nothing anew, and then learn after it"
            )
        if last.number >= last.declared:
            raise InputError(
                f"{last.name} was round {last.number} of {last.declared}, so that no error is left to spend: begin "
                "anew with more rounds"
            )
        dropped = with_limits_of(Study.open(last.name).settings.selection, settings.selection)[1]
        if dropped:
            limits = "; ".join(dropped)
            warn_of([f"{last.name} had {limits}, and this round is without: say it again to keep to it"])
        return cls(parents, last.number + 1, last.declared, last.error, *logs)

    def settings(self, settings: StudySettings) -> StudySettings:
        """With the confidence of this round."""
        if self.declared == 1:
            return settings
        selection = replace(settings.selection, confidence=1 - self.error / self.declared)
        return replace(settings, selection=selection)

    def layout(self, layout: LogLayout | None) -> LogLayout | None:
        """How logs are read: as those of the round before, but for what is said here."""
        if not self.parents:
            return layout
        own = Study(Study.open(self.parents[-1].name).store).record.data.layout
        return own if layout is None else layout.over(own)

    def split(self, logs: Sequence[Any]) -> "tuple[list[Any], Round]":
        """The logs with each folder of receipts as one log for each policy that is named for it."""
        parts, logged_by = by_policy(logs, self.logged_by)
        return parts, replace(self, logged_by=logged_by)

    def logs(self, logs: Sequence[Trajectories]) -> "RoundLogs":
        """The logs of the round as one."""
        from poela.studies.several_logs import gathered

        plain = len(logs) == 1 and self.logged_by is None and logs[0].logged_by is None and not self.parents
        if plain and self.declared == 1:
            return RoundLogs(logs[0])
        found = gathered(logs, self.logged_by, self.parents, self.current)
        record = RoundsRecord(
            self.number, self.declared, self.error, found.records, self.parents, found.current, found.followed
        )
        return RoundLogs(found.logs, record, found.policy, found.reference, found.note)


@dataclass(frozen=True, eq=False)
class RoundLogs:
    """All episodes of a study, those that only teach first; and where there are rounds what is done now."""

    logs: Trajectories
    record: RoundsRecord | None = None
    policy: Any = None  # what is done now; None: known where it was logged alone
    reference: FloatArray | None = None  # its log weights [n] in the episodes that judge; None: it made all of them
    note: str = ""

    @property
    def only_teach(self) -> int:
        """How many episodes, the first ones, only teach."""
        return 0 if self.record is None else self.record.only_teach
