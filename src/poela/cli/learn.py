"""`poela learn`: from a log file to a policy and what it is worth."""

from pathlib import Path
from typing import Annotated

import typer

from poela.cli import columns

PARTS, TRYING, CHOOSING, RUNNING = "Episodes", "What to try", "How the policy is chosen", "How it is run"


def learn(
    logs: Annotated[Path, typer.Argument(help="Table of logged decisions, one row each: .parquet, .csv or .arrow.")],
    out: Annotated[str, typer.Option(help="Directory for everything that is tried, and for the policy.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue where an interrupted study stopped.")] = False,
    seed: Annotated[int, typer.Option(help="The same logs, settings and seed give the same study.")] = 0,
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
    folds: Annotated[
        int,
        typer.Option(
            rich_help_panel=PARTS,
            help="In so many parts: what the others teach is judged by each in turn, so that every case does both.",
        ),
    ] = 5,
    test: Annotated[
        str | None,
        typer.Option(rich_help_panel=PARTS, help="A share of cases (0.2), or other logs (a file), for one last look."),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=PARTS,
            help="One split instead: shares to learn from, to choose by, to test with: 0.5,0.3,0.2.",
        ),
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(rich_help_panel=PARTS, help="One split instead: logs to choose the policy by.")
    ] = None,
    learners: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=TRYING,
            help="Ways of learning, separated by commas. Default: fittedq,consensus,poela,bcq.",
        ),
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option(rich_help_panel=TRYING, help="TOML file with the settings to try instead.")
    ] = None,
    no_rule: Annotated[
        bool,
        typer.Option(
            "--no-rule",
            rich_help_panel=TRYING,
            help="Let values decide about actions that nobody took in a like case, too.",
        ),
    ] = False,
    restarts: Annotated[
        int, typer.Option(rich_help_panel=TRYING, help="How often each is tried, from different random starts.")
    ] = 1,
    budget: Annotated[
        str | None, typer.Option(rich_help_panel=TRYING, help="Stop trying after this time, e.g. 10m or 2h.")
    ] = None,
    discount: Annotated[
        float, typer.Option(rich_help_panel=TRYING, help="What a reward counts one step later; 1: as much.")
    ] = 1.0,
    behavior: Annotated[
        str,
        typer.Option(
            rich_help_panel=TRYING,
            help="Where the log carries no probabilities of decisions, the model that estimates them: auto, "
            "multinomial, boosted, knn, clone or recurrent. Where it does, a model named here is asked by rules about "
            "contexts that are not in the log.",
        ),
    ] = "auto",
    min_ess: Annotated[
        float,
        typer.Option(
            rich_help_panel=CHOOSING,
            help="How many past episodes must at least speak for the chosen policy (below 1: which share of them). "
            "Higher: a safer, more modest policy.",
        ),
    ] = 0.0,
    choose_by: Annotated[
        str,
        typer.Option(
            rich_help_panel=CHOOSING,
            help="gain: what is shown to be better than what is done now; or an estimate: guarded, wdr, sntis (the "
            "paper's).",
        ),
    ] = "gain",
    confidence: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=CHOOSING,
            help="Of what is shown (0.95), or of lower bounds by which estimates are compared (0.99; 0.5: none).",
        ),
    ] = None,
    sensitivity: Annotated[
        float,
        typer.Option(
            rich_help_panel=CHOOSING,
            help="Where probabilities of decisions are estimated: by what factor weights may be wrong without undoing "
            "a gain.",
        ),
    ] = 1.5,
    checkpoints: Annotated[
        str,
        typer.Option(rich_help_panel=CHOOSING, help="best: policies on the way take part; final: only finished ones."),
    ] = "best",
    returns: Annotated[
        str | None,
        typer.Option(rich_help_panel=CHOOSING, help="The lowest and highest possible return, e.g. 0,1."),
    ] = None,
    level: Annotated[
        float,
        typer.Option(rich_help_panel=CHOOSING, help="Confidence level of the interval around the final estimate."),
    ] = 0.95,
    jobs: Annotated[
        int | None, typer.Option(rich_help_panel=RUNNING, help="Processes side by side. Default: all cores.")
    ] = None,
    backend: Annotated[
        str,
        typer.Option(rich_help_panel=RUNNING, help="local: processes here; inline: this process; ray: a Ray cluster."),
    ] = "local",
    address: Annotated[
        str | None, typer.Option(rich_help_panel=RUNNING, help="Of the Ray cluster. Default: one started here.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(rich_help_panel=RUNNING, help="Tell finished runs to mlflow or tensorboard too.")
    ] = None,
) -> None:
    """Learn a better way to decide from a record of past decisions, and say honestly what it is worth.

    The log is a table with one row for each decision: which case it belongs to, what was known, what was decided, and
    what came of it. What four fifths of the cases teach is judged by the last fifth, five times over; a new policy is
    recommended only if that shows it to be better than what is done now.

    Example: poela learn visits.csv --out study/ --episode patient --step visit --action drug --reward outcome

    Afterwards: poela evaluate study/ --logs later.csv
    """
    try:
        from poela.cli.columns import bounds_in, layout_of, names_in, numbers_in
        from poela.cli.study_output import print_study
        from poela.studies.candidate_files import candidates_in
        from poela.studies.defaults import default_candidates
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
            cluster=cluster,
            missing=missing,
            category=category,
            ordinal=ordinal,
            origin=origin,
            separator=separator,
            decimal=decimal,
            encoding=encoding,
        )
        study = carry_out(
            logs,
            out=out,
            validation=validation,
            folds=folds,
            test=_test(test),
            candidates=default_candidates(None if learners is None else names_in(learners), ruled=not no_rule)
            if candidates is None
            else candidates_in(candidates),
            restarts=restarts,
            seed=seed,
            shares=None if shares is None else numbers_in("--shares", shares),
            selection=Selection(
                choose_by,
                checkpoints,
                confidence if confidence is not None else 0.95 if choose_by == "gain" else 0.99,
                min_ess,
                proof=0.0 if choose_by == "gain" else 0.95,
                sensitivity=sensitivity,
            ),
            behavior=behavior,
            discount=discount,
            level=level,
            bounds=bounds_in(returns),
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
        from poela.core.paths import place

        raise PoelaError(f"interrupted: what has finished is kept in {place(out)}; continue with --resume") from None
    print_study(study, as_json=json)


def _test(given: str | None) -> str | float | None:
    """A share where it reads as a number, else a file."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given
