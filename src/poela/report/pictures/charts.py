"""The few kinds of pictures that pages need: what each shows is in words, labels and tooltips too."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from poela.report.pictures.drawing import WIDTH, Drawing, Scale, clean, short

NARROW = 340.0  # of pictures on the first screen: their letters are larger on a phone
LEFT, RIGHT, TOP, BOTTOM = 46.0, 12.0, 14.0, 40.0


@dataclass(frozen=True)
class Dot:
    """A point: where, how it looks (a class of the style), what it tells, and a label beside it."""

    x: float
    y: float
    css: str
    tip: str
    label: str = ""
    radius: float = 3.5
    below: bool = False  # where the label stands


@dataclass(frozen=True)
class Line:
    """Points that are joined, and a label at the last of them."""

    points: Sequence[tuple[float, float]]
    css: str
    label: str = ""


@dataclass(frozen=True)
class Band:
    """The room between two lines: a place, its lower and its upper end."""

    points: Sequence[tuple[float, float, float]]
    css: str


@dataclass(frozen=True)
class Level:
    """A value to compare with: a horizontal line, or an upright one."""

    value: float
    label: str
    upright: bool = False


@dataclass(frozen=True)
class Key:
    """What a kind of mark means."""

    css: str
    words: str


@dataclass(frozen=True)
class Plane:
    """Dots and lines over two axes."""

    label: str  # what the picture shows, in a sentence
    x: str
    y: str
    dots: Sequence[Dot] = ()
    lines: Sequence[Line] = ()
    bands: Sequence[Band] = ()
    levels: Sequence[Level] = ()
    keys: Sequence[Key] = ()
    log_x: bool = False
    square: bool = False  # both axes from 0 to 1
    from_zero: bool = False
    whole_x: bool = False  # whether only whole numbers stand below
    height: float = 270.0
    width: float = WIDTH
    also: Sequence[float] = field(default_factory=tuple)  # values that the upright axis must hold

    def svg(self) -> Markup:
        """The picture."""
        drawing = Drawing(self.height, self.width)
        top = TOP + 16 * len(self.keys and [0]) + 12
        x, y = self._scales(top)
        _axes(drawing, x, y, self.x, self.y, whole=self.whole_x)
        draw_keys(drawing, self.keys)
        for level in self.levels:
            _level(drawing, level, x, y)
        for band in self.bands:
            upper = [(x(at), y(high)) for at, _, high in band.points]
            lower = [(x(at), y(low)) for at, low, _ in reversed(band.points)]
            drawing.path([*upper, *lower], f"band {band.css}")
        for line in self.lines:
            places = [(x(a), y(b)) for a, b in line.points]
            drawing.path(places, f"line {line.css}")
            if line.label and places:
                _beside(drawing, *places[-1], line.label)
        for dot in self.dots:
            drawing.dot(x(dot.x), y(dot.y), dot.radius, dot.css, dot.tip)
        for dot in self.dots:
            if dot.label:
                below = dot.below and y(dot.y) + dot.radius + 14 < y.first  # else the axis is in the way
                _beside(drawing, x(dot.x), y(dot.y) + (dot.radius + 18 if below else -dot.radius), dot.label)
        return drawing.svg(self.label)

    def _scales(self, top: float) -> tuple[Scale, Scale]:
        bottom = self.height - BOTTOM
        if self.square:
            return Scale(0.0, 1.0, LEFT, self.width - RIGHT), Scale(0.0, 1.0, bottom, top)
        xs = [dot.x for dot in self.dots] + [a for line in self.lines for a, _ in line.points]
        ys = [dot.y for dot in self.dots] + [b for line in self.lines for _, b in line.points] + list(self.also)
        xs += [at for band in self.bands for at, _, _ in band.points]
        ys += [end for band in self.bands for _, *ends in band.points for end in ends]
        xs += [level.value for level in self.levels if level.upright]
        ys += [level.value for level in self.levels if not level.upright]
        y = Scale.over(ys, bottom, top, margin=0.08)
        if self.from_zero:
            y = Scale(0.0, y.high, bottom, top)
        return Scale.over(xs, LEFT, self.width - RIGHT, log=self.log_x), y


def _axes(drawing: Drawing, x: Scale, y: Scale, x_label: str, y_label: str, *, whole: bool) -> None:
    bottom = y.first
    for value in y.ticks():
        drawing.line(x.first, y(value), x.last, y(value), "grid")
        drawing.text(x.first - 5, y(value) + 4, short(value), "tick", "end")
    for value in (tick for tick in x.ticks() if not whole or tick == round(tick)):
        drawing.line(x(value), bottom, x(value), bottom + 4, "axis")
        drawing.text(x(value), bottom + 16, short(value), "tick", "middle")
    drawing.line(x.first, bottom, x.last, bottom, "axis")
    drawing.text(x.last, bottom + 33, x_label, "name", "end")
    drawing.text(2, y.last - 8, y_label, "name")


def draw_keys(drawing: Drawing, keys: Sequence[Key]) -> None:
    """A line above the picture that says what marks mean."""
    x = 4.0
    for key in keys:
        drawing.dot(x + 4, 9, 4, key.css)
        drawing.text(x + 12, 13, key.words, "tick")
        x += 22 + 5.9 * len(key.words)


def _level(drawing: Drawing, level: Level, x: Scale, y: Scale) -> None:
    if level.upright:
        place = x(level.value)
        drawing.line(place, y.first, place, y.last, "level")
        near_end = place > (x.first + x.last) / 2
        drawing.text(place + (-5 if near_end else 5), y.last + 10, level.label, "note", "end" if near_end else "start")
        return
    drawing.line(x.first, y(level.value), x.last, y(level.value), "level")
    drawing.text(x.first + 4, y(level.value) - 5, level.label, "note")


def _beside(drawing: Drawing, x: float, y: float, label: str) -> None:
    end = x > drawing.width * 0.6
    drawing.text(x + (-8 if end else 8), max(y - 6, 12.0), label, "strong", "end" if end else "start")


@dataclass(frozen=True)
class LadderRow:
    """A row of a ladder: an estimate, how far down it could be, and words at both ends."""

    name: str
    value: float | None
    low: float | None
    aside: str
    css: str
    tip: str
    strong: bool = False


def ladder(rungs: Sequence[LadderRow], label: str, x_label: str) -> Markup:
    """Rows with a name above each: a dot at the estimate, and a bar from what is shown."""
    row, top = 33.0, 8.0
    drawing = Drawing(top + row * len(rungs) + 38)
    numbers = [number for rung in rungs for number in (rung.value, rung.low) if number is not None]
    x = Scale.over([0.0, *numbers], 8.0, WIDTH - 12)
    bottom = top + row * len(rungs)
    ticks = x.ticks()
    for value in ticks:
        drawing.text(x(value), bottom + 14, short(value), "tick", "middle")
    drawing.text(WIDTH - 12, bottom + 31, x_label, "name", "end")
    for place, rung in enumerate(rungs):
        y = top + row * place
        if rung.strong:
            drawing.rect(0, y, WIDTH, row - 2, "marked")
        for value in sorted({*ticks, 0.0}):  # beside the names, not across them
            drawing.line(x(value), y + 17, x(value), y + row - 4, "grid" if value else "axis")
        drawing.text(4, y + 12, clean(rung.name, 46), "strong" if rung.strong else "row", tip=rung.tip)
        drawing.text(WIDTH - 4, y + 12, rung.aside, "tick", "end")
        if rung.value is None:
            continue
        if rung.low is not None:
            drawing.line(x(rung.low), y + 22, x(rung.value), y + 22, "span")
            drawing.line(x(rung.low), y + 18, x(rung.low), y + 26, "span")
        drawing.dot(x(rung.value), y + 22, 4.5, rung.css, rung.tip)
    return drawing.svg(label)


@dataclass(frozen=True)
class Pair:
    """A row with two shares: of the log and, where there is one, of the policy."""

    name: str
    first: float
    second: float | None
    note: str
    tip: str


def pairs(rows: Sequence[Pair], label: str, keys: Sequence[Key]) -> Markup:
    """Two bars for each name, before and after, and the shares in words."""
    row, thick = (30.0, 9.0) if len(rows) <= 12 else (20.0, 6.0)
    longest = max((len(clean(item.name, 17)) for item in rows), default=1)
    top, left, right = 22.0, min(14 + 6.3 * longest, 118.0), 92.0
    drawing = Drawing(top + row * len(rows) + 4, NARROW)
    x = Scale(0.0, max([0.01, *(max(item.first, item.second or 0.0) for item in rows)]), left, NARROW - right)
    draw_keys(drawing, keys)
    for place, item in enumerate(rows):
        y = top + row * (place + 0.5)
        drawing.text(left - 8, y + 4, clean(item.name, 17), "row", "end", tip=item.name)
        drawing.rect(left, y - thick - 0.5, max(x(item.first) - left, 1.0), thick, "bar log", item.tip)
        if item.second is not None:
            drawing.rect(left, y + 0.5, max(x(item.second) - left, 1.0), thick, "bar new", item.tip)
        drawing.text(NARROW - right + 8, y + 4, item.note, "share")
    drawing.line(left, top, left, top + row * len(rows), "axis")
    return drawing.svg(label)


@dataclass(frozen=True)
class Bar:
    """An upright bar, its name below, and what it tells; `second` stands beside it, where there is one."""

    name: str
    value: float
    tip: str
    second: float | None = None


def bars(
    items: Sequence[Bar], label: str, x_label: str, y_label: str, keys: Sequence[Key] = (), *, percent: bool = False
) -> Markup:
    """Upright bars."""
    top, bottom = (40.0 if keys else 26.0), 178.0
    drawing = Drawing(bottom + 40)
    draw_keys(drawing, keys)
    most = max([max(item.value, item.second or 0.0) for item in items] or [1.0]) or 1.0
    y = Scale(0.0, most * 1.06, bottom, top)
    for value in y.ticks(4):
        drawing.line(LEFT, y(value), WIDTH - RIGHT, y(value), "grid")
        drawing.text(LEFT - 5, y(value) + 4, f"{100 * value:.3g}%" if percent else short(value), "tick", "end")
    drawing.text(2, top - 10, y_label, "name")
    width = (WIDTH - RIGHT - LEFT) / max(len(items), 1)
    every = max(math.ceil((max((len(item.name) for item in items), default=1) * 6.6 + 6) / width), 1)
    for place, item in enumerate(items):
        x = LEFT + width * place
        parts = [(item.value, "bar log" if keys else "bar new")]
        parts += [] if item.second is None else [(item.second, "bar new")]
        each = min(width * 0.8, 60.0) / len(parts)
        first = x + (width - each * len(parts)) / 2
        for number, (value, css) in enumerate(parts):
            drawing.rect(first + each * number, y(value), each - 0.6, bottom - y(value), css, item.tip)
        if place % every == 0:
            drawing.text(x + width / 2, bottom + 15, item.name, "tick", "middle")
    drawing.line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")
    drawing.text(WIDTH - RIGHT, bottom + 33, x_label, "name", "end")
    return drawing.svg(label)


# Grids of cells: heat maps of shares, and what is eligible along an episode.


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map: how strong, what it says, and what it tells."""

    strength: float  # 0 to 1; NaN: nothing to show
    words: str
    tip: str


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell]],
    label: str,
    *,
    x: str = "",
    y: str = "",
    headings: Mapping[int, str] | None = None,
) -> Markup:
    """Rows and columns of cells, the stronger the darker; words stand in the cells where there is room.

    `headings` stand above the rows of these numbers, for groups of rows.
    """
    longest = max((len(clean(name, 20)) for name in rows), default=1)
    left = min(14 + 6.3 * longest, 132.0)
    tall = max((len(clean(name, 16)) for name in columns), default=1)
    width = (WIDTH - left - 4) / max(len(columns), 1)
    upright = width < 8 + 5.8 * tall
    top = (18.0 if x or y else 4.0) + (6.4 * tall + 10 if upright else 16)
    row, above = (20.0 if len(rows) <= 16 else 16.0), 18.0
    drawing = Drawing(top + row * len(rows) + above * len(headings or {}) + 6)
    drawing.text(WIDTH - 4, 11, x, "name", "end")
    drawing.text(2, 11, y, "name")
    for place, name in enumerate(columns):
        _column_name(drawing, left + width * (place + 0.5), top - 6, name, upright)
    down = top
    for at, (name, line) in enumerate(zip(rows, cells, strict=True)):
        if headings and at in headings:
            drawing.text(2, down + 13, clean(headings[at], 60), "row strong", tip=headings[at])
            down += above
        drawing.text(left - 6, down + row / 2 + 4, clean(name, 20), "row", "end", tip=name)
        for place, cell in enumerate(line):
            _cell(drawing, cell, left + width * place, down, width, row)
        down += row
    return drawing.svg(label)


