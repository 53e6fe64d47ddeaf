"""The generated part of the page on intervals: what the verdict's words are worth, and measured coverage.

python -m poela_experiments.pages.coverage docs/intervals.md
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from poela.core.files import atomic_file
from poela_experiments.frame.results import markdown_rows
from poela_experiments.pages.stored import Row, Stored, stored_table

BEGIN, END = "<!-- measured coverage: generated -->", "<!-- end of the generated part -->"
SETS = {"second": "logs that had no part in anything", "first": "logs on which the limits were set"}


def coverage_summary(results: Path) -> str:
    """Markdown tables from the Parquet files in a directory of results; the set that set nothing comes first."""
    words, trusted, intervals = (
        stored_table(results / f"coverage-{key}.parquet") for key in ("words", "trusted", "intervals")
    )
    parts = [
        *(_words(_of(words, which), of) for which, of in SETS.items()),
        *(_trusted(_of(trusted, which), of) for which, of in SETS.items()),
        _intervals(intervals.rows),
        "  \n".join((*words.notes, f"Command: `{words.command}`")),
    ]
    return "\n\n".join(part for part in parts if part)


def _of(table: Stored, which: str) -> list[Row]:
    return [row for row in table.rows if row["set"] == which]


def _words(rows: Sequence[Row], of: str) -> str:
    if not rows:
        return ""
    first = rows[0]
    flaws = sum(first[name] for name in ("without width", "impossible"))
    title = (
        f"What the words are worth, in percent of {first['logs']:,} {of} "
        f"({flaws or 'no'} interval{'' if flaws == 1 else 's'} without width or beyond what is possible):"
    )
    lines = [[row["word"], *(_percent(row[name]) for name in ("of all", "misses", "of informative"))] for row in rows]
    return _table(title, ("verdict", "said of", "95% interval misses", "of informative estimates"), lines)


def _trusted(rows: Sequence[Row], of: str) -> str:
    lines = [
        [
            row["log"],
            f"{row['episodes']:,}",
            f"{row['ESS']:.0f}",
            f"{row['trusted']:.0f}",
            f"{row['covered']:.1f} ± {row['± covered']:.1f}",
            f"{row['half-width']:.2f}",
        ]
        for row in rows
    ]
    head = ("log", "episodes", "ESS", "trusted, %", "covered where trusted, %", "half-width, sd of returns")
    return _table(f"Coverage of 95% intervals where the verdict is `trust`, {of}:", head, lines) if rows else ""


def _intervals(rows: Sequence[Row]) -> str:
    levels = ("80%", "90%", "95%")
    lines = [
        [
            f"`{row['interval']}`",
            str(row["cells"]),
            *(f"{row[level]:.1f}" for level in levels),
            f"{row['lowest at 95%']:.0f}",
        ]
        for row in rows
    ]
    head = ("interval", "cells", *(f"asked: {level}" for level in levels), "lowest cell at 95%")
    title = "All intervals, whatever the verdict, where the target's ESS is 40 or more: mean coverage over cells."
    return _table(title, head, lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1f}"


def _table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
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
