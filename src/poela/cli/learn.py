"""`poela learn`: from a log file to a policy and what it is worth."""

from pathlib import Path
from typing import Annotated

import typer

from poela.cli import columns

LEARNING, CHOOSING, RUNNING = "What to try", "How the policy is chosen", "How it is run"


def learn(
    logs: Annotated[Path, typer.Argument(help="Table of logged decisions, one row each: .parquet, .csv or .arrow.")],
    out: Annotated[Path, typer.Option(help="Directory for the study: everything that is tried, and the policy.")],
    episode: columns.Episode = None,
    step: columns.Step = None,
    action: columns.Action = None,
    reward: columns.Reward = None,
    context: columns.Context = None,
    propensity: columns.Propensity = None,
    layout: columns.Layout = None,
    validation: Annotated[
        Path | None, typer.Option(help="Logs to choose the policy by. [default: a fifth of the episodes]")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Logs for the final estimate. [default: another fifth of the episodes]")
    ] = None,
    learners: Annotated[
        str | None, typer.Option(help="Ways of learning to try, separated by commas, e.g. poela,pocrm.")
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(help="TOML file with the settings to try instead; see the documentation of studies."),
    ] = None,
    restarts: Annotated[int, typer.Option(min=1, help="How often each is tried, from different random starts.")] = 2,
    behavior: Annotated[
        str,
        typer.Option(help="How to estimate who took which decision, where the log carries no probabilities."),
    ] = "auto",
    discount: Annotated[float, typer.Option(help="What a reward one step later is worth.")] = 1.0,
    choose_by: Annotated[
        str, typer.Option(help="Estimate on the validation episodes: guarded, wdr, or sntis as in the paper.")
    ] = "guarded",
    confidence: Annotated[
        float,
        typer.Option(help="Choose by the lower bound that holds with this confidence; 0.5 is the estimate itself."),
    ] = 0.95,
    checkpoints: Annotated[
        str, typer.Option(help="final: only fully trained policies; best: any on the way.")
    ] = "best",
    min_ess: Annotated[
        float,
        typer.Option(
            help="Least effective number of validation episodes behind the chosen policy's estimate (below 1: a share "
            "of them). Higher: a safer, more modest policy."
        ),
    ] = 0.0,
    level: Annotated[float, typer.Option(help="Confidence level of the final interval.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="The same logs, settings and seed give the same study.")] = 0,
    budget: Annotated[str | None, typer.Option(help="Stop trying after this time, e.g. 10m or 2h.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes side by side. [default: all cores]")] = None,
    backend: Annotated[
        str, typer.Option(help="local: processes here; inline: this process; ray: a Ray cluster.")
    ] = "local",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster. [default: one started here]")] = None,
    track: Annotated[str | None, typer.Option(help="Tell finished runs to mlflow or tensorboard too.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a study that was interrupted.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Learn a better way to decide from a record of past decisions, and say honestly what it is worth.

    The log is a table with one row for each decision: which case it belongs to, what was known, what was decided, and
    what came of it. Part of the cases is used to learn, part to choose among what was learned, and the rest, kept
    apart, to estimate what the chosen policy would have achieved.

    Example: poela learn visits.csv --out study/ --episode patient --step visit --action drug --reward outcome

    Afterwards: poela evaluate study/ --logs later.csv
    """
    from poela.cli.columns import layout_of, names_in
    from poela.cli.study_output import print_study
    from poela.studies.candidate_files import candidates_in
    from poela.studies.learning import learn as carry_out
    from poela.studies.selection import Selection

    described = layout_of(
        layout,
        episode=episode,
        step=step,
        action=action,
        reward=reward,
        context=context,
        propensity=propensity,
    )
    try:
        study = carry_out(
            logs,
            out=out,
            validation=validation,
            test=test,
            learners=None if learners is None else names_in(learners),
            candidates=None if candidates is None else candidates_in(candidates),
            restarts=restarts,
            seed=seed,
            selection=Selection(choose_by, checkpoints, confidence, min_ess),
            behavior=behavior,
            discount=discount,
            level=level,
            layout=described,
            resume=resume,
            backend=backend,
            jobs=jobs,
            budget=budget,
            address=address,
            track=track,
        )
    except KeyboardInterrupt:
        from poela.core.errors import PoelaError

        raise PoelaError(f"interrupted: what has finished is kept in {out}; continue with --resume") from None
    print_study(study, as_json=json)
