"""`poela decide`: a decision for each row of a table."""

from pathlib import Path
from typing import Annotated

import typer

from poela.cli import columns


def decide(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    rows: Annotated[Path, typer.Option(help="Table with one row for each decision: .parquet, .csv or .arrow.")],
    out: Annotated[str, typer.Option(help="File to write: .csv or .parquet.")],
    seed: Annotated[
        int | None, typer.Option(help="Draw actions by their probabilities, with this seed. Default: the likeliest.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="More columns of the table to keep beside episode and step, with commas.")
    ] = None,
    similar: Annotated[
        bool, typer.Option("--similar/--no-similar", help="Count similar logged cases, and tell what came of them.")
    ] = True,
    separator: columns.Separator = None,
    decimal: columns.Decimal = None,
    encoding: columns.Encoding = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide about new cases: the action for each row, its probability, what else may be done, and who was like it.

    Columns are found by name, and read as those of the log were. Where the policy looks at earlier decisions, the table
    holds the rows of each episode so far. "defer" marks cases like which none was logged.

    Example: poela decide study/ --rows new.csv --out decisions.csv
    """
    from poela.cli.columns import layout_of
    from poela.cli.output import print_json, say
    from poela.core.options import names_in
    from poela.policies.deciding import Deciding
    from poela.serving.decide import decide_file
    from poela.serving.source import open_policy

    described = layout_of(None, separator=separator, decimal=decimal, encoding=encoding)
    source = open_policy(study)
    how = Deciding(seed, similar, () if keep is None else names_in(keep), source.outcomes)
    decided = decide_file(source.policy, rows, out, how, described, overwrite)
    if json:
        print_json({"decisions": str(out), **decided.to_json()})
        return
    say(str(decided), bold=True)
    if decided.noted:
        have = "row has" if decided.noted == 1 else "rows have"
        say(f"{decided.noted:,} {have} a note: gaps, new categories, or nothing like them in the log.")
    if seed is None:
        say("These are the likeliest actions. What was evaluated draws them by their probabilities: --seed 0 does so.")
    say(f"The decisions are in {out}.")
