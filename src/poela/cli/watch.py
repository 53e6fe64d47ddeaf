"""`poela watch`: a study's policy while it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

STOP = 3  # the exit code where something must stop

Logs = Annotated[
    Path | None, typer.Option(help="Cases decided by the policy, with outcomes: .parquet, .csv or .arrow.")
]
ReceiptsFolder = Annotated[
    Path | None, typer.Option("--receipts", help="Instead of --logs: folder of receipts written by decide or serve.")
]
Outcomes = Annotated[Path | None, typer.Option(help="With --receipts: table of cases and their outcomes.")]
Done = Annotated[
    str | None, typer.Option(help="Column with the action actually taken, if people may overrule the policy.")
]
Ended = Annotated[
    str | None, typer.Option(help="Column with the time when a case ended. Default: the order of the file.")
]
Before = Annotated[
    Path | None, typer.Option(help="The logs that the study was learned from, to measure drift against.")
]
BesideIt = Annotated[
    Path | None,
    typer.Option(
        "--beside", help="Concurrent cases of current practice, assigned at random (controls): compare with these."
    ),
]
Practice = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a policy that knows the old practice's probabilities: compare with it on the new cases."
    ),
]
Looks = Annotated[
    int | None,
    typer.Option(help="Number of planned looks (interim analyses), instead of bounds that hold at every look."),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="sequence: valid at every look; exact: the same for bounded returns, without normal theory; "
        "obrien-fleming or pocock: for planned looks. Default: sequence, or obrien-fleming with --looks."
    ),
]
Page = Annotated[str | None, typer.Option(help="Also write a page with a picture over time.")]


def watch(
    study: Annotated[Path, typer.Argument(help="Directory of the study whose policy runs.")],
    *,
    logs: Logs = None,
    receipts: ReceiptsFolder = None,
    outcomes: Outcomes = None,
    done: Done = None,
    ended: Ended = None,
    before: Before = None,
    beside: BesideIt = None,
    practice: Practice = None,
    looks: Looks = None,
    method: Method = None,
    level: Annotated[float | None, typer.Option(help="Confidence over all looks together. Default: 0.95.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Expected number of cases, roughly. Default: 1000.")] = None,
    page: Page = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Watch a policy that is in use: is it better than before, does it harm, has anything changed?

    Looks are counted in the study's folder, and bounds hold for all of them together. Exit code 3: harm is shown, or
    something has drifted beyond its error level. Cases count in the order in which they end.

    Example: poela watch study/ --receipts receipts/ --outcomes outcomes.csv --page watch.html
    """
    from poela.cli.output import print_json, say
    from poela.core.errors import InputError
    from poela.policies.storage import load_policy
    from poela.report.page import page_place
    from poela.report.watching import watch_page
    from poela.rounds.looks import DESIGNS
    from poela.rounds.watch import watch as look
    from poela.studies.splits import checked_parts
    from poela.studies.study import Study

    cases = logs or receipts
    if cases is None or (logs is not None and receipts is not None):
        raise InputError("name the new cases with --logs, or with --receipts and --outcomes")
    if page is not None:
        page_place(page, overwrite=False)
    opened = Study.open(study)
    method = DESIGNS[0] if looks is not None and method is None else method
    taught = None if before is None else checked_parts(opened, before)[0]
    old: Any = {"beside": beside, "practice": None if practice is None else load_policy(practice), "before": taught}
    plan: Any = {"method": method, "level": level, "looks": looks, "horizon": horizon}
    watched = look(opened, cases, outcomes=outcomes, done=done, ended=ended, **old, **plan)
    if page is not None:
        watch_page(opened, watched, page)
    if json:
        print_json(watched.to_dict())
    else:
        for number, line in enumerate(str(watched).split("\n")):
            say(line, bold=number == 0)
    if watched.stop:
        raise typer.Exit(STOP)
