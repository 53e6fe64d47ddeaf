"""Grids of cells: heat maps of shares, and what is eligible along an episode."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from poela.report.pictures.charts import Key, draw_keys
from poela.report.pictures.drawing import WIDTH, Drawing, clean


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
