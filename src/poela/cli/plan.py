"""`poela plan`: how many episodes would show a gain; and after a study, what the next log should be."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poela.cli.flags import column_flags, layout_in, some_flags
from poela.core.options import options_of, read_from_text
from poela.evaluation.options import ScoringOptions
from poela.studies.options import Execution, LearnOptions, StudyOptions

SETTINGS = (ScoringOptions(), Execution(), StudyOptions(), LearnOptions())
NEXT = "Next log (with a study)"
By = Annotated[
    str | None,
    typer.Option(rich_help_panel=NEXT, help="Which policy acts: policy or promising. Default: whichever is better."),
]


@column_flags
@some_flags(("discount", "returns", "cap", "jobs", "behavior", "no_audit"), *SETTINGS)
def plan(
    logs: Annotated[
        Path,
        typer.Argument(help="Table of logged decisions: .parquet, .csv or .arrow; or directory of a study."),
    ],
    *,
    gain: Annotated[float | None, typer.Option(help="Gain over what is done now that you want to show.")] = None,
    cases: Annotated[
        float | None,
        typer.Option(rich_help_panel=NEXT, help="Number of cases in the next log. Default: as many as in this one."),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=NEXT, help="Share of cases in which a new policy acts. Default: 0.1, 0.2, 0.5, 1."
        ),
    ] = None,
    by: By = None,
    confidence: Annotated[
        float | None, typer.Option(help="Confidence with which to show a gain. Default: 0.95.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed. The same logs and seed give the same plan.")] = 0,
    backend: Annotated[
        str, typer.Option(help="Where to run. local: worker processes; inline: this process.")
    ] = "local",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    **settings: Any,
) -> None:
    """Estimate how many cases it takes to show a gain (sample size, power); after a study, design the next log.

    Given logs, standard errors come from a quick study with one learner (fitted Q, or continuouspoela for real-valued
    actions); nothing is saved. Given a study, its held-out weights show which of its policies should act in what share
    of cases, beside what is done now, and after how many cases a bolder one can be verified.

    Example: poela plan logs.parquet --gain 2

    The next round: poela plan study/ --cases 500
    """
    from poela.core.errors import InputError
    from poela.studies.parents import is_study

    if is_study(logs):
        usual = {name: offer.default for group in SETTINGS for name, offer in options_of(group).items()}
        said = {"gain": gain, "confidence": confidence, **settings}
        if wrong := [f"--{name}".replace("_", "-") for name, value in said.items() if value != usual.get(name)]:
            raise InputError(
                f"after a study, the plan takes its settings: leave out {', '.join(wrong)}, or give the logs"
            )
        _plan_next(logs, cases, share, by, json)
        return
    if gain is None:
        raise InputError(
            "say which gain over what is done now you want to show (--gain 2), or give a study's directory"
        )
    if (cases, share, by) != (None, None, None):
        raise InputError("--cases, --share and --by plan the log after a study: give its directory")
    _plan_gain(logs, gain, confidence, settings, {"seed": seed, "backend": backend}, json)


def _plan_gain(
    logs: Path, gain: float, confidence: float | None, settings: dict[str, Any], how: dict[str, Any], json: bool
) -> None:
    from poela.cli.output import print_json
    from poela.core.typed import to_plain
    from poela.data.tables import read_and_warn
    from poela.studies.planning import Goal
    from poela.studies.planning import plan as carry_out

    sure = {} if confidence is None else {"confidence": confidence}
    Goal(gain, **sure)  # refused before any work
    read = read_and_warn(logs, layout_in(settings), for_learning=True)
    result = carry_out(read, gain, **sure, **how, **read_from_text(SETTINGS, settings))
    if json:
        print_json({**to_plain(result), "sentence": str(result)})
    else:
        _print(result, read.action_space.chances)


def _plan_next(study: Path, cases: float | None, share: float | None, by: str | None, json: bool) -> None:
    from poela.cli.output import print_json, print_table, say
    from poela.core.readable import about, effective, readable, share_in_words
    from poela.rounds.next_log import plan_next
    from poela.studies.answer import unconfounded_in_words
    from poela.studies.study import Study

    found = plan_next(study, cases=cases, share=share, by=by)
    planned = Study.open(study)
    middle = "" if planned.result is None else unconfounded_in_words(planned.result, planned.record)
    if json:
        print_json(found.to_dict() | ({"unconfounded": middle} if middle else {}))
        return
    say(str(found), bold=True)
    if middle:
        say(middle)
    chosen = found.chosen
    if chosen is None or not chosen.targets:
        return
    shares = [f"{share_in_words(one.share)}" for one in chosen.targets[0].shares]
    rows = [
        (
            ("* " if target == found.target else "") + target.policy,
            readable(target.gain, signed=True),
            effective(target.ess),
            *("-" if one.verified is None else about(one.verified) for one in (target.alone, *target.shares)),
        )
        for target in chosen.targets
    ]
    columns = ("policy", "gain", "effective now", "as before", *shares)
    note = (
        f"Cases until a policy has {found.enough:g} effective ones, by the share of cases in which {chosen.policy} "
        "acts; -: never."
    )
    print_table(f"Until a bolder policy can be verified, where {chosen.policy} logs", columns, rows, note)
    say(
        f"Draw at random, for each new case, who decides. Keep the decisions of {chosen.policy} (the folder "
        f"{chosen.folder} of {study}) and those made as before in separate files, with the propensities of all actions."
    )


def _print(result: object, known: str) -> None:
    from poela.cli.output import print_table, say
    from poela.core.readable import about, readable
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
    if result.estimated:
        say(
            f"Weights are based on estimates, so a gain counts as shown only if it survives weights up to "
            f"{result.gamma:g} times wrong (Γ). Log {known}, and make sure that outcomes are observed."
        )