def _cell(drawing: Drawing, cell: Cell, x: float, y: float, width: float, height: float) -> None:
    strength = 0.0 if math.isnan(cell.strength) else min(max(cell.strength, 0.0), 1.0)
    css, opacity = ("heat", 0.75 * strength) if strength >= 0.005 else ("empty", None)
    drawing.rect(x + 0.5, y + 0.5, width - 1, height - 1, css, cell.tip, opacity)
    if cell.words and width >= 15:  # everywhere or nowhere: a map with some of its numbers misleads
        drawing.text(x + width / 2, y + height / 2 + 4, cell.words, "cell", "middle")


def _column_name(drawing: Drawing, x: float, y: float, name: str, upright: bool) -> None:
    if not upright:
        drawing.text(x, y, clean(name, 16), "row", "middle", tip=name)
        return
    turned = f"rotate(-90 {x + 4:.1f} {y:.1f})"
    drawing.element("text", clean(name, 16), x=x + 4, y=y, css="row", transform=turned, data_tip=clean(name, 400))


@dataclass(frozen=True)
class GridPanel:
    """One grid of actions (rows) by steps (columns) of an episode."""

    name: str
    filled: Sequence[Sequence[bool]]  # [T][A]


def action_grid(
    actions: Sequence[str],
    panels: Sequence[GridPanel],
    logged: Sequence[int],
    favoured: Sequence[int],
    label: str,
    keys: Sequence[Key],
) -> Markup:
    """Which actions may be taken at each step; a dot for what was done, a ring for what the policy favours."""
    steps = len(logged)
    left = 96.0
    width = min((WIDTH - left - 4) / max(steps, 1), 34.0)
    row = 16.0 if len(actions) <= 10 else 11.0
    height = 40 + sum(22 + row * len(actions) for _ in panels) + 22
    drawing = Drawing(height)
    draw_keys(drawing, keys)
    y = 22.0
    for panel in panels:
        drawing.text(2, y + 13, panel.name, "strong")
        y += 20
        for action, name in enumerate(actions):
            top = y + row * action
            drawing.text(
                left - 6, top + row / 2 + 3.5, clean(name, 14), "row" if row > 12 else "small", "end", tip=name
            )
            for step in range(steps):
                open_ = panel.filled[step][action]
                tip = f"step {step}, {clean(name)}: {'eligible' if open_ else 'barred'}"
                x = left + width * step
                drawing.rect(x + 0.5, top + 0.5, width - 1, row - 1, "open" if open_ else "empty", tip)
        for step in range(steps):
            x = left + width * (step + 0.5)
            size = min(row, width) * 0.24
            drawing.dot(x, y + row * (favoured[step] + 0.5), size + 2, "ring")
            drawing.dot(x, y + row * (logged[step] + 0.5), size, "did")
        y += row * len(actions) + 4
    for step in range(0, steps, max(steps // 8, 1)):
        drawing.text(left + width * (step + 0.5), y + 12, str(step), "tick", "middle")
    drawing.text(2, y + 12, "step", "name")
    return drawing.svg(label)
