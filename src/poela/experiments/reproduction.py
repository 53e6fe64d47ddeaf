"""The page that sets every stored result beside the paper: what agrees, what does not, what has not been run.

It is made from the files of finished experiments alone:

    python -m poela.experiments.reproduction [--results docs/results] [--out docs/reproduction.md]
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from poela.core.storage import atomic_file
from poela.experiments.comparison import AGREES, COLUMNS, STANDARD_ERRORS
from poela.experiments.published.counterexamples import COUNTEREXAMPLES
from poela.experiments.published.tables import PUBLISHED
from poela.experiments.results import shown

HEAD = f"""# The paper, reproduced

Made from the files in [results](results) by `python -m poela.experiments.reproduction`; do not edit by hand.

Every number of ours stands beside the paper's. Two numbers agree when they lie within {STANDARD_ERRORS:g} standard
errors of their difference, and nothing is said where we have no standard error. A number that does not reproduce is a
finding: nothing was tuned on the truth. Where our methods differ from the paper's or from its authors' code is listed
in [deviations](deviations.md).
"""

Row = dict[str, Any]


@dataclass(frozen=True)
class StoredComparison:
    """The rows of one comparison, and where they come from."""

    file: str
    title: str
    command: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def label(self) -> str:
        """The paper's table."""
        return str(self.rows[0]["table"])

    def judged(self, verdict: str) -> list[Row]:
        """Rows that agree ("yes"), that do not ("no"), or of which nothing is said ("")."""
        return [row for row in self.rows if row["paper"] is not None and row[AGREES] == verdict]


def stored_comparisons(results: Path) -> list[StoredComparison]:
    """All comparisons among the Parquet files of a directory, in the order of the paper's tables."""
    import pyarrow.parquet as pq

    found = []
    for path in sorted(results.glob("*.parquet")):
        table = pq.read_table(path)
        if not {*COLUMNS, AGREES} <= set(table.column_names):
            continue
        about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        notes = tuple(about["notes"].splitlines())
        found.append(StoredComparison(path.name, about["title"], about["command"], notes, tuple(table.to_pylist())))
    order = list(PUBLISHED)
    return sorted(found, key=lambda comparison: order.index(comparison.label))


def reproduction_page(results: Path) -> str:
    """The whole page as Markdown."""
    comparisons = stored_comparisons(results)
    sections = [_section(comparison, results) for comparison in comparisons]
    return "\n".join([HEAD, *_summary(comparisons), *sections])


def _summary(comparisons: Sequence[StoredComparison]) -> Iterator[str]:
    by_label = {comparison.label: comparison for comparison in comparisons}
    yield "| the paper's table | its numbers | set beside ours | agree | do not | not judged |"
    yield "|---|---|---|---|---|---|"
    for label, paper in PUBLISHED.items():
        name = f"{paper.title} (`{label}`)"
        if label not in by_label:
            yield f"| {name} | {len(paper.numbers)} | none: no stored result | | | |"
            continue
        agree, differ, open_ = (by_label[label].judged(verdict) for verdict in ("yes", "no", ""))
        both = len(agree) + len(differ) + len(open_)
        yield f"| {name} | {len(paper.numbers)} | {both} | {len(agree)} | {len(differ)} | {len(open_)} |"
    yield ""


def _section(comparison: StoredComparison, results: Path) -> str:
    contexts = any(row["contexts"] for row in comparison.rows)
    head = [*(["contexts"] if contexts else []), "learner", "quantity", "paper", "ours", "difference", "agrees"]
    lines = [f"## {comparison.title}", "", *_words(comparison), ""]
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in comparison.rows:
        cells = [row["contexts"]] if contexts else []
        cells += [row["learner"], row["quantity"]]
        cells += [_with_error(row[name], row[f"± {name}"]) for name in ("paper", "ours", "difference")]
        lines.append(f"| {' | '.join([*cells, row[AGREES]])} |")
    name = comparison.file.removesuffix(".parquet").rsplit("-", 1)[0]
    lines += ["", *(f"{note}.  " for note in comparison.notes)]
    lines += [f"Command: `{comparison.command}`. All tables of this experiment: [{name}](results/{name}.md)."]
    if (results / f"{name}.svg").exists():
        lines += ["", f"![{comparison.title}](results/{name}.svg)"]
    return "\n".join([*lines, ""])


def _with_error(value: float | None, error: float | None) -> str:
    if error is not None:
        return f"{shown(value)} ± {shown(error)}"
    return f"{value:g}" if value is not None and value.is_integer() else shown(value)


def _words(comparison: StoredComparison) -> Iterator[str]:
    """What agrees and what does not, in words."""
    if comparison.label == COUNTEREXAMPLES.label:
        yield from _growth(comparison.rows)
        return
    agree, differ = comparison.judged("yes"), comparison.judged("no")
    if agree:
        yield f"Agree: {'; '.join(_named(row) for row in agree)}."
    if differ:
        yield f"Do not agree: {'; '.join(f'{_named(row)} ({_apart(row)})' for row in differ)}."
    if not agree and not differ:
        yield "Nothing can be judged: our numbers have no standard errors."


def _named(row: Row) -> str:
    return ", ".join(part for part in (row["learner"], row["quantity"], row["contexts"]) if part)


def _apart(row: Row) -> str:
    return f"ours {shown(abs(row['difference']))} {'higher' if row['difference'] > 0 else 'lower'}"


def _growth(rows: Sequence[Row]) -> Iterator[str]:
    """How the number of episodes needed grows with H, for each method."""
    for method in dict.fromkeys(row["learner"] for row in rows):
        ours = [row["ours"] for row in rows if row["learner"] == method]
        paper = [row["paper"] for row in rows if row["learner"] == method]
        least = min((after / before for before, after in pairwise(ours)), default=1.0)
        if max(ours) <= ours[0]:
            yield f"{method}: no more episodes as H grows ({ours[0]:g}; paper {paper[0]:g}).  "
        else:
            yield (
                f"{method}: from {ours[0]:g} to {ours[-1]:g} episodes (paper {paper[0]:g} to {paper[-1]:g}), "
                f"at least {least:g} times as many with each step of H.  "
            )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Write the page that sets every stored result beside the paper.")
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction.md"))
    options = parser.parse_args()
    with atomic_file(options.out) as temporary:
        temporary.write_text(reproduction_page(options.results), encoding="utf-8")


if __name__ == "__main__":
    main()
