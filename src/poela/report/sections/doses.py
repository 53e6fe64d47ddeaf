"""Doses before and after, along what was known of a case."""

from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Section, Table, Text, named
from poela.report.dose_logs import DoseLogs
from poela.report.numbers.doses import DoseCurve, dose_curves, dose_shifts
from poela.report.pictures.charts import NARROW, Band, Key, Line, Plane
from poela.report.pictures.drawing import WIDTH
from poela.report.sections.shares import AFTER, BEFORE
from poela.report.wording import typeset

TITLE = "Doses, before and after"
MOST_CURVES = 6
LONG = 60
KEYS = (Key("log", BEFORE), Key("new", AFTER))


def doses_section(logs: DoseLogs) -> Section:
    """Doses for everybody, and along columns."""
    about = "which cases would get more, and which less"
    if logs.drawn is None:
        return Section("doses", TITLE, (Text("There is no policy to look at: no dose would change.", "note"),), about)
    blocks: list[Block] = [_everybody(logs)]
    if curves := dose_curves(logs, MOST_CURVES):
        blocks.append(Pictures([curve_picture(curve) for curve in curves]))
    if logs.followed is not logs.train:
        some = f"{logs.followed.n_episodes:,} of {logs.train.n_episodes:,} cases, spread evenly over the log"
        blocks.append(Text(f"To save time, this section looks at {some}.", "note"))
    return Section("doses", TITLE, blocks, about)


def _everybody(logs: DoseLogs) -> Table:
    columns = (Column("dose"), Column("most cases now", True), Column("most cases, new policy", True))
    rows = [
        (
            Entry(named(one.action, LONG), one.action),
            Entry(_span(one.before), one.before[0]),
            Entry(_span(one.after), one.after[0]),
        )
        for one in dose_shifts(logs)
    ]
    note = "Most cases: the middle 80% of doses, in the cases of the log."
    return Table("Everybody", columns, rows, note=note)


def _span(ends: tuple[float, float]) -> str:
    return f"{typeset(ends[0])} to {typeset(ends[1])}"


def curve_picture(curve: DoseCurve, *, small: bool = False) -> Picture:
    """Doses along a column, before and after: means as lines, the middle 80% as bands."""
    at = curve.at.tolist()
    lines = [
        Line(list(zip(at, means.tolist(), strict=True)), css)
        for means, css in ((curve.before, "logline"), (curve.after, "newline"))
    ]
    bands = [
        Band([(place, low, high) for place, (low, high) in zip(at, ends.tolist(), strict=True)], css)
        for ends, css in ((curve.before_range, "log"), (curve.after_range, "new"))
    ]
    first, last = (f"{typeset(curve.before[place])} → {typeset(curve.after[place])}" for place in (0, -1))
    plane = Plane(
        f"{curve.action} against {curve.column}, now and under the new policy: {first} where {curve.column} is lowest, "
        f"{last} where it is highest",
        curve.column,
        f"{curve.action}: mean, and the middle 80%",
        lines=lines,
        bands=bands,
        keys=KEYS,
        height=165 if small else 220,
        width=NARROW if small else WIDTH,
    )
    if small:
        return Picture("", plane.svg())
    caption = f"Each point of a line stands for at least {curve.decisions:,} decisions."
    return Picture(f"{curve.action} against {curve.column}", plane.svg(), caption)
