"""`poela decide`: a decision for each row of a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poela.cli import columns

if TYPE_CHECKING:
    from poela.policies.deciding import Allotted, Deciding
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

Capacity = Annotated[
    str | None,
    typer.Option(
        help="How many cases of this file may get an action: large=100, or large=100/1000 (per 1,000). It goes to "
        "those for whom it has most value. This is another policy than the one that draws, with its own gain."
    ),
]

Spend = Annotated[
    float | None,
    typer.Option(help="Most to spend per case in this file; allotted by value for money, like --capacity."),
]
Leave = Annotated[
    bool,
    typer.Option(
        "--leave",
        help="Where the policy only bars actions and more than one is left, give no action: those who decide choose.",
    ),
]
Unproven = Annotated[
    bool, typer.Option("--unproven", help="Allow --likeliest, --capacity or --spend even if no gain is shown for it.")
]
DrawSeed = Annotated[
    int | None,
    typer.Option(help="Random seed for the draws. Default: the policy's own, so that they are reproducible."),
]
ReceiptsFolder = Annotated[
    Path | None,
    typer.Option(
        "--receipts",
        help="Folder of receipts: decisions are appended to it, for poela watch and the next log. Cases need ids.",
    ),
]


def decide(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    rows: Annotated[Path, typer.Option(help="Table with one row for each decision: .parquet, .csv or .arrow.")],
    out: Annotated[str, typer.Option(help="File to write: .csv or .parquet.")],
    case: Case = None,
    seed: DrawSeed = None,
    likeliest: Likeliest = False,
    leave: Leave = False,
    unproven: Unproven = False,
    capacity: Capacity = None,
    spend: Spend = None,
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

    A hundred large ones: poela decide study/ --rows new.csv --out decisions.csv --capacity large=100
    """
    from poela.cli.columns import layout_of
    from poela.cli.output import print_json, say
    from poela.core.options import names_in
    from poela.core.paths import place
    from poela.policies.allotting import BatchLimits
    from poela.policies.deciding import Deciding
    from poela.serving.decide import decide_file, file_for_decisions

    described = layout_of(None, separator=separator, decimal=decimal, encoding=encoding)
    limits = BatchLimits.of(capacity, spend)
    file_for_decisions(out, overwrite)  # refused before any work
    how = Deciding(seed, similar, names_in(keep or ""), case=case, likeliest=likeliest, leave=leave)
    acting = _acting(study, how, unproven) if limits is None else _batch(study, rows, how, limits, described, unproven)
    decided = decide_file(acting.policy, rows, out, acting.how, described, overwrite, receipts)
    if json:
        print_json({"decisions": str(out), **decided.to_json(), **acting.worth})
        return
    say(str(decided), bold=True)
    written = [f"The decisions are in {out}."]
    written += [] if receipts is None else [f"Receipts are in {place(receipts)}: poela watch joins them with outcomes."]
    about = _about(decided, acting.known if likeliest else None, leave=leave)
    if acting.how.allotted is not None:
        about = _about_batch(decided, acting.how.allotted, acting.known)
    for line in filter(None, (acting.told, *about, *written)):
        say(line)


class Acting(NamedTuple):
    """What decides, how, and what is known of it: in words, and for JSON."""

    policy: Any
    how: "Deciding"
    known: str
    worth: dict[str, Any]
    told: str = ""  # of a policy for which nothing is shown


def _acting(study: Path, how: "Deciding", unproven: bool) -> Acting:
    """The recommended policy, case by case."""
    from dataclasses import replace

    from poela.core.typed import to_plain
    from poela.serving.source import open_policy
    from poela.studies.records import refuse_unshown

    source = open_policy(study)
    if how.likeliest and not unproven:
        refuse_unshown(source.likeliest, "--unproven", source.outcome)
    known = "its gain was not judged" if source.likeliest is None else source.likeliest.in_words(source.outcome)
    worth = {"likeliest": to_plain(source.likeliest)} if how.likeliest else {}
    return Acting(source.policy, replace(how, outcomes=source.outcomes), known, worth, source.unshown)


def _batch(study: Path, rows: Path, how: "Deciding", limits: Any, described: Any, unproven: bool) -> Acting:
    """What allots all rows of the file within limits."""
    from poela.core.typed import to_plain
    from poela.serving.decide import batch_of

    how, batch = batch_of(study, rows, how, limits, described, unproven)
    known = str(batch)
    worth = {"limits": str(limits), "judged": known, "point": to_plain(batch.point)}
    return Acting(batch.policy, how, known, {"allotment": worth})


def _about_batch(decided: "Decided", batch: "Allotted", known: str) -> list[str]:
    """What is to be known of an allotted batch."""
    left, lots = (
        int(batch.left_out.sum()),
        int(((batch.probabilities > 0) & (batch.probabilities < 1)).any(axis=1).sum()),
    )
    lines, unserved = [], int(batch.unserved.sum())
    if left:
        would = f"{left:,} of {decided.rows:,} cases would have got an action that is used up"
        lines = [f"Left out: {would}; their note says so."]
    elif not unserved:
        lines = ["Nobody was left out: there is enough for all cases in which it pays."]
    if unserved:
        lines.append(f"{unserved:,} cases have only actions that are used up: left to those who decide.")
    lines.append(
        f"This is another policy than the recommended one, which draws; allotting by value for money was {known}."
    )
    drawn = f"{lots:,} cases of equal value were drawn at random, with the probabilities of that draw" if lots else ""
    given = "Probabilities are those given this batch: 1 for the action and 0 for others"
    lines.append(f"{given}{f', but {drawn}' * bool(drawn)}. A log of such decisions leaves hardly anything to compare.")
    return lines


def _about(decided: "Decided", likeliest: str | None, *, leave: bool) -> list[str]:
    """What is to be known of the decisions; `likeliest`: what likeliest actions are worth, where these are given."""
    lines = [f"{count:,} rows: {_barred(barred)}." for barred, count in decided.left.items()]
    if decided.noted:
        have = "row has" if decided.noted == 1 else "rows have"
        lines.append(f"{decided.noted:,} {have} a note: missing values, new categories, or unlike any logged case.")
    if likeliest is not None:
        lines.append(f"These are the likeliest actions, which is a different policy: {likeliest}.")
    elif leave:
        lines.append("A row has an action only if no other is left, or if the policy says more than never.")
    elif decided.actions or decided.means:
        lines.append(
            "Actions are drawn at random by their probabilities, as the policy was judged; the same file gives the "
            "same actions."
        )
        if decided.numbered:
            lines.append("Draws depend on the row number. If there is a column with case ids, name it with --case.")
    return lines


def _barred(names: str) -> str:
    """What is left to people, where these actions are barred."""
    return (
        f"{names.replace(';', ',')} barred; choose among the rest" if names else "nothing is barred; decide as before"
    )
