"""The generated part of the page on intervals: measured coverage, from the stored results.

python -m poela_experiments.pages.coverage docs/intervals.md
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from poela.core.files import atomic_file
from poela_experiments.frame.results import markdown_rows
from poela_experiments.pages.stored import Row, stored_table

BEGIN, END = "<!-- measured coverage: generated -->", "<!-- end of the generated part -->"


def coverage_summary(results: Path) -> str:
    """Markdown tables from the Parquet files in a directory of results; the set that had no part in anything first."""
    words, trusted, intervals = (
        stored_table(results / "coverage" / f"{key}.parquet").rows for key in ("words", "trusted", "intervals")
    )
    return "\n\n".join([_words(words), _trusted(trusted), _intervals(intervals)])


def _words(rows: Sequence[Row]) -> str:
    title = "What the words are worth: the second set had no part in setting any limit."
    head = ("set", "verdict", "of all logs", "95% intervals that miss", "of informative logs trusted", "logs")
    lines = [
        [
            *(str(row[name]) for name in ("set", "word")),
            *("" if row[name] is None else f"{row[name]:.1f}%" for name in ("of all", "misses", "of informative")),
            f"{row['logs']:,}",
        ]
        for row in rows
    ]
    return "\n".join([title, "", *markdown_rows(head, lines)])


def _trusted(rows: Sequence[Row]) -> str:
    title = "Coverage of the 95% interval where the verdict is trust (in at least a fifth of the logs)."
    head = ("set", "log", "episodes", "median ESS", "trusted", "covered", "standard error", "half-width")
    lines = [
        [
            *(str(row[name]) for name in ("set", "log", "episodes")),
            f"{row['ESS']:.0f}",
            *(f"{row[name]:.1f}%" for name in ("trusted", "covered", "± covered")),
            f"{row['half-width']:.2f}",
        ]
        for row in rows
    ]
    return "\n".join([title, "", *markdown_rows(head, lines)])


def _intervals(rows: Sequence[Row]) -> str:
    title = "All intervals where an ESS of 60 or more was asked for: mean coverage, and the lowest of all cells."
    head = ("interval", "cells", "80%", "90%", "95%", "lowest at 95%", "cells below 90 at 95%")
    lines = [
        [
            *(str(row[name]) for name in ("interval", "cells")),
            *(f"{row[name]:.1f}" for name in ("80%", "90%", "95%", "lowest at 95%")),
            str(row["below 90 at 95%"]),
        ]
        for row in rows
    ]
    return "\n".join([title, "", *markdown_rows(head, lines)])


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


def main(page: Path) -> None:
    """Fill the page anew from the results beside it."""
    text = filled(page.read_text(encoding="utf-8"), coverage_summary(page.parent / "results"))
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
