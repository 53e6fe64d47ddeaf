"""`poela report`: one page about a study, or about several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poela.core.options import names_in

if TYPE_CHECKING:
    from poela.report.page import Page, PageOptions


Studies = Annotated[list[Path], typer.Argument(help="Directory of a study; of two or more with --compare.")]
Logs = Annotated[
    Path | None,
    typer.Option(help="The log that the study was learned from. Without it, some details are missing."),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        help="Show gains by group: columns, separated by commas; age:3 makes three quantile bins, step groups "
        "decisions by time. May be repeated."
    ),
]
Trajectory = Annotated[
    int | None,
    typer.Option(help="Show one case step by step: its number, from 0 (may be personal data). Default: none."),
]
ShowValues = Annotated[
    bool,
    typer.Option("--show-values", help="Show feature values of the cases that change most (may be personal data)."),
]
SmallestGroup = Annotated[
    int | None,
    typer.Option(min=1, help="Hide or merge groups of fewer cases, for privacy. Default: as in the study, or 10."),
]
Title = Annotated[str | None, typer.Option(help="Title of the page. Default: the name of the log file.")]
Brief = Annotated[bool, typer.Option("--brief", help="Only the first screen, as one A4 page for printing.")]
PerYear = Annotated[int | None, typer.Option(help="Cases per year, to report how many decisions would change.")]
Compare = Annotated[bool, typer.Option("--compare", help="Compare several studies on one page.")]
Watch = Annotated[int | None, typer.Option(help="Rewrite the page every N seconds while the study runs.")]


def report(
    studies: Studies,
    out: Annotated[str, typer.Option(help="File to write.")] = "report.html",
    logs: Logs = None,
    by: By = None,
    trajectory: Trajectory = None,
    show_values: ShowValues = False,
    smallest_group: SmallestGroup = None,
    title: Title = None,
    brief: Brief = False,
    per_year: PerYear = None,
    compare: Compare = False,
    watch: Watch = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file even if it is not a page of ours.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write one page for decision makers: what changes, for whom, how sure that is, and what could go wrong.

    Technical details are folded below. The page works offline, prints well, and shows no single case unless asked
    to.

    Example: poela report study/ --logs logs.parquet --out report.html

    One A4 page for a meeting: poela report study/ --logs logs.parquet --brief --out brief.html

    Two studies side by side: poela report --compare study/ other/
    """
    from poela.report.page import PageOptions, page_place

    options = PageOptions(columns_in(by), show_values, trajectory, title, watch, brief, per_year, smallest_group)
    _refuse(studies, logs, options, compare=compare)
    page_place(out, overwrite=overwrite)  # refused before any work
    if compare:
        page = _comparison(studies)
    else:
        page = _watched(studies[0], logs, options, out, overwrite) if watch else _page(studies[0], logs, options)
    _write(page, out, overwrite, json)


def _refuse(studies: list[Path], logs: Path | None, options: "PageOptions", *, compare: bool) -> None:
    """Refuse flags that do not go together, or make no sense."""
    from poela.core.errors import InputError

    if not compare and len(studies) > 1:
        raise InputError(f"{len(studies)} studies are named: add --compare to set them side by side, or name one")
    of_one = {
        "--logs": logs is not None,
        "--by": bool(options.by),
        "--trajectory": options.trajectory is not None,
        "--title": options.title is not None,
        "--watch": options.refresh is not None,
        "--show-values": options.show_values,
        "--brief": options.brief,
        "--per-year": options.per_year is not None,
        "--smallest-group": options.smallest_group is not None,
    }
    unused = [flag for flag, said in of_one.items() if said]
    if compare and unused:
        raise InputError(f"{' and '.join(unused)} do not go with --compare: leave them out")
    if options.refresh is not None and options.refresh < 1:
        raise InputError(f"--watch {options.refresh} must be 1 second or more")
    if options.per_year is not None and options.per_year < 1:
        raise InputError(f"--per-year {options.per_year} must be 1 case or more")


def columns_in(texts: list[str] | None) -> tuple[str, ...]:
    """Columns from flags that may be repeated, each with names separated by commas.

    >>> columns_in(["ward,age:3", "site"]), columns_in(None)
    (('ward', 'age:3', 'site'), ())
    """
    return tuple(name for text in texts or () for name in names_in(text))


def _page(directory: Path, logs: Path | None, options: "PageOptions") -> "Page":
    from poela.report.page import study_page
    from poela.studies.study import Study

    return study_page(Study.open(directory), logs, options)


def _comparison(directories: list[Path]) -> "Page":
    from poela.report.compare import comparison_page
    from poela.studies.study import Study

    return comparison_page([Study.open(directory) for directory in directories])


def _watched(directory: Path, logs: Path | None, options: "PageOptions", out: str, overwrite: bool) -> "Page":
    """Write the page again and again while the study goes on; the last one is for the caller to write."""
    import time

    from poela.report.page import study_page, write_page
    from poela.studies.study import Study

    while (study := Study.open(directory)).result is None:
        write_page(study_page(study, None, options), out, overwrite=overwrite)
        time.sleep(options.refresh or 1)
    return study_page(study, logs, options)


def _write(page: "Page", out: str, overwrite: bool, as_json: bool) -> None:
    from poela.cli.output import print_json, say
    from poela.core.paths import place
    from poela.data.words import counted
    from poela.report.page import write_page

    path = write_page(page, out, overwrite=overwrite)
    size = path.stat().st_size
    if as_json:
        print_json({"page": str(path), "bytes": size, "sections": [section.title for section in page.sections]})
    else:
        say(f"{place(path)}: {counted(len(page.sections), 'section')}, {size / 1e6:.2f} MB. Open it in any browser.")
