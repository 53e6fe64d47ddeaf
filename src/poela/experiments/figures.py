"""Figures for the results; they need matplotlib, and are left out where it is not installed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from poela.core.storage import atomic_file


def line_figure(
    path: Path, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str, log_y: bool = False
) -> bool:
    """Write lines, name -> (x, y), as an SVG file; False where matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return False
    # Equal data give equal bytes: no date, and element names that are not drawn at random.
    with matplotlib.rc_context({"svg.hashsalt": "poela", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=(5.5, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, (name, (across, up)) in enumerate(lines.items()):
            axes.plot(across, up, marker="osD^v"[number % 5], linestyle="-" if number % 2 else "--", label=name)
        axes.set(xlabel=x, ylabel=y)
        if log_y:
            axes.set_yscale("log", base=2)
        axes.legend()
        axes.grid(alpha=0.3)
        with atomic_file(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    return True
