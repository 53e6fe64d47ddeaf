"""What a page is about: a study, the policy that it shows, and the logs, where they are at hand."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from poela.core.errors import InputError
from poela.data.groups import SMALLEST_GROUP, GroupBy
from poela.data.trajectories import Trajectories
from poela.report.blocks import Words, named, with_signs
from poela.report.numbers.changes import STEP
from poela.report.pictures.drawing import clean
from poela.report.said import Said, said_of
from poela.report.study_logs import DoseLogs, ShownPolicy, StudyLogs
from poela.studies.groups import Groups
from poela.studies.outcome_unit import PERCENT, Outcome
from poela.studies.records import ChoiceRecord
from poela.studies.splits import Given
from poela.studies.study import Study

LONGEST_NAME = 60


@dataclass(frozen=True)
class Numbers:
    """Returns and gains of a study as a page shows them: in their unit, with as many digits as matter."""

    outcome: Outcome
    error: float  # of the mean of what is done now

    @classmethod
    def of(cls, study: Study) -> "Numbers":
        """Those of a study."""
        return cls(study.record.outcome or Outcome(), study.record.logging_policy.standard_error)

    def number(self, value: float | None, *, signed: bool = False) -> str:
        """A return or a gain.

        >>> Numbers(Outcome("survival", "%", 100.0), 0.01).number(-0.031, signed=True)
        '−3.1'
        """
        return with_signs(self.outcome.number(value, self.error, signed=signed))

    def scaled(self, value: float | None) -> float | None:
        """The same for pictures."""
        return None if value is None else self.outcome.scale * value

    @property
    def unit(self) -> str:
        """The unit of gains after a comma; empty without one."""
        return f", {gain_unit(self.outcome)}" if self.outcome.unit else ""


def gain_unit(outcome: Outcome) -> str:
    """The unit of gains, for a page."""
    return clean(outcome.gain_unit)


@dataclass(frozen=True, eq=False)
class Subject:
    """A finished study beside what its page can show of it."""

    study: Study
    result: ChoiceRecord
    shown: ShownPolicy | None
    logs: StudyLogs | None = None  # of a finite set of actions
    doses: DoseLogs | None = None  # of real-valued ones
    given: Given | None = None  # where the logs came from
    by: tuple[str, ...] = ()  # columns that tell groups
    per_year: int | None = None  # cases
    smallest: int = SMALLEST_GROUP  # cases that a group must have to be told of

    @property
    def said(self) -> Said:
        """What the page says of such actions."""
        return said_of(self.study.record.data.layout.action_space)

    @property
    def trial(self) -> bool:
        """Whether nothing is recommended, and the page is about a policy that is worth a trial."""
        return self.shown is not None and not self.shown.recommended

    @property
    def train(self) -> Trajectories | None:
        """The episodes that taught, where the logs are at hand."""
        if self.logs is not None:
            return self.logs.train
        return None if self.doses is None else self.doses.train

    @cached_property
    def groups(self) -> Groups | None:
        """Who gets what, and who gains: by the columns that were asked for, else as the study has stored it."""
        columns = tuple(column for column in self.by if GroupBy.of(column).column != STEP)
        if self.shown is None:
            return None
        if columns and self.train is not None:
            return self.study.by(*columns, logs=self.given, smallest=self.smallest)
        stored = self.result.groups
        if stored is None and self.train is not None:  # a study of an earlier version
            with suppress(InputError):  # the episodes that judged it are not at hand
                return self.study.by(logs=self.given)
        return None if stored is None else stored.of_enough(self.smallest)

    @property
    def changed(self) -> float | None:
        """The share of decisions that change; None where that is not known."""
        if self.groups is not None and self.groups.everybody.changed is not None:
            return self.groups.everybody.changed
        return None if self.shown is None else self.shown.point.metrics.get("departure")

    @property
    def outcome(self) -> Outcome:
        """The name and unit of the return."""
        return self.study.record.outcome or Outcome()

    @property
    def outcome_name(self) -> Words:
        """What the return is called: as was said, else by its column where that says something."""
        reward = self.study.record.data.layout.reward
        name = self.outcome.name or ("" if reward == "reward" else reward)
        return named(name, LONGEST_NAME) if name else "the outcome"

    def number(self, value: float | None, *, signed: bool = False) -> str:
        """A return or a gain, with as many digits as matter."""
        return Numbers.of(self.study).number(value, signed=signed)

    def level(self, value: float | None) -> str:
        """A mean return with its unit."""
        between = "" if self.outcome.unit == PERCENT else " "
        return between.join(filter(None, (self.number(value), clean(self.outcome.unit))))

    def gained(self, value: float | None, *, signed: bool = True) -> str:
        """A gain with its unit."""
        return " ".join(filter(None, (self.number(value, signed=signed), gain_unit(self.outcome))))

    @property
    def each(self) -> str:
        """What a gain is for: a percentage is one of all cases."""
        return "" if self.outcome.unit == PERCENT else " per case"

    @property
    def confidence(self) -> str:
        """That of the lower bound."""
        settings = self.study.settings
        level = settings.selection.confidence if settings.selection.by == "gain" else settings.scoring.level
        return f"{100 * level:g}%"
