"""The generated part of the page on intervals: measured coverage, from the stored results.

python -m poela_experiments.pages.coverage docs/intervals.md
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from poela.core.files import atomic_file
from poela.evaluation.intervals import DEFAULT_INTERVAL, INTERVALS
from poela.evaluation.verdict import WORDS
from poela_experiments.frame.results import markdown_rows
from poela_experiments.pages.stored import Row, stored_table

BEGIN, END = "<!-- measured coverage: generated -->", "<!-- end of the generated part -->"


def coverage_summary(results: Path) -> str:
    """Two Markdown tables from the Parquet files in a directory of results."""
    coverage, verdicts = (stored_table(results / f"coverage-{key}.parquet").rows for key in ("intervals", "verdicts"))
    return f"{_default_table(coverage, verdicts)}\n\n{_all_intervals(coverage)}"


def _default_table(coverage: Sequence[Row], verdicts: Sequence[Row]) -> str:
    warned = {(row["environment"], row["ESS"]): row for row in verdicts}
    levels = ("80%", "90%", "95%")
    head = (
        "log",
        "episodes",
        "median ESS",
        *levels,
        "truth below / above the 95% interval",
        *WORDS,
        "misses warned of",
    )
    lines = []
    for row in coverage:
        if row["interval"] != DEFAULT_INTERVAL:
            continue
        verdict = warned[row["environment"], row["ESS"]]
        told = verdict["misses warned of"]
        lines.append(
            [
                *(str(row[name]) for name in ("environment", "episodes")),
                f"{row['median ESS']:.0f}",
                *(f"{row[level]:.1f}" for level in levels),
                f"{row['below 95%']:.1f} / {row['above 95%']:.1f}",
                *(f"{verdict[word]:.0f}%" for word in WORDS),
                "" if told is None else f"{told:.0f}%",
            ]
        )
    title = f"The default, `{DEFAULT_INTERVAL}`: coverage in percent, and the verdict."
    return "\n".join([title, "", *markdown_rows(head, lines)])


def _all_intervals(coverage: Sequence[Row]) -> str:
    names = [name for name in INTERVALS if any(row["interval"] == name for row in coverage)]
    found = {(row["environment"], row["ESS"], row["interval"]): row for row in coverage}
    lines = []
    for environment, ess in dict.fromkeys((row["environment"], row["ESS"]) for row in coverage):
        rows = [found.get((environment, ess, name)) for name in names]
        lines.append([environment, str(ess), *("" if row is None else f"{row['95%']:.1f}" for row in rows)])
    title = "All intervals: coverage in percent where 95% is asked for."
    return "\n".join([title, "", *markdown_rows(("log", "ESS about", *names), lines)])


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
