"""Shown gain against spend: what more money buys, as far as these cases can tell."""

from markupsafe import Markup

from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Table
from poela.report.pictures.charts import Dot, Key, Level, Line, Plane
from poela.report.subject import Numbers
from poela.studies.allotment import SpendPoint, curve, spend_name, spend_points
from poela.studies.guard_words import amount_number
from poela.studies.study import Study

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
