"""Figures for the results, as SVG and PNG; they need matplotlib, and are left out where it is not installed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.files import atomic_file

MARKERS = "osD^vP*X<>"
BOUNDS = ("lower bound", "upper bound")  # of the quantity that they stand beside
MOST_CONTEXTS = 4  # in rows of one comparison; more want a figure of their own
FORMATS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def written(path: Path, draw: Callable[[Any], None], size: tuple[float, float] = (5.5, 3.6)) -> bool:
    """Let `draw` fill a figure, and write it with the endings .svg and .png; False where matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return False
    # Equal data give equal bytes: no date, and element names that are not drawn at random.
    with matplotlib.rc_context({"svg.hashsalt": "poela", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=size, layout="constrained")
        draw(figure)
        for ending, metadata in FORMATS.items():
            with atomic_file(path.with_name(f"{path.name}.{ending}")) as temporary:
                figure.savefig(temporary, format=ending, metadata=metadata, dpi=110)
    return True


def line_figure(path: Path, lines: Lines, *, x: str, y: str, log_y: bool = False) -> bool:
    """Lines, name -> (x, y)."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, (across, up)) in enumerate(lines.items()):
            axes.plot(across, up, marker=MARKERS[number % 5], linestyle="-" if number % 2 else "--", label=name)
        axes.set(xlabel=x, ylabel=y)
        if log_y:
            axes.set_yscale("log", base=2)
        axes.legend()
        axes.grid(alpha=0.3)

    return written(path, draw)


def comparison_figure(path: Path, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Rows of paper and ours as dots with error bars, side by side for each learner; a panel for each quantity."""
    quantities = [name for name in dict.fromkeys(row["quantity"] for row in rows) if name not in BOUNDS]
    contexts = [*dict.fromkeys(row["contexts"] for row in rows)]
    if not quantities or len(contexts) > MOST_CONTEXTS:
        return False

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(contexts), len(quantities), squeeze=False)
        for context, line in zip(contexts, panels, strict=True):
            own = [row for row in rows if row["contexts"] == context]
            for quantity, axes in zip(quantities, line, strict=True):
                _draw_dots(axes, own, quantity)
                axes.set_ylabel(", ".join(filter(None, (quantity, context))), fontsize="small")
        panels[0, 0].legend(fontsize="small")

    return written(path, draw, (3.3 * len(quantities), 3.0 * len(contexts)))


def _draw_dots(axes: Any, rows: Sequence[Mapping[str, Any]], quantity: str) -> None:
    learners = [*dict.fromkeys(row["learner"] for row in rows)]
    found = {(row["learner"], row["quantity"]): row for row in rows}
    for whose, shift, marker in (("paper", -0.12, "s"), ("ours", 0.12, "o")):
        places, values, below, above = [], [], [], []
        for place, learner in enumerate(learners):
            row = found.get((learner, quantity), {})
            if (value := row.get(whose)) is not None:
                bounds = [found.get((learner, name), {}).get(whose) for name in BOUNDS if quantity == "SNTIS"]
                error = row.get(f"± {whose}") or 0.0
                low, high = bounds if bounds and None not in bounds else (value - error, value + error)
                places.append(place + shift)
                values.append(value)
                below.append(max(value - low, 0.0))
                above.append(max(high - value, 0.0))
        axes.errorbar(places, values, yerr=[below, above], fmt=marker, capsize=2, markersize=4, label=whose)
    axes.set_xticks(range(len(learners)), learners, rotation=60, fontsize="x-small")
    axes.set_xlim(-0.5, len(learners) - 0.5)
    axes.grid(alpha=0.3)


def cloud_figure(path: Path, clouds: Lines, *, x: str, y: str, line: float | None = None) -> bool:
    """Points, name -> (x, y), over a logarithmic x axis; `line` is a level to compare with."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, (across, up)) in enumerate(clouds.items()):
            axes.scatter(across, up, s=18, alpha=0.7, marker=MARKERS[number % len(MARKERS)], label=name)
        if line is not None:
            axes.axhline(line, color="grey", linewidth=1)
        axes.set(xlabel=x, ylabel=y, xscale="log")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return written(path, draw, (6.5, 4.2))


def panel_figure(path: Path, panels: Mapping[tuple[str, str], FloatArray], *, x: str, y: str) -> bool:
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

    return written(path, draw, (1.1 * len(columns) + 0.8, 1.15 * len(rows) + 0.7))


def _frame(start: int, width: int, height: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((start - 0.5, -0.5), width, height, fill=False, linewidth=0.6, clip_on=False)
