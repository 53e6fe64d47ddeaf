"""The page that answers what of the paper reproduces, and a page for each experiment, from the stored results alone.

    python -m poela_experiments.pages.reproduction [--results docs/results] [--out docs/reproduction.md]

The sentences are in `answer.md` beside this file; the figures in them, and the tables, come from the results.
"""

import argparse
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from poela.core.files import atomic_file
from poela_experiments import counterexamples, sepsis
from poela_experiments.frame.judging import AGREES, VAGUE
from poela_experiments.frame.published import EXPERIMENTS, PUBLISHED, PublishedTable
from poela_experiments.frame.results import Report, ResultTable, markdown_rows, title_of
from poela_experiments.order import order_rows
from poela_experiments.pages.paper_items import item_rows
from poela_experiments.pages.stored import about, is_regenerated, stored_report

PICTURES = {"counterexamples": counterexamples.pictures, "sepsis": sepsis.pictures}
OWN = ("tumor-order", "values", "behavior", "coverage")  # experiments beside which the paper has no table
ROBOTS, ROBOTS_NUMBERS = "mujoco", 24  # whose table stands beside ours as a whole
OTHER_DATA = {
    "sepsis": "other data: a simulator with a known truth, not MIMIC-III",
    "cartpole": "other data: the paper's logs are not public",
}
VERDICTS = ("yes", VAGUE, "no", "")
Results = Mapping[str, Report]


def stored_reports(results: Path) -> dict[str, Report]:
    """By the names of the experiments."""
    found = {name: stored_report(results, name) for name in (*EXPERIMENTS, ROBOTS, *OWN)}
    return {name: report for name, report in found.items() if report.tables}


def reproduction_page(results: Path) -> str:
    """The whole page as Markdown."""
    found = stored_reports(results)
    template = files("poela_experiments").joinpath("pages", "answer.md").read_text(encoding="utf-8")
    rows = [*summary_rows(found, results)]
    head = ("the paper's table", "here", "agree", "too vague", "do not", "not judged", "why")
    numbered = ("the paper's", "shows", "ours", "command", "state", "judgement")
    made = {name: is_regenerated(results, name) for name in found}
    tables = {"summary": markdown_rows(head, rows), "items": markdown_rows(numbered, [*item_rows(found, made)])}
    blocks = {name: "\n".join(lines) for name, lines in tables.items()}
    return template.format_map({**facts(found), **blocks, "others": _others(found, results)})


def summary_rows(found: Results, results: Path) -> Iterator[list[str]]:
    """One row for each table of the paper; tables of which the same is said share one."""
    shared: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for (experiment, key), paper in PUBLISHED.items():
        table = _table(found, experiment, key)
        counts = {word: 0 if table is None else _count(table, word) for word in VERDICTS}
        word = "no result" if table is None else _word(counts)
        why = "not run" if table is None else _why(experiment, paper, counts, is_regenerated(results, experiment))
        apart = key if counts["yes"] + counts[VAGUE] + counts["no"] else ""
        unjudged = len(paper.numbers) if table is None else counts[""]
        said = (experiment, apart, word, str(counts["yes"]), str(counts[VAGUE]), str(counts["no"]), why)
        shared.setdefault(said, []).append((paper.title, unjudged))
    for (experiment, _, word, agree, vague, differ, why), tables in shared.items():
        titles = [title for title, _ in tables]
        title = titles[0] if len(titles) == 1 else f"{title_of(experiment)}: {len(titles)} tables"
        numbers = str(sum(number for _, number in tables))
        yield [f"[{title}](results/{experiment}.md)", word, agree, vague, differ, numbers, why]
    title = f"[{title_of(ROBOTS)}](results/{ROBOTS}.md)" if ROBOTS in found else title_of(ROBOTS)
    yield [
        title,
        "cannot be compared here",
        "0",
        "0",
        "0",
        str(ROBOTS_NUMBERS),
        "other data: stands beside, not judged",
    ]


def _table(found: Results, experiment: str, key: str) -> ResultTable | None:
    tables = found[experiment].tables if experiment in found else ()
    return next((table for table in tables if table.key == key and table.compares), None)


def _count(table: ResultTable, word: str) -> int:
    return sum(row["paper"] is not None and row[AGREES] == word for row in table.rows)


