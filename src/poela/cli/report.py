"""`poela report`: one page about a study, or about several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from poela.report.page import Page, PageOptions


def report(
    studies: Annotated[list[Path], typer.Argument(help="Directory of a study; of two or more with --compare.")],
    out: Annotated[str, typer.Option(help="The page to write.")] = "report.html",
    logs: Annotated[
        Path | None,
        typer.Option(help="The logs that the study was learned from. Without them, sections about cases stay empty."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A feature (or: step) that tells groups of cases apart. May be repeated."),
    ] = None,
    trajectory: Annotated[
        int | None, typer.Option(help="Which episode to follow step by step, from 0. Default: a telling one.")
    ] = None,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Show what was known in the cases that change most. They may be personal."),
    ] = False,
    title: Annotated[str | None, typer.Option(help="Of the page. Default: the name of the study.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="One page that sets studies side by side.")] = False,
    watch: Annotated[
        int | None, typer.Option(help="While the study runs, write the page again every so many seconds.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file whatever it is.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write one page that says what a study found, for whom it matters, and how far it can be believed.

    The page needs no network, can be printed and mailed, and shows no values of features unless asked to.

    Example: poela report study/ --logs logs.parquet --out report.html

    Two studies side by side: poela report --compare study/ other/
    """
    from poela.core.errors import InputError
    from poela.report.page import PageOptions, page_place

    if not compare and len(studies) > 1:
        raise InputError(f"{len(studies)} studies are named: add --compare to set them side by side, or name one")
    for_other_uses = {
        "--logs": logs,
        "--by": by,
        "--trajectory": trajectory,
        "--title": title,
        "--watch": watch,
        "--show-values": show_values or None,
    }
    unused = [flag for flag, value in for_other_uses.items() if value is not None]
    if compare and unused:
        raise InputError(f"{' and '.join(unused)} do not go with --compare: leave them out")
    if watch is not None and watch < 1:
        raise InputError(f"--watch {watch} must be 1 second or more")
    page_place(out, overwrite=overwrite)  # refused before any work
    options = PageOptions(tuple(by or ()), show_values, trajectory, title, watch)
    if compare:
        page = _comparison(studies)
    else:
        page = _watched(studies[0], logs, options, out, overwrite) if watch else _page(studies[0], logs, options)
    _write(page, out, overwrite, json)


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
    from poela.report.page import write_page

    path = write_page(page, out, overwrite=overwrite)
    size = path.stat().st_size
    if as_json:
        print_json({"page": str(path), "bytes": size, "sections": [section.title for section in page.sections]})
    else:
        say(f"{place(path)}: {len(page.sections)} sections, {size / 1e6:.2f} MB. Open it in any browser.")
