"""What an audit of logs says: findings, each with its columns, and what to do about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from poela.core.typed import one_of
from poela.data.words import counted, quoted

MOST_NAMES = 12
SWITCHED_OFF = "it was switched off (--no-audit)"
Kind = Annotated[
    str,
    one_of(
        *("propensities", "action", "outcome", "filled", "id", "cluster", "date", "prognosis"), *("repeated", "code")
    ),
]


@dataclass(frozen=True)
class Finding:
    """One thing that speaks against logs: which columns it is about, what it is, and what to do.

    >>> print(Finding("id", ("row",), "column 'row' differs in every row", "leave it out of the context"))
    column 'row' differs in every row: leave it out of the context
    """

    kind: Kind
    columns: tuple[str, ...]
    sentence: str
    advice: str
    voids_weights: bool = False  # whether no value or gain by these weights can be believed

    def __str__(self) -> str:
        return f"{self.sentence}: {self.advice}"


@dataclass(frozen=True)
class Audit:
    """What an audit has found; `skipped` says why none was made, if none was."""

    findings: tuple[Finding, ...] = ()
    skipped: str = ""

    @property
    def problem(self) -> str:
        """Why no weight can be right, in one sentence; empty where nothing says so."""
        return next((str(finding) for finding in self.findings if finding.voids_weights), "")

    @property
    def notes(self) -> tuple[str, ...]:
        """All that is to be said, in sentences."""
        none = (f"none was made, for {self.skipped}",) if self.skipped else ()
        return (*map(str, self.findings), *none)


def context_in_words(columns: Sequence[str]) -> str:
    """The context columns in one line, the first of them where there are many.

    >>> context_in_words(["age", "lactate", "ward"])
    'Context: age, lactate, ward (3 columns)'
    """
    shown = ", ".join(columns[:MOST_NAMES]) + ", …" * (len(columns) > MOST_NAMES)
    return f"Context: {shown} ({counted(len(columns), 'column')})"


def named(columns: Sequence[str]) -> str:
    """The columns that a sentence begins with.

    >>> named(["a"]), named(["a", "b"])
    ("column 'a'", "columns 'a', 'b'")
    """
    return f"column{'s' * (len(columns) > 1)} {quoted(list(columns))}"
