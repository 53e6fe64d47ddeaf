"""Figures for the results, as SVG and PNG; they need matplotlib, and are left out where it is not installed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.storage import atomic_file

MARKERS = "osD^vP*X<>"
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
    """Small matrices, (row, column) -> values, in a grid of panels; in each row one scale of greys."""
    rows, columns = ([*dict.fromkeys(key[place] for key in panels)] for place in (0, 1))

    def draw(figure: Any) -> None:
        for axes, (row, column) in zip(
            figure.subplots(len(rows), len(columns), squeeze=False).ravel(),
            ((row, column) for row in rows for column in columns),
            strict=True,
        ):
            own = panels.get((row, column))
            axes.set(xticks=[], yticks=[])
            if own is None:
                axes.axis("off")
                continue
            highest = max(float(np.max(values)) for (other, _), values in panels.items() if other == row)
            axes.imshow(own, origin="lower", cmap="Greys", vmin=0, vmax=highest or 1.0)
            if row == rows[0]:
                axes.set_title(column, fontsize="small")
            if column == columns[0]:
                axes.set_ylabel(row, fontsize="small")
        figure.supxlabel(x, fontsize="small")
        figure.supylabel(y, fontsize="small")

    return written(path, draw, (1.2 * len(columns) + 0.8, 1.25 * len(rows) + 0.7))
