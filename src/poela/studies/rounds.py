"""One error level over all rounds: which round a study is, what it may spend, and what its logs are."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.beside import Beside
from poela.data.layout import LogLayout
from poela.data.tables import warn_of
from poela.data.trajectories import Trajectories
from poela.studies.guards_kept import with_limits_of
from poela.studies.options import RoundOptions
from poela.studies.parents import parents_of
from poela.studies.round_records import ParentRecord, RoundsRecord
from poela.studies.settings import StudySettings
from poela.studies.study import Study


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
        from poela.studies.receipt_logs import by_policy

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
