"""The generated part of the page on intervals: measured coverage, from the stored results."""

import re
from pathlib import Path

from poela.core.files import atomic_file
from poela_experiments.frame.results import markdown_rows
from poela_experiments.pages.stored import stored_table

BEGIN, END = "<!-- measured coverage: generated -->", "<!-- end of the generated part -->"
# For each table its title, and for each column what it is called here and how it is shown.
TABLES = {
    "words": (
        "What the words are worth: the second set had no part in setting any limit.",
        {
            "set": ("set", "{}"),
            "word": ("verdict", "{}"),
            "of all": ("of all logs", "{:.1f}%"),
            "misses": ("95% intervals that miss", "{:.1f}%"),
            "of informative": ("of informative logs trusted", "{:.1f}%"),
            "logs": ("logs", "{:,}"),
        },
    ),
    "trusted": (
        "Coverage of the 95% interval where the verdict is trust (in at least a fifth of the logs).",
        {
            **{name: (name, "{}") for name in ("set", "log", "episodes")},
            "ESS": ("median ESS", "{:.0f}"),
            **{name: (name, "{:.1f}%") for name in ("trusted", "covered")},
            "± covered": ("standard error", "{:.1f}%"),
            "half-width": ("half-width", "{:.2f}"),
        },
    ),
    "intervals": (
        "All intervals where an ESS of 60 or more was asked for: mean coverage, and the lowest of all cells.",
        {
            **{name: (name, "{}") for name in ("interval", "cells")},
            **{name: (name, "{:.1f}") for name in ("80%", "90%", "95%", "lowest at 95%")},
            "below 90 at 95%": ("cells below 90 at 95%", "{}"),
        },
    ),
}


def coverage_summary(results: Path) -> str:
    """Markdown tables from the Parquet files in a directory of results; the set that had no part in anything first."""
    parts = []
    for key, (title, columns) in TABLES.items():
        rows = stored_table(results / "coverage" / f"{key}.parquet").rows
        lines = [
            ["" if row[name] is None else form.format(row[name]) for name, (_, form) in columns.items()] for row in rows
        ]
        parts.append("\n".join([title, "", *markdown_rows([name for name, _ in columns.values()], lines)]))
    return "\n\n".join(parts)


def filled(page: str, summary: str) -> str:
    """The page with the summary between its marks.

    >>> print(filled(f"before\\n{BEGIN}\\nold\\n{END}\\nafter", "new"))
    before
    <!-- measured coverage: generated -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- end of the generated part -->
    after
    """
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n\n{summary}\n\n{END}", page)


def fill_page(page: Path) -> None:
    """Fill the page anew from the results beside it."""
    text = filled(page.read_text(encoding="utf-8"), coverage_summary(page.parent / "results"))
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
