"""The page that sets every stored result beside the paper: what agrees, what does not, what has not been run.

It is made from the files of finished experiments alone:

    python -m poela_experiments.pages.reproduction [--results docs/results] [--out docs/reproduction.md]
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from poela.core.files import atomic_file
from poela_experiments.counterexamples import NEEDED
from poela_experiments.frame.judging import AGREES, COLUMNS, STANDARD_ERRORS
from poela_experiments.frame.published import BOUND_IN_ERRORS, PUBLISHED
from poela_experiments.frame.results import ResultTable, markdown_rows, shown
from poela_experiments.pages.order import order_section, orders
from poela_experiments.pages.stored import Row, Stored, stored_tables
from poela_experiments.sepsis_beside import FROM_LOGGING, MISLEADS, closing

HEAD = f"""# The paper, reproduced

Made from the files in [results](results) by `python -m poela_experiments.pages.reproduction`; do not edit by hand.

Every number of ours stands beside the paper's. Two numbers agree when they lie within {STANDARD_ERRORS:g} standard
errors of their difference. Where the paper prints 5% and 95% bounds in place of an error, its standard error is their
distance divided by {2 * BOUND_IN_ERRORS:g}, as for a normal estimate. Where one of the two numbers has no error,
nothing is judged; counts agree where they are equal.

