"""`poela decide`: a decision for each row of a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poela.cli import columns

if TYPE_CHECKING:
    from poela.serving.decide import Decided


Case = Annotated[
    str | None,
    typer.Option(
        help="Column with the id of each case; random draws depend on it. "
        "Default: the episode column, or one called case; else the row number."
    ),
]
Likeliest = Annotated[
    bool,
    typer.Option(
        "--likeliest",
        help="Give the likeliest action instead of drawing one. This is another policy, with its own gain.",
    ),
]

ReceiptsFolder = Annotated[
    Path | None,
    typer.Option(
        "--receipts", help="Folder to append what was decided to, for poela watch and the next log. Cases need names."
    ),
]


def decide(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    rows: Annotated[Path, typer.Option(help="Table with one row for each decision: .parquet, .csv or .arrow.")],
    out: Annotated[str, typer.Option(help="File to write: .csv or .parquet.")],
    case: Case = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed for the draws. Default: the policy's own, so that they are reproducible."),
    ] = None,
    likeliest: Likeliest = False,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="Allow --likeliest even if no gain is shown for it.")
    ] = False,
    keep: Annotated[str | None, typer.Option(help="Other columns of the table to keep, separated by commas.")] = None,
    receipts: ReceiptsFolder = None,
    similar: Annotated[
        bool,
        typer.Option("--similar/--no-similar", help="Add the number of similar logged cases and their mean outcome."),
    ] = True,
    separator: columns.Separator = None,
    decimal: columns.Decimal = None,
    encoding: columns.Encoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide about new cases: an action for each row, drawn as the policy was judged, with every action's probability.

    Columns are matched by name and read like those of the log. If the policy uses earlier decisions, the table must
    hold all rows of each episode so far. The same file gives the same decisions: draws depend only on the policy, the
    case and its step. "defer" marks cases unlike any logged case. Add outcomes, and the file is the next log:
    `poela learn` finds its propensities by name.

    Example: poela decide study/ --rows new.csv --out decisions.csv
    """
    from poela.cli.columns import layout_of
    from poela.cli.output import print_json, say
    from poela.core.options import names_in
    from poela.core.paths import place
    from poela.core.typed import to_plain
    from poela.policies.deciding import Deciding
    from poela.serving.decide import decide_file
    from poela.serving.source import open_policy
    from poela.studies.records import refuse_unshown

    described = layout_of(None, separator=separator, decimal=decimal, encoding=encoding)
    source = open_policy(study)
    if likeliest and not unproven:
        refuse_unshown(source.likeliest, "--unproven")
    how = Deciding(seed, similar, names_in(keep or ""), source.outcomes, case=case, likeliest=likeliest)
    decided = decide_file(source.policy, rows, out, how, described, overwrite, receipts)
    worth = {"likeliest": to_plain(source.likeliest)} if likeliest else {}
    if json:
        print_json({"decisions": str(out), **decided.to_json(), **worth})
        return
    say(str(decided), bold=True)
    known = source.likeliest or "its gain was not judged"
    written = [f"The decisions are in {out}."]
    written += [] if receipts is None else [f"Receipts are in {place(receipts)}: poela watch joins them with outcomes."]
    for line in (*_about(decided, str(known) if likeliest else None), *written):
        say(line)


def _about(decided: "Decided", likeliest: str | None) -> list[str]:
    """What is to be known of the decisions; `likeliest`: what likeliest actions are worth, where these are given."""
    lines = []
    if decided.noted:
        have = "row has" if decided.noted == 1 else "rows have"
        lines.append(f"{decided.noted:,} {have} a note: missing values, new categories, or unlike any logged case.")
    if likeliest is not None:
        lines.append(f"These are the likeliest actions, which is a different policy: {likeliest}.")
    else:
        lines.append(
            "Actions are drawn at random by their probabilities, as the policy was judged; the same file gives the "
            "same actions."
        )
        if decided.numbered:
            lines.append("Draws depend on the row number. If there is a column with case ids, name it with --case.")
    return lines
