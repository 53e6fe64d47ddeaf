"""`poela plan`: how many episodes would show a gain."""

from pathlib import Path
from typing import Annotated

import typer

from poela.cli import columns


def plan(
    logs: Annotated[Path, typer.Argument(help="Table of logged decisions, one row each: .parquet, .csv or .arrow.")],
    gain: Annotated[float, typer.Option(help="By how much a new policy shall be better than what is done now.")],
    confidence: Annotated[float, typer.Option(help="How sure one wants to be that it is better.")] = 0.95,
    seed: Annotated[int, typer.Option(help="The same logs and seed give the same plan.")] = 0,
    discount: Annotated[float, typer.Option(help="What a reward counts one step later; 1: as much.")] = 1.0,
    returns: Annotated[str | None, typer.Option(help="The lowest and highest possible return, e.g. 0,1.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes side by side. Default: all cores.")] = None,
    backend: Annotated[str, typer.Option(help="local: processes here; inline: this process.")] = "local",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    episode: columns.Episode = None,
    step: columns.Step = None,
    action: columns.Action = None,
    reward: columns.Reward = None,
    context: columns.Context = None,
    propensity: columns.Propensity = None,
    cluster: columns.Cluster = None,
    missing: columns.Missing = None,
    category: columns.Category = None,
    ordinal: columns.Ordinal = None,
    origin: columns.Origin = None,
    separator: columns.Separator = None,
    decimal: columns.Decimal = None,
    encoding: columns.Encoding = None,
    layout: columns.Layout = None,
) -> None:
    """Tell how many logged cases would show that a new way to decide is better by so much.

    A quick study of these logs (fitted Q alone) tells how large errors are; nothing is kept of it.

    Example: poela plan logs.parquet --gain 2
    """
    from poela.cli.columns import bounds_in, layout_of
    from poela.cli.output import print_json
    from poela.core.typed import to_plain
    from poela.data.tables import told
    from poela.studies.planning import Asked
    from poela.studies.planning import plan as carry_out

    described = layout_of(
        layout,
        episode=episode,
        step=step,
        action=action,
        reward=reward,
        context=context,
        propensity=propensity,
        cluster=cluster,
        missing=missing,
        category=category,
        ordinal=ordinal,
        origin=origin,
        separator=separator,
        decimal=decimal,
        encoding=encoding,
    )
    Asked(gain, confidence)  # refused before any work
    found = carry_out(
        told(logs, described, for_learning=True),
        gain,
        confidence=confidence,
        seed=seed,
        discount=discount,
        bounds=bounds_in(returns),
        jobs=jobs,
        backend=backend,
    )
    if json:
        print_json({**to_plain(found), "sentence": str(found)})
    else:
        _print(found)


def _print(found: object) -> None:
    from poela.cli.output import print_table, say
    from poela.core.readable import about, readable
    from poela.studies.planning import Plan

    assert isinstance(found, Plan)
    say(str(found), bold=True)
    if found.needs:
        rows = [
            (readable(need.gain, signed=True), about(need.episodes), about(max(need.episodes - found.at_hand, 0)))
            for need in found.needs
        ]
        print_table("If that policy's true gain is", ("gain", "episodes", "more than at hand"), rows)
        say("For this one policy: choosing among many that were tried takes somewhat more.")
    if found.estimated:
        say(
            "The propensities are estimates: a gain must then also survive weights that are wrong by some factor, "
            "which no number of episodes makes up for. Log propensities."
        )