A number that does not reproduce is a finding. Policies are chosen by their estimates on validation logs, never by their
truth; what was decided after truths of other logs had been seen is listed under "Disclosed" in
[deviations](deviations.md#disclosed). The same page lists where our methods differ from the paper's or from its
authors' code.
"""
# Where deviations.md says what was found in an experiment, and why.
FINDINGS = {
    "tumor": "tumor",
    "tumor-weights": "tumor",
    "sepsis": "sepsis",
    "cartpole": "cartpole",
    "counterexamples": "counter-examples",
}


def judged(rows: Sequence[Row], verdict: str) -> list[Row]:
    """Rows that agree ("yes"), that do not ("no"), or of which nothing is said ("")."""
    return [row for row in rows if row["paper"] is not None and row[AGREES] == verdict]


def _rows_by_label(comparisons: Sequence[Stored]) -> dict[str, tuple[Row, ...]]:
    """By the paper's tables; two experiments may have rows of one table."""
    found: dict[str, tuple[Row, ...]] = {}
    for comparison in comparisons:
        found[comparison.label] = found.get(comparison.label, ()) + comparison.rows
    return found


def stored_comparisons(results: Path) -> list[Stored]:
    """All comparisons with the paper, in the order of its tables."""
    order = list(PUBLISHED)
    found = [table for table in stored_tables(results, {*COLUMNS, AGREES}) if table.rows]
    return sorted(found, key=lambda comparison: order.index(comparison.label))


def reproduction_page(results: Path) -> str:
    """The whole page as Markdown."""
    comparisons = stored_comparisons(results)
    sections = [_section(comparison, results) for comparison in comparisons]
    parts = (_summary(comparisons), _not_run(comparisons), _order(comparisons, results), _verdicts(results))
    return "\n".join([HEAD, *(line for part in parts for line in part), *sections])


def _not_run(comparisons: Sequence[Stored]) -> Iterator[str]:
    """What of the paper's tables has no number of ours: whole tables, and learners within them."""
    yield "## What has no number of ours"
    yield ""
    by_label = _rows_by_label(comparisons)
    found = False
    for label, paper in PUBLISHED.items():
        if label not in by_label:
            found = True
            yield f"- {paper.title} (`{label}`): nothing of it."
            continue
        ours = {(row["contexts"], row["learner"]) for row in by_label[label]}
        missing = [key for key in dict.fromkeys((n.contexts, n.learner) for n in paper.numbers) if key not in ours]
        if missing:
            names = "; ".join(", ".join(filter(None, (learner, contexts))) for contexts, learner in missing)
            found = True
            yield f"- {paper.title} (`{label}`): {names}."
    if not found:
        yield "Nothing: every learner of every table has one."
    yield ""


def _order(comparisons: Sequence[Stored], results: Path) -> Iterator[str]:
    details: dict[str, tuple[Row, ...]] = {}
    for table in stored_tables(results, {"contexts", "behavior", "protocol", "learner", "data set"}):
        details[table.experiment] = details.get(table.experiment, ()) + table.rows
    found = [
        order for comparison in comparisons for order in orders(comparison.rows, details.get(comparison.experiment, ()))
    ]
    return order_section(found) if found else iter(())


def _verdicts(results: Path) -> Iterator[str]:
    """Which sepsis learners lose while their estimate looks fine, and whether the verdict says so."""
    stored = stored_tables(results, {MISLEADS, FROM_LOGGING})
    tables = [ResultTable(table.name, table.title, table.rows, table.command) for table in stored]
    if tables:
        yield "## Sepsis: does the verdict catch what estimates hide?"
        yield ""
        yield from (f"{line}  " for line in closing(tables).splitlines())
        yield "Each learner beside the clinicians, and what a default study hands back: [sepsis](results/sepsis.md)."
        yield ""


def _summary(comparisons: Sequence[Stored]) -> Iterator[str]:
    by_label = _rows_by_label(comparisons)
    head = ("the paper's table", "its numbers", "set beside ours", "agree", "do not", "not judged")
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for label, paper in PUBLISHED.items():
        start = f"| {paper.title} (`{label}`) | {len(paper.numbers)} |"
        if label not in by_label:
            yield f"{start} none: no stored result | | | |"
            continue
        rows = _each_once(by_label[label])
        counts = [len(judged(rows, verdict)) for verdict in ("yes", "no", "")]
        yield f"{start} {sum(counts)} | {' | '.join(map(str, counts))} |"
    yield ""


def _each_once(rows: Sequence[Row]) -> list[Row]:
    """The first row of each number, where two stored tables have it."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        found.setdefault((row["contexts"], row["learner"], row["quantity"]), row)
    return list(found.values())


def _section(comparison: Stored, results: Path) -> str:
    contexts = ["contexts"] if any(row["contexts"] for row in comparison.rows) else []
    head = [*contexts, "learner", "quantity", "paper", "ours", "difference", "agrees"]
    lines = [f"## {comparison.title}", "", *_words(comparison), ""]
    numbers = ("paper", "ours", "difference")
    lines += markdown_rows(
        head,
        (
            [_with_error(row[name], row[f"± {name}"]) if name in numbers else row[name] for name in head]
            for row in comparison.rows
        ),
    )
    name, picture = comparison.experiment, f"{comparison.name}.svg"
    lines += ["", *(f"{note}.  " for note in comparison.notes)]
    lines += [
        f"Command: `{comparison.command}`. All tables of this experiment: [{name}](results/{name}.md).{_why(name)}"
    ]
    if (results / picture).exists():
        lines += ["", f"![{comparison.title}](results/{picture})"]
    return "\n".join([*lines, ""])


def _why(experiment: str) -> str:
    place = FINDINGS.get(experiment)
    return f" What was found, and why: [findings](deviations.md#{place})." if place else ""


def _with_error(value: float | None, error: float | None) -> str:
    if error:  # neither missing nor that of a count
        return f"{shown(value)} ± {shown(error)}"
    return f"{value:g}" if value is not None and value.is_integer() else shown(value)


def _words(comparison: Stored) -> Iterator[str]:
    """What agrees and what does not, in words."""
    if comparison.label == NEEDED.label:
        yield from _growth(comparison.rows)
        return
    agree, differ = judged(comparison.rows, "yes"), judged(comparison.rows, "no")
    if agree:
        yield f"Agree: {'; '.join(_named(row) for row in agree)}."
    if differ:
        yield f"Do not agree: {'; '.join(f'{_named(row)} ({_apart(row)})' for row in differ)}."
    unjudged = Counter(_reason(row) for row in judged(comparison.rows, ""))
    if unjudged:
        start = "Not judged" if agree or differ else "Nothing can be judged"
        yield f"{start}: {'; '.join(f'{count} {reason}' for reason, count in unjudged.items())}."


def _reason(row: Row) -> str:
    """Why nothing is said of a number that the paper has too."""
    missing = [whose for whose, name in (("ours", "± ours"), ("the paper's", "± paper")) if row[name] is None]
    if missing:
        return f"without an error ({' and '.join(missing)})"
    return "of policies that the paper's protocol would not choose (see the notes)"


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
