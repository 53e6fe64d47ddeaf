"""From cautious to bold: the ladder, and value against effective sample size with the choice marked."""

from collections.abc import Sequence

from markupsafe import Markup

from poela.core.readable import effective, share_in_words
from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Section, Table, Text, named
from poela.report.numbers.judged import Frontier, JudgedPolicy, all_judged, frontier_of, ladder_of
from poela.report.pictures.charts import Dot, Key, LadderRow, Level, Line, Plane
from poela.report.pictures.charts import ladder as draw_ladder
from poela.report.wording import readable
from poela.studies.answer import held_out_in_words
from poela.studies.study import Study
from poela.studies.words import kept_by_support

# Where policies are chosen by an estimate, only the last look has a verdict.
KEYS = {
    "trust": Key("sure", "can be trusted"),
    "caution": Key("doubt", "caution"),
    "do not trust": Key("lost", "not to be trusted"),
    "": Key("sure", "not yet checked"),
}
MOST_DOTS, MOST_ROWS = 500, 500


def ladder_section(study: Study) -> Section:
    """The policies that were tried."""
    frontier, rungs = frontier_of(study), ladder_of(study)
    error = frontier.current_error
    blocks: list[Block] = [
        Text(
            f"{len(study.points)} policies were judged by {_judges(study)} that took no part in learning them. The "
            "bolder a policy, the more it may gain, and the fewer past cases speak for it."
        )
    ]
    if not frontier.points:
        return Section("ladder", "From cautious to bold", (*blocks, Text("None of them has an estimate.", "note")))
    blocks.append(Pictures((_ladder_picture(rungs, error, study), frontier_picture(frontier))))
    if kept := kept_by_support(study.points):
        blocks.append(Text(kept))
    judged = all_judged(study)
    blocks.append(judged_table("The ladder in numbers", rungs, error))
    blocks.append(judged_table(f"All {len(judged)} policies", judged[:MOST_ROWS], error, folded=True))
    return Section("ladder", "From cautious to bold", blocks)


def _judges(study: Study) -> str:
    """Episodes, and where they belong together the clusters: effective cases are of these."""
    result, episodes = study.result, f"{study.record.data.validation_episodes:,} episodes"
    return episodes if result is None else held_out_in_words(result, study.record)


def _ladder_picture(rungs: Sequence[JudgedPolicy], error: float, study: Study) -> Picture:
    by_gain = study.settings.selection.by == "gain"
    current = study.record.logging_policy.value
    rows = [
        LadderRow(
            f"{'✓ ' if rung.chosen else ''}{rung.name}",
            _gain(rung, current),
            rung.shown if by_gain else None,
            f"{effective(rung.ess)} cases",
            KEYS[rung.verdict].css,
            _tip(rung, error),
            rung.chosen,
        )
        for rung in rungs
    ]
    label = (
        f"The ladder: {len(rows)} policies from cautious to bold, each with its estimated gain and what is shown of it"
    )
    words = "The dot is the estimated gain; the bar reaches down to what is shown, for all policies together. "
    caption = words + "Without a bar, these cases cannot tell." if by_gain else "The dot is the estimated gain."
    return Picture("The ladder", draw_ladder(rows, label, "gain over what is done now"), caption)


def _gain(rung: JudgedPolicy, current: float) -> float | None:
    return rung.gain if rung.gain is not None or rung.value is None else rung.value - current


def frontier_picture(frontier: Frontier, title: str = "Value against effective cases") -> Picture:
    """Every policy as a dot, those that no other beats joined, and the choice labelled."""
    error = frontier.current_error
    step = max(len(frontier.points) // MOST_DOTS, 1)
    points = [point for place, point in enumerate(frontier.points) if place % step == 0 or point.chosen or point.best]
    dots = [
        Dot(point.ess or 1.0, point.value or 0.0, KEYS[point.verdict].css, _tip(point, error))
        for point in points
        if not point.chosen
    ]
    now = Dot(float(frontier.units), frontier.current, "log", "what is done now", "what is done now", 5, below=True)
    chosen = [
        Dot(point.ess or 1.0, point.value or 0.0, "pick", _tip(point, error), frontier.called, 6.5)
        for point in points
        if point.chosen
    ]
    line = Line([(point.ess or 1.0, point.value or 0.0) for point in frontier.line], "edge")
    plane = Plane(
        f"Estimated value of {len(frontier.points)} policies against their effective sample size",
        "effective cases (log scale)",
        "estimated value",
        [*dots, now, *chosen],
        [line],
        [Level(frontier.current, "")],
        [key for verdict, key in KEYS.items() if any(point.verdict == verdict for point in points)],
        log_x=True,
        height=330,
    )
    nothing_shown = "" if chosen else " Nothing is recommended: no gain is shown."
    return Picture(
        title, plane.svg(), f"To the left, values rest on few cases: luck looks like skill there.{nothing_shown}"
    )


def _tip(point: JudgedPolicy, error: float) -> str:
    shown = "not shown" if point.shown is None else f"shown {readable(point.shown, error, signed=True)}"
    return (
        f"{point.name}: value {readable(point.value, error)}, gain {readable(point.gain, error, signed=True)} "
        f"({shown}), {effective(point.ess)} effective cases, {point.verdict or 'no verdict'}"
    )


def judged_table(title: str, rows: Sequence[JudgedPolicy], error: float, *, folded: bool = False) -> Table:
    """Policies as rows."""
    supported = any(row.outside is not None for row in rows)
    columns = (
        Column("policy"),
        Column("gain", True),
        Column("at least", True),
        Column("value", True),
        Column("effective cases", True),
        Column("decisions changed", True),
        *([Column("never done", True)] if supported else []),
        Column("verdict"),
    )
    entries = [
        (
            Entry(_named_row(row, folded), row.candidate if folded else row.name),
            Entry(readable(row.gain, error, signed=True), row.gain),
            Entry(readable(row.shown, error, signed=True), row.shown),
            Entry(readable(row.value, error), row.value),
            Entry(effective(row.ess), row.ess),
            Entry(row.changed or "–", row.departure),
            *([_outside(row)] if supported else []),
            Entry(row.verdict or "–", row.verdict),
        )
        for row in rows
    ]
    marked = frozenset(place for place, row in enumerate(rows) if row.chosen)
    known = any(row.shown is not None or row.gain is not None for row in rows)
    note = "At least: what is shown, for all policies together; –: these cases cannot tell." if known else ""
    if supported:
        note = f"{note} Never done: the share of its decisions that were never made in like cases.".lstrip()
    return Table(title, columns, entries, marked, folded, note)


def _outside(row: JudgedPolicy) -> Entry:
    return Entry("–" if row.outside is None else share_in_words(row.outside), row.outside)


def _named_row(row: JudgedPolicy, whole: bool) -> Markup:
    mark = Markup("✓ ") if row.chosen else Markup("")
    beside = Markup(" <small>{}</small>").format(row.candidate) if whole else Markup("")
    return mark + named(row.name) + beside
