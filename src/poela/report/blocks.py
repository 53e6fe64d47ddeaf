"""What a page is made of: sections of words, numbers, pictures and tables. The template knows how each looks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from markupsafe import Markup, escape

from poela.core.readable import readable
from poela.report.pictures.drawing import clean

# Numbers as a page shows them.


def typeset(value: float | None, error: float | None = None, *, signed: bool = False) -> str:
    """As everywhere, with a true minus sign, and a dash where there is no number.

    >>> typeset(-2.0), typeset(None)
    ('−2.00', '–')
    """
    return with_signs(readable(value, error, signed=signed))


def with_signs(number: str) -> str:
    """A number as text, with a true minus sign, or a dash for none.

    >>> with_signs("-0.5"), with_signs("-")
    ('−0.5', '–')
    """
    return "–" if number == "-" else number.replace("-", "−")


def out_of(share: float) -> str:
    """A share as a count that people can picture.

    >>> [out_of(share) for share in (0.68, 0.0041, 0.0002, 0.0, 1.0, 0.996)]
    ['68 in 100', '4 in 1,000', 'fewer than 1 in 1,000', 'none', 'all', '996 in 1,000']
    """
    if share <= 0 or share >= 1:
        return "none" if share <= 0 else "all"
    if 0.0095 <= share < 0.995:
        return f"{round(100 * share)} in 100"
    thousandths = round(1000 * share)
    return f"{min(thousandths, 999)} in 1,000" if thousandths else "fewer than 1 in 1,000"


def capital(text: str) -> str:
    """With a capital first letter.

    >>> capital("the outcome")
    'The outcome'
    """
    return f"{text[:1].upper()}{text[1:]}"


Words = str | Markup


def named(name: object, most: int | None = None) -> Markup:
    """A name that somebody else chose, within a sentence: cleaned, escaped, and with a direction of its own."""
    return Markup("<bdi>{}</bdi>").format(clean(name, most))


def joined(parts: Sequence[Words], between: str = ", ") -> Markup:
    """Parts of a sentence, each escaped unless it is markup already."""
    return Markup(escape(between)).join(map(escape, parts))


@dataclass(frozen=True)
class Text:
    """A paragraph; `style` is lead, rule, note, small or empty."""

    words: Words
    style: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Fact:
    """A number with its name, and a word on it."""

    name: str
    value: Words
    note: Words = ""


@dataclass(frozen=True)
class Facts:
    """Numbers side by side."""

    facts: Sequence[Fact]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Picture:
    """A picture, what it is, and how to read it."""

    title: str
    svg: Markup
    caption: Words = ""


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, where there is room."""

    pictures: Sequence[Picture]
    kind: ClassVar[str] = "pictures"


@dataclass(frozen=True)
class Entry:
    """A cell of a table: what it says, and what it is sorted by."""

    words: Words
    sort: float | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.sort, str):
            object.__setattr__(self, "sort", clean(self.sort))


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """A table that can be sorted; `marked` are rows that stand out, `folded` hides it behind its title."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Entry]]
    marked: frozenset[int] = frozenset()
    folded: bool = False
    note: Words = ""
    stacked: bool = False  # on a phone, cells stand below each other
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Code:
    """Lines to be copied as they are."""

    title: str
    lines: str
    folded: bool = False  # behind its title, in print too
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Points:
    """A list of short sentences."""

    items: Sequence[Words]
    style: str = ""  # rule, or empty
    kind: ClassVar[str] = "points"


@dataclass(frozen=True)
class Panel:
    """A titled part of the first screen."""

    key: str
    title: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Panels:
    """Panels side by side, where there is room."""

    panels: Sequence[Panel]
    kind: ClassVar[str] = "panels"


Block = Text | Facts | Pictures | Table | Code | Points | Panels


@dataclass(frozen=True)
class Section:
    """A part of the page; one with an `about` is folded behind its title and this line."""

    key: str  # its anchor
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)
    about: str = ""
    style: str = ""  # first: the first screen, with change, trial or keep


def needs_logs(what: str) -> Text:
    """Where a section cannot say more without the logs.

    >>> needs_logs("The curve").words
    'The curve needs the logs, which a study does not keep: add --logs with the file that it was learned from.'
    """
    words = f"{what} needs the logs, which a study does not keep: add --logs with the file that it was learned from."
    return Text(words, "note")
