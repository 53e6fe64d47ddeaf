"""The generated part of the page on intervals: measured coverage, from the stored results."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from poela.core.files import atomic_file
from poela_experiments.frame.results import markdown_rows
from poela_experiments.pages.stored import stored_table

from .tables import separation_rows

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
    "cells": (
        "What the words separate. A kind of log (a process at one distance, with at least 50 logs of this word) fails "
        "where more than a tenth of the 95% intervals miss.",
        {
            "set": ("set", "{}"),
            "word": ("verdict", "{}"),
            "misses": ("95% intervals that miss", "{:.1f}%"),
            "worst kind": ("in the worst kind of log", "{:.1f}%"),
            "in failing kinds": ("logs in kinds that fail", "{:.1f}%"),
            "half-width": ("median half-width (SD of returns)", "{:.2f}"),
            "ESS": ("median ESS", "{:.0f}"),
            "gross": ("off by more than 3 standard errors", "{:.1f}%"),
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
    return "\n\n".join(_markdown(results, key) for key in TABLES)


def _markdown(results: Path, key: str) -> str:
    title, columns = TABLES[key]
    rows = stored_rows(results, key)
    known = {name: shown for name, shown in columns.items() if any(row[name] is not None for row in rows)}
    lines = [["" if row[name] is None else form.format(row[name]) for name, (_, form) in known.items()] for row in rows]
    return "\n".join([title, "", *markdown_rows([name for name, _ in known.values()], lines)])


def stored_rows(results: Path, key: str) -> Sequence[Mapping[str, Any]]:
    """The rows of a table; of every cell, what the words separate."""
    rows = stored_table(results / "coverage" / f"{key}.parquet").rows
    return list(separation_rows(rows)) if key == "cells" else rows


def words_table(results: Path) -> str:
    """What the words separate, as Markdown."""
    return _markdown(results, "cells")


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
