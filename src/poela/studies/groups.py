"""Who gets what, and who gains: shares of actions before and after, and the gain, for everybody and by group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from poela.core.readable import effective, escaped, share_in_words
from poela.core.typed import Count, Share, Unknowable, Whole
from poela.data.groups import SMALLEST_GROUP
from poela.studies.outcome_unit import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

EVERYBODY = "everybody"
MOST_COLUMNS = 4  # actions that have a column of their own in what is printed
NO_MOVE = 0.0005  # of decisions: less is not worth a word
Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Group:
    """Some of the episodes that judged a policy: what they got and would get, and what they gain.

    `before` and `after` are shares of decisions or, of doses, mean amounts: before as logged, after along the policy's
    own episodes (weighted). `changed` is the share of decisions that change, at the contexts of the log. `shown` is the
    one-sided bound, `low` and `high` the two-sided interval of the gain; both hold for all groups together.
    """

    column: str  # "": everybody
    name: str
    cases: Count  # clusters where there are any, else episodes
    episodes: Count
    current: float  # mean return, as logged
    before: tuple[float, ...]
    after: tuple[Unknowable, ...]
    changed: float | None = None
    gain: float | None = None
    shown: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None  # standard error of the gain
    ess: Unknowable = float("nan")
    verdict: str = ""

    @property
    def label(self) -> str:
        """The group in a few words.

        >>> Group("ward", "ICU", 12, 12, 0.5, (), ()).label, Group("", EVERYBODY, 12, 12, 0.5, (), ()).label
        ('ward: ICU', 'everybody')
        """
        return f"{self.column}: {self.name}" if self.column else self.name


@dataclass(frozen=True)
class Move:
    """A share of all decisions in which one action takes the place of another."""

    less: str
    more: str
    share: Share

    def __str__(self) -> str:
        return f"{self.more} instead of {self.less} in {share_in_words(self.share)} of decisions"


@dataclass(frozen=True)
class Groups:
    """Everybody, then the groups of one column or several: what `study.by("ward", "age:3")` gives.

    >>> everybody = Group("", EVERYBODY, 40, 40, 1.0, (0.5, 0.5), (0.3, 0.7), 0.2, 0.5, 0.2)
    >>> print(Groups("mild tilt 3", ("wait", "treat"), (everybody,)))
    mild tilt 3: shares of decisions, before → after (40 cases)
                      wait       treat  changed
    everybody    50% → 30%   50% → 70%      20%
    """

    policy: str  # whose actions and gains these are
    actions: tuple[str, ...]  # how often each action is taken, by group
    groups: tuple[Group, ...]  # the first is everybody
    confidence: Share = 0.95  # of the bounds together
    level: Share = 0.95  # of two-sided intervals
    smallest: Whole = SMALLEST_GROUP  # cases in a group, at least
    asked: tuple[str, ...] = ()  # the columns, as they were asked for
    amounts: bool = False  # whether actions are real numbers
    adds_up: bool = False  # whether gains, weighted by episodes, add up to that of everybody
    moves: tuple[Move, ...] = ()  # of everybody, the largest first; none where they are not known
    notes: tuple[str, ...] = ()  # what was merged or left out
    outcome: Outcome = field(default_factory=Outcome)  # its name and unit

    @property
    def everybody(self) -> Group:
        """All episodes that judged."""
        return self.groups[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell groups."""
        return tuple(dict.fromkeys(group.column for group in self.groups[1:]))

    def of_enough(self, smallest: int) -> "Groups":
        """Without the columns that have a group of fewer cases: one group less would be told by all the others."""
        few = {group.column for group in self.groups[1:] if group.cases < smallest}
        return replace(self, groups=tuple(group for group in self.groups if group.column not in few))

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        units = f"{self.everybody.cases:,} cases"
        what = "mean amounts" if self.amounts else "shares of decisions"
        texts = [f"{self.policy}: {what}, before → after ({units})", _aligned(*self.who_gets_what())]
        if len(self.groups) > 1:
            about = f" ({self.outcome.gain_title})" if self.outcome.gain_title else ""
            texts += [f"gain{about}; at least: {self.confidence:.0%}, for all groups together"]
            texts += [_aligned(*self.who_gains())]
        return "\n".join([*texts, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from poela.core.readable import block, table

        both = (self.who_gets_what(), self.who_gains()) if len(self.groups) > 1 else (self.who_gets_what(),)
        return block(self.policy, *self.notes) + "".join(table(header, rows) for header, rows in both)

    def who_gets_what(self) -> tuple[tuple[str, ...], Rows]:
        """Header and rows of a table of actions before and after, as people read it."""
        few = len(self.actions) <= MOST_COLUMNS
        header = (
            "",
            *(map(escaped, self.actions) if few else ("changes most",)),
            *(() if self.amounts else ("changed",)),
        )
        rows = [
            (
                escaped(group.label),
                *(self._each(group) if few else (self._most(group),)),
                *(() if self.amounts else ("-" if group.changed is None else f"{group.changed:.0%}",)),
            )
            for group in self.groups
        ]
        return header, rows

    def _each(self, group: Group) -> list[str]:
        return [self._change(old, new) for old, new in zip(group.before, group.after, strict=True)]

    def _most(self, group: Group) -> str:
        """The actions that fall and rise most."""
        change = [new - old for old, new in zip(group.before, group.after, strict=True)]
        ends = dict.fromkeys((change.index(min(change)), change.index(max(change))))
        return ", ".join(
            f"{escaped(self.actions[at])} {self._change(group.before[at], group.after[at])}" for at in ends
        )

    def _change(self, old: float, new: float) -> str:
        if self.amounts:
            return f"{Outcome().number(old)} → {Outcome().number(new)}"
        return f"{old:.0%} → {new:.0%}"

    def who_gains(self) -> tuple[tuple[str, ...], Rows]:
        """Header and rows of a table of gains, as people read it."""
        header = ("", "cases", "gain", f"{self.level:.0%} interval", "at least", "effective", "verdict")
        unit = self.outcome
        rows: Rows = []
        for group in self.groups:
            error = group.error
            gain, ends = unit.number(group.gain, error, signed=True), unit.between(group.low, group.high, error)
            least = unit.number(group.shown, error, signed=True)
            known = effective(group.ess), group.verdict or "-"
            rows.append((escaped(group.label), f"{group.cases:,}", gain, ends, least, *known))
        return header, rows

    def to_table(self) -> "pa.Table":
        """One row for each group, with a column before_<action> and after_<action> for each action."""
        import pyarrow as pa

        plain = (
            "column",
            "name",
            "cases",
            "episodes",
            "current",
            "changed",
            "gain",
            "shown",
            "low",
            "high",
            "ess",
            "verdict",
        )
        rows = [
            {name: getattr(group, name) for name in plain}
            | {f"before_{name}": value for name, value in zip(self.actions, group.before, strict=True)}
            | {f"after_{name}": value for name, value in zip(self.actions, group.after, strict=True)}
            for group in self.groups
        ]
        texts = dict.fromkeys(("column", "name", "verdict"), pa.string())
        kinds = {
            name: texts.get(name, pa.int64() if name in ("cases", "episodes") else pa.float64()) for name in rows[0]
        }
        return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))

    def in_words(self) -> str:
        """What changes for everybody, in one sentence.

        >>> everybody = Group("", EVERYBODY, 40, 40, 1.0, (0.5, 0.5), (0.3, 0.7), 0.2)
        >>> Groups("mild tilt 3", ("wait", "treat"), (everybody,), moves=(Move("wait", "treat", 0.2),)).in_words()
        'wait 50% → 30%, treat 50% → 70%; treat instead of wait in 20% of decisions'
        """
        every, few = self.everybody, len(self.actions) <= MOST_COLUMNS
        shares = ", ".join(
            f"{escaped(name)} {change}" for name, change in zip(self.actions, self._each(every), strict=True)
        )
        moved = moves_in_words(self)
        if not moved and every.changed is not None:
            moved = f"{share_in_words(every.changed)} of decisions change"
        return "; ".join(filter(None, (shares if few else self._most(every), moved)))


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in cells) for cells in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        first, *others = row
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("   ".join(cells).rstrip())
    return "\n".join(lines)


def moves_in_words(groups: Groups, most: int = 2) -> str:
    """The changes that matter most, in one clause; empty where none is known.

    >>> moves_in_words(Groups("", (), (), moves=(Move("wait", "treat", 0.28), Move("x", "y", 0.0001))))
    'treat instead of wait in 28% of decisions'
    """
    return "; ".join(str(move) for move in groups.moves[:most] if move.share >= NO_MOVE)
