"""From cautious to bold: the ladder, and value against effective sample size with the choice marked."""

from collections.abc import Sequence

from markupsafe import Markup

from poela.core.readable import effective, share_in_words
from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Section, Table, Text, named
from poela.report.numbers.judged import Frontier, JudgedPolicy, all_judged, frontier_of, ladder_of
from poela.report.pictures.charts import Dot, Key, LadderRow, Level, Line, Plane
from poela.report.pictures.charts import ladder as draw_ladder
from poela.report.subject import Numbers, Subject
from poela.studies.allotment import SpendPoint, curve, spend_name, spend_points
from poela.studies.answer import held_out_in_words
from poela.studies.guards_later import ABOUT_CELLS, amount_number, guard_cell, guard_columns, guard_sentences
from poela.studies.names import kept_by_support, thinned
from poela.studies.study import Study

# Shown gain against spend: what more money buys, as far as these cases can tell.

CAPTION = (
    "Each dot is a policy: what it spends per case, as estimated, and by how much it is at least better than what is "
    "done now. The line joins those that no cheaper policy beats, but for those that may break another guardrail. All "
    "bounds hold together."
)


def spend_blocks(study: Study, numbers: Numbers) -> list[Block]:
    """The curve as a picture and in numbers; nothing where no cost was named."""
    points = spend_points(study)
    best = curve(points)
    if not best:
        return []
    name = spend_name(study)
    picture = Picture("Gain against spend", _plane(points, best, numbers, name), CAPTION)
    return [Pictures((picture,)), _table(best, numbers, name)]


def _plane(points: list[SpendPoint], best: list[SpendPoint], numbers: Numbers, name: str) -> Markup:
    dots = [
        Dot(
            one.spend,
            numbers.scaled(one.shown) or 0.0,
            "pick" if one.chosen else "sure" if one.walk else "doubt",
            f"{one.name}: {amount_number(one.spend)} {name}, at least {numbers.number(one.shown, signed=True)}",
            "recommended" if one.chosen else "",
        )
        for one in points
        if one.shown is not None
    ]
    return Plane(
        f"Shown gain of {len(dots)} policies against what they spend",
        name,
        f"at least, over what is done now{numbers.unit}",
        dots,
        [Line([(one.spend, numbers.scaled(one.shown) or 0.0) for one in best], "edge")],
        levels=[Level(0.0, "")],
        keys=[Key("sure", "by value for money"), Key("doubt", "others")],
        also=(0.0,),
    ).svg()


def _table(best: list[SpendPoint], numbers: Numbers, name: str) -> Table:
    rows = [
        (
            Entry(one.name),
            Entry(amount_number(one.spend), one.spend),
            Entry(amount_number(one.at_most), one.at_most),
            Entry(numbers.number(one.gain, signed=True), one.gain),
            Entry(numbers.number(one.shown, signed=True), one.shown),
        )
        for one in best
    ]
    columns = (
        Column("policy"),
        Column(name, True),
        Column("at most", True),
        Column("gain", True),
        Column("at least", True),
    )
    marked = frozenset(place for place, one in enumerate(best) if one.chosen)
    return Table("What spending shows", columns, rows, marked, note="–: bounds of spend are for policies with a gain.")


# Where policies are chosen by an estimate, only the last look has a verdict.
KEYS = {
    "trust": Key("sure", "can be trusted"),
    "caution": Key("doubt", "caution"),
    "do not trust": Key("lost", "not to be trusted"),
    "": Key("sure", "not yet checked"),
}
MOST_DOTS, MOST_ROWS = 500, 500
TITLE, ABOUT = "All policies, from cautious to bold", "what was tried, and how each one did on held-out cases"


def ladder_section(subject: Subject) -> Section:
    """The policies that were tried."""
    study = subject.study
    frontier, rungs = frontier_of(study), ladder_of(study)
    blocks: list[Block] = [
        Text(
            f"{len(study.points)} policies were judged by {_judges(study)} that they had not learned from. A bolder "
            "policy may gain more, but fewer past cases support it."
        )
    ]
    if not frontier.points:
        return Section("ladder", TITLE, (*blocks, Text("None of them has an estimate.", "note")), ABOUT)
    numbers = Numbers.of(study)
    blocks.append(Pictures((_ladder_picture(rungs, numbers, study), frontier_picture(frontier, numbers))))
    if kept := kept_by_support(study.points):
        blocks.append(Text(kept))
    judged = all_judged(study)
    blocks += [*guard_blocks(study, numbers), *spend_blocks(study, numbers)]
    blocks.append(judged_table("The ladder in numbers", rungs, numbers))
    blocks.append(judged_table(f"All {len(judged)} policies", judged[:MOST_ROWS], numbers, folded=True))
    return Section("ladder", TITLE, blocks, ABOUT)


def _judges(study: Study) -> str:
    """Episodes, and where they belong together the clusters: effective cases are of these."""
    result, episodes = study.result, f"{study.record.data.validation_episodes:,} episodes"
    return episodes if result is None else held_out_in_words(result, study.record)


def _ladder_picture(rungs: Sequence[JudgedPolicy], numbers: Numbers, study: Study) -> Picture:
    by_gain = study.settings.selection.by == "gain"
    current = study.record.logging_policy.value
    rows = [
        LadderRow(
            f"{'✓ ' if rung.chosen else ''}{rung.name}",
            numbers.scaled(_gain(rung, current)),
            numbers.scaled(rung.shown) if by_gain else None,
            f"{effective(rung.ess)} cases",
            KEYS[rung.verdict].css,
            _tip(rung, numbers),
            rung.chosen,
        )
        for rung in rungs
    ]
    label = f"The ladder: {len(rows)} policies from cautious to bold, each with its estimated gain and its lower bound"
    words = "Dot: best estimate. Bar: down to the lower bound, for all policies together. "
    caption = words + "No bar: these cases cannot tell." if by_gain else "Dot: best estimate."
    return Picture("The ladder", draw_ladder(rows, label, f"gain over what is done now{numbers.unit}"), caption)


