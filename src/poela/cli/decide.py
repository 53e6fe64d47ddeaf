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
        help="Column that names each case, by which its action is drawn. "
        "Default: the episode's, or one called case; else the row number."
    ),
]
Likeliest = Annotated[
    bool, typer.Option("--likeliest", help="Hand out the likeliest action: another policy, with a gain of its own.")
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
        int | None, typer.Option(help="Draw with this seed. Default: the policy's own, so that draws can be repeated.")
    ] = None,
    likeliest: Likeliest = False,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="With --likeliest: do so even if nothing is shown for it.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option(help="More columns of the table to keep beside the case and its context, with commas.")
    ] = None,
    receipts: ReceiptsFolder = None,
    similar: Annotated[
        bool, typer.Option("--similar/--no-similar", help="Count similar logged cases, and tell what came of them.")
    ] = True,
    separator: columns.Separator = None,
    decimal: columns.Decimal = None,
    encoding: columns.Encoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide about new cases as it was judged: an action drawn for each row, with the probability of every action.

    Columns are found by name, and read as those of the log were. Where the policy looks at earlier decisions, the table
    holds the rows of each episode so far. The same file gives the same decisions: a draw depends on the policy, the
    case and its step alone. "defer" marks cases like which none was logged. With outcomes added, the file is the next
    log: `poela learn` finds its propensities by name.

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
    known = source.likeliest or "what it is worth was not judged"
    written = [f"The decisions are in {out}."]
    written += [] if receipts is None else [f"Receipts are in {place(receipts)}: poela watch joins them with outcomes."]
    for line in (*_about(decided, str(known) if likeliest else None), *written):
        say(line)


def _about(decided: "Decided", likeliest: str | None) -> list[str]:
    """What is to be known of the decisions; `likeliest`: what likeliest actions are worth, where these are given."""
    lines = []
    if decided.noted:
        have = "row has" if decided.noted == 1 else "rows have"
        lines.append(f"{decided.noted:,} {have} a note: gaps, new categories, or nothing like them in the log.")
    if likeliest is not None:
        lines.append(f"These are the likeliest actions, which is a policy of its own: {likeliest}.")
    else:
        lines.append(
            "Actions are drawn by their probabilities, as the policy was judged; the same file gives the same."
        )
        if decided.numbered:
            lines.append("Draws go by the row's number: name the column of a case's id with --case, if there is one.")
    return lines
