"""`poela evaluate`: a study's policy (or a saved policy) on other logs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poela.cli import columns


def evaluate(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    logs: Annotated[Path, typer.Option(help="Logged decisions that took no part in learning.")],
    episode: columns.Episode = None,
    step: columns.Step = None,
    action: columns.Action = None,
    reward: columns.Reward = None,
    context: columns.Context = None,
    propensity: columns.Propensity = None,
    cluster: columns.Cluster = None,
    separator: columns.Separator = None,
    decimal: columns.Decimal = None,
    encoding: columns.Encoding = None,
    layout: columns.Layout = None,
    estimator: Annotated[str | None, typer.Option(help="How the value is estimated. Default: the study's.")] = None,
    interval: Annotated[str | None, typer.Option(help="How its interval is made. Default: the study's.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level of the interval. Default: the study's.")] = None,
    discount: Annotated[
        float | None, typer.Option(help="What a reward one step later is worth. Default: the study's.")
    ] = None,
    returns: Annotated[str | None, typer.Option(help="The lowest and highest possible return, e.g. 0,1.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Estimate what a learned policy would have achieved on logs that others made.

    Everything is as when the study was made, unless it is said otherwise here: columns, discount, estimator, interval.

    Example: poela evaluate study/ --logs test.parquet
    """
    from poela.cli.columns import bounds_in, layout_of
    from poela.cli.output import print_json, say
    from poela.cli.study_output import print_estimate
    from poela.core.errors import InputError
    from poela.core.paths import is_there, place

    described = layout_of(
        layout,
        episode=episode,
        step=step,
        action=action,
        reward=reward,
        context=context,
        propensity=propensity,
        cluster=cluster,
        separator=separator,
        decimal=decimal,
        encoding=encoding,
    )
    asked = {"estimator": estimator, "interval": interval, "level": level, "discount": discount}
    settings = {name: value for name, value in {**asked, "bounds": bounds_in(returns)}.items() if value is not None}
    if not is_there(study) or not study.is_dir():
        raise InputError(f"{place(study)} is no directory of a study or a policy: make one with poela learn")
    name, estimate, caveat = (_of_study if is_there(study / "study.json") else _of_policy)(
        study, logs, described, settings
    )
    if json:
        print_json({"policy": name, "logs": str(logs), "estimate": estimate.to_dict(), "caveat": caveat})
        return
    say(f"Policy: {name}")
    print_estimate(estimate, f"On {estimate.n_episodes} episodes of {logs}")
    if caveat:
        say(f"- {caveat}")


def _of_study(directory: Path, path: Path, layout: Any, settings: dict[str, Any]) -> tuple[str, Any, str]:
    from poela.studies.evaluation import evaluate_study
    from poela.studies.study import Study

    study = Study.open(directory)
    look = evaluate_study(study, path, layout, **settings)
    kept = "what is done now (the study recommends no other)"
    return kept if study.choice.chosen is None else study.chosen_name, look.estimate, look.caveat


def _of_policy(directory: Path, path: Path, layout: Any, settings: dict[str, Any]) -> tuple[str, Any, str]:
    from poela.data.layout import LogLayout
    from poela.data.tables import told
    from poela.evaluation.evaluate import evaluate as estimate
    from poela.policies.storage import load_policy

    policy = load_policy(directory)
    own = LogLayout().fixed_by(policy.table_schema, policy.action_names)
    described = own if layout is None else layout.over(own)
    return str(directory), estimate(policy, told(path, described), **settings), ""