def _word(counts: Mapping[str, int]) -> str:
    if not counts["yes"] + counts[VAGUE] + counts["no"]:
        return "cannot be compared here"
    if not counts["yes"]:
        return "does not reproduce" if counts["no"] else "too vague to tell"
    return "reproduces in part" if counts["no"] or counts[VAGUE] else "reproduces"


def _why(experiment: str, paper: PublishedTable, counts: Mapping[str, int], regenerated: bool) -> str:
    reasons = [OTHER_DATA[experiment]] if experiment in OTHER_DATA else []
    if not regenerated:
        reasons.append("stored from an earlier version, not regenerated")
    if not reasons and counts[""]:
        reasons.append("the paper gives no error" if paper.judged else "other data")
    return "; ".join(reasons)


def _others(found: Results, results: Path) -> str:
    """Experiments that stand beside no table of the paper."""
    ours = [name for name in found if name in OWN]
    words = {True: "", False: " (of an earlier version)"}
    return ", ".join(f"[{title_of(name)}](results/{name}.md){words[is_regenerated(results, name)]}" for name in ours)


def facts(found: Results) -> dict[str, Any]:
    """The figures that the sentences of the page have, each by its name."""
    counts = {"yes": 0, VAGUE: 0, "no": 0, "": ROBOTS_NUMBERS if ROBOTS in found else 0}
    for experiment, key in PUBLISHED:
        table = _table(found, experiment, key)
        for word in counts if table is not None else ():
            counts[word] += _count(table, word)  # type: ignore[arg-type]
    given: dict[str, Any] = {"agree": counts["yes"], "differ": counts["no"], "unjudged": counts[""]}
    given["vague"] = counts[VAGUE]
    given["published"] = sum(counts.values())
    needed = _table(found, "counterexamples", "needed")
    if needed is not None:
        given |= {"counts": _count(needed, "yes"), "of_counts": sum(map(bool, (row["paper"] for row in needed.rows)))}
    given["poela_apart"] = _apart(found)
    for key in ("main", "checkpoint", "bcrnn-checkpoint", "weights", "weights-markov"):
        for row in () if (table := _table(found, "tumor", key)) is None else table.rows:
            name = "_".join((str(row["learner"]), str(row["contexts"]), str(row["quantity"])))
            given[_name(f"{key}_{name}")] = _number(row["ours"], row["± ours"])
    for of, row in _orders(found):
        start = f"{of}_{row['contexts']}_{row['behavior']}_{row['protocol']}_{row['POELA less']}"
        given[_name(start)] = _number(row["difference"], row["its error"])
        given |= {_name(f"{start}_{column}"): _number(value, None) for column, value in row.items()}
    return given


def _apart(found: Results) -> int:
    """How often POELA's tumor numbers do not agree where contexts are not Markov."""
    rows = [row for table in found["tumor"].tables if table.compares for row in table.rows] if "tumor" in found else []
    return sum(row[AGREES] == "no" and row["learner"] == "POELA" and row["contexts"] != "Markov" for row in rows)


def _orders(found: Results) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """POELA beside others: with equal care ("order"), and with the paper's grids ("grids")."""
    tables = {name: {one.key: one for one in found[name].tables} for name in ("tumor-order", "tumor") if name in found}
    if (order := tables.get("tumor-order", {}).get("order")) is not None:
        yield from (("order", row) for row in order.rows)
    if (each := tables.get("tumor", {}).get("data-sets")) is not None and "contexts" in each.columns:
        yield from (("grids", row) for row in order_rows(each.rows))


def _name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text.lower())


def _number(value: Any, error: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    digits = 3 if abs(value) < 1 else 2 if error is not None and error < 0.05 else 1
    return f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def write_pages(results: Path, out: Path) -> None:
    """The page, and those of all experiments with their pictures."""
    for name, report in stored_reports(results).items():
        if name in PICTURES:
            PICTURES[name](results, {table.key: table for table in report.tables})
        report.write_page(results, about(results, name))
    with atomic_file(out) as temporary:
        temporary.write_text(reproduction_page(results), encoding="utf-8")


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description="Write the pages that set every stored result beside the paper.")
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction.md"))
    options = parser.parse_args()
    write_pages(options.results, options.out)


if __name__ == "__main__":
    main()
