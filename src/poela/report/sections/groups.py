"""Who gains: the gain in each group with bounds that hold for all groups together, and who gets what there."""

from collections.abc import Sequence

from markupsafe import Markup

from poela.core.readable import effective
from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Section, Table, Text, Words, joined, named
from poela.report.pictures.charts import LadderRow
from poela.report.pictures.charts import ladder as draw_ladder
from poela.report.subject import Numbers, Subject
from poela.report.wording import capital, with_signs
from poela.studies.groups import Group, Groups

TITLE = "Who gains, by group"
ABOUT = "the gain in each group, and who gets what"
LONG = 60
MOST_NAMED = 3  # groups in a sentence
CSS = {"trust": "sure", "caution": "doubt"}


def groups_section(subject: Subject) -> Section:
    """The groups of each column that was asked for."""
    groups = subject.groups
    if groups is None or len(groups) < 2:
        why = "There is no policy to look at." if subject.shown is None else ASK
        return Section("groups", TITLE, (Text(why, "note"),), ABOUT)
    blocks: list[Block] = [Text(_how(groups)), Pictures((gains_picture(subject, groups),))]
    blocks += [_gains_table(subject, groups), _shares_table(groups)]
    blocks += [Text(capital(note) + ".", "small") for note in groups.notes]
    return Section("groups", TITLE, blocks, ABOUT)


ASK = (
    "To see groups of cases apart, name their columns: --by ward,age:3 (three groups of age), here with --logs or when "
    "the study is made."
)


def _how(groups: Groups) -> str:
    adds = " Weighted by cases, gains add up to that of everybody." if groups.adds_up else ""
    return (
        f"Bounds hold with {groups.confidence:.0%} confidence for all groups together. A group has fewer cases than "
        f"everybody, so its bound is lower. Columns count as they were at the first decision of a case.{adds}"
    )


def gains_picture(subject: Subject, groups: Groups, title: str = "Gain in each group") -> Picture:
    """A row for each group: the estimate, and a bar down to its bound."""
    numbers = Numbers.of(subject.study)
    rows = [
        LadderRow(
            group.label,
            numbers.scaled(group.gain),
            numbers.scaled(group.shown),
            f"{group.cases:,} cases",
            CSS.get(group.verdict, "lost"),
            _tip(subject, group),
            not group.column,
        )
        for group in groups
    ]
    told = "; ".join(_tip(subject, group) for group in groups.groups[:10])
    axis = f"gain over what is done now{numbers.unit}"
    svg = draw_ladder(rows, f"Gain over what is done now in each group: {told}", axis)
    caption = (
        "Dot: best estimate. Bar: down to the lower bound, for all groups together. No bar: too few cases to tell."
    )
    return Picture(title, svg, caption)


def _tip(subject: Subject, group: Group) -> str:
    if group.gain is None:
        return f"{group.label}: these cases cannot tell"
    least = "no bound" if group.shown is None else f"at least {subject.number(group.shown, signed=True)}"
    return f"{group.label}: {subject.number(group.gain, signed=True)} ({least})"


def _gains_table(subject: Subject, groups: Groups) -> Table:
    columns = (
        Column("group"),
        Column("cases", True),
        Column("now", True),
        Column("gain", True),
        Column("at least", True),
        Column(f"{groups.level:.0%} interval", True),
        Column("effective cases", True),
        Column("verdict"),
    )
    rows = [
        (
            Entry(named(group.label, LONG), group.label),
            Entry(f"{group.cases:,}", group.cases),
            Entry(subject.number(group.current), group.current),
            Entry(subject.number(group.gain, signed=True), group.gain),
            Entry(subject.number(group.shown, signed=True), group.shown),
            Entry(_interval(subject, group), group.low),
            Entry(effective(group.ess).replace("-", "–"), group.ess if group.ess == group.ess else None),
            Entry(group.verdict or "–", group.verdict),
        )
        for group in groups
    ]
    return Table("Gains in numbers", columns, rows, frozenset({0}), note="–: these cases cannot tell.")


def _interval(subject: Subject, group: Group) -> str:
    if group.low is None or group.high is None:
        return "–"
    return f"{subject.number(group.low, signed=True)} to {subject.number(group.high, signed=True)}"


def _shares_table(groups: Groups) -> Table:
    header, rows = groups.who_gets_what()
    columns = [Column("group"), *(Column(name, number=True) for name in header[1:])]
    entries = [
        (Entry(named(group.label, LONG), group.label), *(Entry(with_signs(cell)) for cell in row[1:]))
        for group, row in zip(groups, rows, strict=True)
    ]
    what = "Mean amounts" if groups.amounts else "Shares of decisions"
    note = f"{what}, now → under the new policy."
    return Table("Who gets what", columns, entries, frozenset({0}), note=note)


def gaining(subject: Subject) -> list[Words]:
    """In which groups a gain is shown and in which not, a sentence for each column."""
    groups = subject.groups
    sentences: list[Words] = []
    for column in () if groups is None else groups.columns:
        own = [group for group in groups or () if group.column == column]
        shown = [group for group in own if (group.shown or 0.0) > 0]
        if len(shown) == len(own):
            words: Words = f"a gain is shown in each of {len(own)} groups"
        elif not shown:
            words = f"too few cases to show a gain in any of {len(own)} groups"
        else:
            rest = [group for group in own if group not in shown]
            words = joined(["a gain is shown for ", _names(shown), ", not for ", _names(rest)], "")
        sentences.append(Markup("By {}: {}.").format(named(column, LONG), words))
    return sentences


def losing(subject: Subject) -> list[Words]:
    """The groups whose estimate is below zero."""
    groups = () if subject.groups is None else subject.groups.groups[1:]
    below = sorted((group for group in groups if (group.gain or 0.0) < 0), key=lambda group: group.gain or 0.0)
    if not below:
        return []
    worst = below[0]
    more = f" {len(below) - 1} more groups are below zero." if len(below) > 1 else ""
    interval = "" if worst.low is None else f" ({_interval(subject, worst)})"
    words = Markup("{} may lose: best estimate {}{}.{}")
    return [words.format(named(worst.label, LONG), subject.gained(worst.gain), interval, more)]


def _names(groups: Sequence[Group]) -> Words:
    names: list[Words] = [named(group.name, LONG) for group in groups[:MOST_NAMED]]
    if len(groups) > MOST_NAMED:
        names.append(f"{len(groups) - MOST_NAMED} more")
    return joined([joined(names[:-1]), names[-1]], " and ") if len(names) > 1 else names[0]
