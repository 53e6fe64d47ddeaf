"""One page about a policy while it runs: the answer, a picture over time, and what has drifted."""

from os import PathLike
from pathlib import Path

from poela.report.blocks import (
    Block,
    Column,
    Entry,
    Fact,
    Facts,
    Picture,
    Pictures,
    Points,
    Section,
    Table,
    Text,
    typeset,
)
from poela.report.page import Page, write_page
from poela.report.pictures.charts import NARROW, Band, Level, Line, Plane
from poela.rounds.drift import Drift
from poela.rounds.watch import THAN, Watched
from poela.studies.study import Study

WAY_HEIGHT = 150.0  # of the small pictures of checks
MARKS = {True: "has drifted", False: "no drift seen"}


def watch_page(study: Study, watched: Watched, out: str | PathLike[str]) -> Path:
    """Write the page."""
    title = f"Watching {watched.policy}"
    subtitle = f"Look {watched.look}, {watched.main.units:,} cases, {watched.plan.in_words}"
    page = Page(title, subtitle, (_first(watched), _drift(watched)), study=study.record.fingerprint[:12])
    return write_page(page, out)


def _first(watched: Watched) -> Section:
    main = watched.main
    facts = [
        Fact("mean outcome now", typeset(main.new, main.error)),
        Fact(THAN[main.name], typeset(main.old, main.error)),
        Fact("new − old", typeset(main.value, main.error, signed=True), _between(watched)),
        Fact("cases", f"{main.units:,}"),
    ]
    if watched.adherence is not None:
        facts.append(Fact("recommendations followed", f"{watched.adherence:.0%}"))
    blocks: list[Block] = [Text(watched.answer, "lead"), Facts(facts)]
    if picture := _picture(watched):
        blocks.append(Pictures([picture]))
    if watched.guards:
        blocks.append(Points([f"{'BROKEN' if one.broken else 'ok'}, guardrail: {one.words}" for one in watched.guards]))
    blocks.append(Points(watched.notes))
    return Section("now", "What is shown so far", blocks)


def _between(watched: Watched) -> str:
    main = watched.main
    if main.low is None or main.high is None:
        return "too early for bounds"
    ends = f"{typeset(main.low, main.error, signed=True)} to {typeset(main.high, main.error, signed=True)}"
    return f"{ends}, {100 * watched.plan.level:g}% at all looks together"


def _picture(watched: Watched) -> Picture | None:
    bounded = [(one.units, one.low, one.high) for one in watched.path if one.low is not None and one.high is not None]
    if len(bounded) < 2:
        return None
    label = "New minus old after so many cases, with bounds that hold at all of them together"
    plane = Plane(
        label=label,
        x="cases that have ended",
        y="new − old",
        lines=[Line([(float(one.units), one.value) for one in watched.path], "newline")],
        bands=[Band([(float(n), low, high) for n, low, high in bounded], "new")],
        levels=[Level(0.0, "no difference")],
        whole_x=True,
    )
    caption = "Above the line: better; the band wholly above it: shown to be better; wholly below it: harm."
    return Picture("Over time", plane.svg(), caption)


def _drift(watched: Watched) -> Section:
    columns = [Column("check"), Column("result"), Column("what was seen"), Column("false alarms", number=True)]
    rows = [
        [
            Entry(check.name),
            Entry(MARKS[check.drifted]),
            Entry(check.words),
            Entry(f"{check.error:.0%}" if check.error else "none", check.error),
        ]
        for check in watched.drift
    ]
    marked = frozenset(place for place, check in enumerate(watched.drift) if check.drifted)
    note = "False alarms: the most that chance alone may raise, over all looks together."
    blocks: list[Block] = [Table("Checks", columns, rows, marked, note=note)]
    if pictures := [_way(check) for check in watched.drift if len(check.path) > 1]:
        blocks.append(Pictures(pictures))
    return Section("drift", "Has anything changed?", blocks)


def _way(check: Drift) -> Picture:
    """One check over time, as a share of what raises its alarm."""
    plane = Plane(
        label=f"How near the check of {check.name} was to an alarm, after so many cases",
        x="cases that have ended",
        y="share of the way",
        lines=[Line([(float(units), way) for units, way in check.path], "newline")],
        levels=[Level(1.0, "alarm")],
        from_zero=True,
        whole_x=True,
        height=WAY_HEIGHT,
        width=NARROW,
    )
    return Picture(check.name, plane.svg(), f"Above the line: {check.name} has drifted.")
