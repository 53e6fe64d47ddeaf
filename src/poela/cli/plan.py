"""`poela plan`: how many episodes would show a gain."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poela.cli.flags import column_flags, layout_in, some_flags
from poela.core.options import read_from_text
from poela.evaluation.options import ScoringOptions
from poela.studies.options import Execution, LearnOptions, StudyOptions

SETTINGS = (ScoringOptions(), Execution(), StudyOptions(), LearnOptions())


@column_flags
@some_flags(("discount", "returns", "cap", "jobs", "behavior", "no_audit"), *SETTINGS)
def plan(
    logs: Annotated[
        Path, typer.Argument(help="Table of logged decisions, one row for each: .parquet, .csv or .arrow.")
    ],
    *,
    gain: Annotated[float, typer.Option(help="Gain over what is done now that you want to show.")],
    confidence: Annotated[float, typer.Option(help="Confidence with which to show it.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Random seed. The same logs and seed give the same plan.")] = 0,
    backend: Annotated[
        str, typer.Option(help="Where to run. local: worker processes; inline: this process.")
    ] = "local",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    **settings: Any,
) -> None:
    """Estimate how many logged cases it takes to show a given gain (sample size, power).

    Standard errors come from a quick study of these logs with one learner (fitted Q, or continuouspoela for real-valued
    actions). Nothing is saved.

    Example: poela plan logs.parquet --gain 2
    """
    from poela.cli.output import print_json
    from poela.core.typed import to_plain
    from poela.data.tables import read_and_warn
    from poela.studies.planning import Goal
    from poela.studies.planning import plan as carry_out

    Goal(gain, confidence)  # refused before any work
    read = read_and_warn(logs, layout_in(settings), for_learning=True)
    result = carry_out(
        read, gain, confidence=confidence, seed=seed, backend=backend, **read_from_text(SETTINGS, settings)
    )
    if json:
        print_json({**to_plain(result), "sentence": str(result)})
    else:
        _print(result, read.is_real)


def _print(result: object, real: bool) -> None:
    from poela.cli.output import print_table, say
    from poela.core.readable import about, readable
    from poela.evaluation.verdict import chances
    from poela.studies.planning import Plan

    assert isinstance(result, Plan)
    say(str(result), bold=True)
    if result.needs:
        rows = [
            (readable(need.gain, signed=True), about(need.episodes), about(max(need.episodes - result.at_hand, 0)))
            for need in result.needs
        ]
        print_table("If that policy's true gain is", ("gain", "episodes", "more than now"), rows)
        say("This is for one policy; choosing among many takes somewhat more.")
    known = chances(real)
    if result.estimated:
        say(
            f"Weights are based on estimates, so a gain counts as shown only if it survives weights up to "
            f"{result.gamma:g} times wrong (Γ). Log {known}, and make sure that outcomes are observed."
        )
