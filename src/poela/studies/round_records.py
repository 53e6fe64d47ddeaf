"""What a study remembers of the rounds before it: who logged what, who learned from it, and what was shown so far."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from poela.core.errors import InputError
from poela.core.typed import Count, Range, Share

PRACTICE = "practice"  # whatever was done before the first round


@dataclass(frozen=True)
class LogRecord:
    """One of the logs of a study."""

    logged_by: str  # practice, or the folder of a study or a policy
    episodes: Count
    data: str  # the hash of the log
    judges: bool  # else it only teaches: it taught a policy that logged another one


@dataclass(frozen=True)
class ParentRecord:
    """An earlier round: a study, and what was shown up to it."""

    name: str  # its folder
    fingerprint: str  # of its result
    number: Count
    shown: float  # since the first practice, by its recommended policy or the one that it keeps
    gain: float  # the same, as estimated
    declared: Count  # rounds in all
    error: Annotated[float, Range(above=0, below=1)]  # of all of them together
    taught_by: tuple[str, ...]  # hashes of the logs that it, or a round before it, learned from
    known: bool = True  # whether what was shown is so since the first practice


@dataclass(frozen=True)
class RoundsRecord:
    """Which of how many rounds a study is, what came before it, and its logs, those that only teach first."""

    number: Count
    declared: Count
    error: Annotated[float, Range(above=0, below=1)]  # of all rounds together
    logs: tuple[LogRecord, ...]
    parents: tuple[ParentRecord, ...] = ()  # the first round first
    current: str = PRACTICE  # what is done now: one of the loggers of these logs
    followed: Share = 1.0  # of its recommendations, where people may do otherwise: then it is not what is done

    def __post_init__(self) -> None:
        if self.number > self.declared:
            raise InputError(f"this is round {self.number} of {self.declared}: the error of all rounds is spent")

    @property
    def only_teach(self) -> int:
        """How many episodes, the first ones, teach in every fold and judge nothing."""
        return sum(log.episodes for log in self.logs if not log.judges)

    @property
    def before(self) -> ParentRecord | None:
        """The round whose policy is what is done now; None: it is not known to be of an earlier round."""
        return next((one for one in reversed(self.parents) if one.name == self.current), None)

    @property
    def since_first(self) -> bool:
        """Whether it is known what is shown since the first practice."""
        before = self.before
        return self.current == PRACTICE or (before is not None and before.known and self.followed == 1)

    def since(self, gain: float) -> float:
        """A gain of this round on top of what was shown before it."""
        return gain + (0.0 if self.before is None else self.before.shown)

    def estimated_since(self, gain: float) -> float:
        """The same as estimated."""
        return gain + (0.0 if self.before is None else self.before.gain)

    @property
    def judges_in_words(self) -> str:
        """Which logs judged, and which only taught.

        >>> logs = (LogRecord("practice", 300, "", False), LogRecord("study1", 200, "", True))
        >>> RoundsRecord(2, 3, 0.05, logs, current="study1").judges_in_words
        'The 200 episodes logged by study1 judged; the 300 logged by practice taught what logged them, and only teach.'
        """

        def listed(judge: bool) -> str:
            counts = Counter[str]()
            for log in self.logs:
                counts[log.logged_by] += log.episodes if log.judges == judge else 0
            return " and ".join(f"the {n:,} episodes logged by {name}" for name, n in counts.items() if n)

        judging, teaching = listed(True), listed(False).replace(" episodes", "")
        others = f"; {teaching} taught what logged them, and only teach" if teaching else ""
        return f"{judging[:1].upper()}{judging[1:]} judged{others}."
