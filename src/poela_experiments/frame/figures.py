"""Figures for the results, as SVG and PNG; they need matplotlib, and are left out where it is not installed.

One colour for each learner in every picture; the paper is dashed; hollow markers are not judged.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.files import atomic_file

MARKERS = "osD^vP*X<>"
COLOURS = {
    name: f"C{number}"
    for number, names in enumerate(
        (("POELA", "eligible actions"), ("PO-mu",), ("PO-CRM", "SNIS + CRM"), ("BCQ",), ("PQL",))
    )
    for name in names
} | {"CQL": "C5", "FittedQ": "C6", "Clone": "C7", "POELA, no penalty": "C8", "IS + CRM": "C9"}
QUANTITIES = ("black", "saddlebrown", "teal", "0.5")  # the colours of what is no learner
OTHER = "0.4"  # the colour of whatever has none of its own
BOUNDS = ("lower bound", "upper bound")  # of the quantity that they stand beside
SAME_SCALE = ("SNTIS", "true value")  # an estimate and what it is of, side by side
MOST_PANELS = 4  # in a row or a column of one comparison; more want a figure of their own
FORMATS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def written(path: Path, title: str, draw: Callable[[Any], None], size: tuple[float, float] = (5.5, 3.6)) -> bool:
    """Let `draw` fill a figure, and write it with the endings .svg and .png; False where matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return False
    # Equal data give equal bytes: no date, and element names that are not drawn at random.
    with matplotlib.rc_context({"svg.hashsalt": "poela", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=size, layout="constrained")
        figure.suptitle(title, fontsize="medium")
        draw(figure)
        for ending, metadata in FORMATS.items():
            with atomic_file(path.with_name(f"{path.name}.{ending}")) as temporary:
                figure.savefig(temporary, format=ending, metadata=metadata, dpi=110)
    return True


def line_figure(
    path: Path, title: str, lines: Lines, *, x: str, y: str, log_y: bool = False, judged: bool = True, apart: float = 0
) -> bool:
    """Lines, "name, whose" -> (x, y): one colour for each name; those of the paper are dashed, with squares.

    `apart`: how far lines are moved from each other along x, so that equal ones are seen.
    """

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        names = [*dict.fromkeys(name.rpartition(", ")[0] for name in lines)]
        for name, (across, up) in lines.items():
            what, _, whose = name.rpartition(", ")
            number, paper = names.index(what), whose == "paper"
            axes.plot(
                [place + apart * (number - (len(names) - 1) / 2) for place in across],
                up,
                color=COLOURS.get(what, QUANTITIES[number % len(QUANTITIES)]),
                linestyle="--" if paper else "-",
                marker="s" if paper else "o",
                markersize=9 if paper else 5,
                markerfacecolor="none" if paper or not judged else None,
                label=name,
            )
        axes.set(xlabel=x, ylabel=y)
        if log_y:
            axes.set_yscale("log", base=2)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
        moved = "lines are moved apart a little" if apart else ""
        hollow = "" if judged else "hollow: not judged; errors are in the table"
        figure.supxlabel("; ".join(filter(None, ("square, dashed: paper", hollow, moved))), fontsize="x-small")

    return written(path, title, draw)


def paper_and_ours(rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, of: str, x: str) -> Lines:
    """Lines of the paper and ours against column `x`, for each name in the column `of` that has numbers.

    >>> paper_and_ours([{"learner": "A", "H": "2", "paper": None, "ours": 16}], ["A", "B"], of="learner", x="H")
    {'A, ours': ([2.0], [16.0])}
    """
    lines = {}
    for name, whose in product(names, ("paper", "ours")):
        own = [row for row in rows if row[of] == name and row.get(whose) is not None]
        if own:
            lines[f"{name}, {whose}"] = [float(row[x]) for row in own], [float(row[whose]) for row in own]
    return lines


def comparison_figure(path: Path, title: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Paper and ours side by side for each learner; a column for each quantity, a row for each kind of contexts."""
    quantities = [name for name in dict.fromkeys(row["quantity"] for row in rows) if name not in BOUNDS]
    contexts = [*dict.fromkeys(row["contexts"] for row in rows)]
    if not quantities or max(len(quantities), len(contexts)) > MOST_PANELS:
        return False

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(contexts), len(quantities), squeeze=False, sharey="col")
        for context, line in zip(contexts, panels, strict=True):
            own = [row for row in rows if row["contexts"] == context]
            for quantity, axes in zip(quantities, line, strict=True):
                draw_dots(axes, [row for row in own if row["quantity"] == quantity])
                axes.set_ylabel(", ".join(filter(None, (quantity, context))), fontsize="small")
        if set(SAME_SCALE) <= set(quantities):
            own_axes = [
                axes for line in panels for name, axes in zip(quantities, line, strict=True) if name in SAME_SCALE
            ]
            limits = [axes.get_ylim() for axes in own_axes]
            for axes in own_axes:
                axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        note = "square, dashed: paper; circle: ours; hollow: not judged; bars: one standard error, where there is one"
        figure.supxlabel(note, fontsize="x-small")

    return written(path, title, draw, (max(3.3 * len(quantities), 6.0), 2.9 * len(contexts) + 0.5))


def draw_dots(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """The numbers of one quantity, learner by learner."""
    learners = [*dict.fromkeys(row["learner"] for row in rows)]
    for row in rows:
        colour = COLOURS.get(row["learner"], OTHER)
        for whose, shift, marker in (("paper", -0.15, "s"), ("ours", 0.15, "o")):
            if row.get(whose) is None:
                continue
            face = colour if row["agrees"] else "none"
            place, error = learners.index(row["learner"]) + shift, row.get(f"± {whose}") or None
            drawn = axes.errorbar(place, row[whose], yerr=error, fmt=marker, ms=5, c=colour, mfc=face, capsize=2)
            if whose == "paper" and drawn[2]:
                drawn[2][0].set_linestyle("--")
    axes.set_xticks(range(len(learners)), learners, rotation=45, ha="right", fontsize="x-small")
    axes.set_xlim(-0.5, len(learners) - 0.5)
    axes.grid(alpha=0.3)


def cloud_figure(path: Path, title: str, clouds: Lines, *, x: str, y: str, line: float | None = None) -> bool:
    """Points, name -> (x, y), over a logarithmic x axis; `line` is a level to compare with."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, (across, up)) in enumerate(clouds.items()):
            marker, colour = MARKERS[number % len(MARKERS)], COLOURS.get(name, OTHER)
            axes.scatter(across, up, s=18, alpha=0.7, label=name, facecolors="none", edgecolors=colour, marker=marker)
        if line is not None:
            axes.axhline(line, color="grey", linewidth=1)
        axes.set(xlabel=x, ylabel=y, xscale="log")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return written(path, title, draw, (6.5, 4.2))


def panel_figure(path: Path, title: str, panels: Mapping[tuple[str, str], FloatArray], *, x: str, y: str) -> bool:
    """Small matrices of one shape, (row, column) -> values, side by side; in each row one scale of greys."""
    rows, columns = ([*dict.fromkeys(key[place] for key in panels)] for place in (0, 1))
    height, width = next(iter(panels.values())).shape

    def draw(figure: Any) -> None:
        for axes, row in zip(figure.subplots(len(rows), 1, squeeze=False).ravel(), rows, strict=True):
            # One image for each row, with empty columns between the matrices: quicker than an axis for each of them.
            strip = np.full((height, len(columns) * (width + 1) - 1), np.nan)
            for number, column in enumerate(columns):
                start = number * (width + 1)
                strip[:, start : start + width] = panels.get((row, column), np.nan)
                axes.add_patch(_frame(start, width, height))
            axes.imshow(strip, origin="lower", cmap="Greys", vmin=0, vmax=float(np.nanmax(strip)) or 1.0)
            middles = [number * (width + 1) + (width - 1) / 2 for number in range(len(columns))]
            axes.set_xticks(middles if row == rows[0] else [], columns if row == rows[0] else [], fontsize="small")
            axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
            axes.set(yticks=[])
            axes.set_ylabel(row, fontsize="small")
            axes.spines[:].set_visible(False)
        figure.supxlabel(x, fontsize="small")
        figure.supylabel(y, fontsize="small")

    return written(path, title, draw, (1.1 * len(columns) + 0.8, 1.15 * len(rows) + 1.0))


def _frame(start: int, width: int, height: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((start - 0.5, -0.5), width, height, fill=False, linewidth=0.6, clip_on=False)