def _gain(rung: JudgedPolicy, current: float) -> float | None:
    return rung.gain if rung.gain is not None or rung.value is None else rung.value - current


def frontier_picture(frontier: Frontier, numbers: Numbers, title: str = "Value against effective cases") -> Picture:
    """Every policy as a dot, those that no other beats joined, and the choice labelled."""
    step = max(len(frontier.points) // MOST_DOTS, 1)
    points = [point for place, point in enumerate(frontier.points) if place % step == 0 or point.chosen or point.best]
    dots = [
        Dot(point.ess or 1.0, numbers.scaled(point.value) or 0.0, KEYS[point.verdict].css, _tip(point, numbers))
        for point in points
        if not point.chosen
    ]
    now = Dot(
        float(frontier.units),
        numbers.scaled(frontier.current) or 0.0,
        "log",
        "what is done now",
        "what is done now",
        5,
        below=True,
    )
    chosen = [
        Dot(point.ess or 1.0, numbers.scaled(point.value) or 0.0, "pick", _tip(point, numbers), frontier.called, 6.5)
        for point in points
        if point.chosen
    ]
    line = Line([(point.ess or 1.0, numbers.scaled(point.value) or 0.0) for point in frontier.line], "edge")
    plane = Plane(
        f"Estimated value of {len(frontier.points)} policies against their effective sample size",
        "effective cases (log scale)",
        "estimated value",
        [*dots, now, *chosen],
        [line],
        levels=[Level(numbers.scaled(frontier.current) or 0.0, "")],
        keys=[key for verdict, key in KEYS.items() if any(point.verdict == verdict for point in points)],
        log_x=True,
        height=330,
    )
    nothing_shown = "" if chosen else " Nothing is recommended: no gain is shown."
    return Picture(
        title, plane.svg(), f"To the left, values rest on few cases: luck looks like skill there.{nothing_shown}"
    )


def _tip(point: JudgedPolicy, numbers: Numbers) -> str:
    shown = "not shown" if point.shown is None else f"at least {numbers.number(point.shown, signed=True)}"
    return (
        f"{point.name}: value {numbers.number(point.value)}, gain {numbers.number(point.gain, signed=True)} "
        f"({shown}), {effective(point.ess)} effective cases, {point.verdict or 'no verdict'}"
    )


def guard_blocks(study: Study, numbers: Numbers) -> list[Block]:
    """The gain and the guardrails of each rung side by side, and what the policy told of does to guarded outcomes."""
    result = study.result
    if result is None or not result.guards:
        return []
    rows, guards = thinned(study.ladder().to_pylist()), guard_columns(result.guards)
    table = Table(
        "Gain and guardrails",
        [Column("policy"), Column("at least", True), *(Column(str(guard)) for guard in guards)],
        [
            [
                Entry(row["name"]),
                Entry(numbers.number(row["shown"], signed=True), row["shown"]),
                *(Entry(guard_cell(guard, places, row)) for guard, places in guards.items()),
            ]
            for row in rows
        ],
        frozenset(place for place, row in enumerate(rows) if row["chosen"]),
        note=ABOUT_CELLS,
    )
    point = result.guarded_point
    if point is None:
        return [table]
    told = "; ".join(guard_sentences(result.guards, point.metrics))
    return [table, Text(f"Guardrails, change by {study.name_of(point)}: {told}.")]


def judged_table(title: str, rows: Sequence[JudgedPolicy], numbers: Numbers, *, folded: bool = False) -> Table:
    """Policies as rows."""
    supported = any(row.outside is not None for row in rows)
    known = any(row.changed for row in rows)  # with the propensity of the action taken alone it may not be
    columns = (
        Column("policy"),
        Column("gain", True),
        Column("at least", True),
        Column("value", True),
        Column("effective cases", True),
        *([Column("decisions changed", True)] if known else []),
        *([Column("never done", True)] if supported else []),
        Column("verdict"),
    )
    entries = [
        (
            Entry(_named_row(row, folded), row.name if row.chosen else None),
            Entry(numbers.number(row.gain, signed=True), row.gain),
            Entry(numbers.number(row.shown, signed=True), row.shown),
            Entry(numbers.number(row.value), row.value),
            Entry(effective(row.ess), row.ess),
            *([Entry(row.changed or "–", row.departure)] if known else []),
            *([_outside(row)] if supported else []),
            Entry(row.verdict or "–", row.verdict),
        )
        for row in rows
    ]
    marked = frozenset(place for place, row in enumerate(rows) if row.chosen)
    note = "Value: by importance sampling alone."
    if any(row.shown is not None or row.gain is not None for row in rows):
        note = f"At least: the lower bound, for all policies together; –: these cases cannot tell. {note}"
    if supported:
        note = f"{note} Never done: the share of decisions that were never made in similar cases."
    return Table(title, columns, entries, marked, folded, note)


def _outside(row: JudgedPolicy) -> Entry:
    return Entry("–" if row.outside is None else share_in_words(row.outside), row.outside)


def _named_row(row: JudgedPolicy, whole: bool) -> Markup:
    mark = Markup("✓ ") if row.chosen else Markup("")
    beside = Markup(" <small>{}</small>").format(row.candidate) if whole else Markup("")
    return mark + named(row.name) + beside
