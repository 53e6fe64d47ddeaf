"""`poela evaluate`: a study's policy (or a saved policy) on other logs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poela.cli.flags import column_flags, layout_in


@column_flags
def evaluate(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    *,
    logs: Annotated[Path, typer.Option(help="Logged decisions that took no part in learning.")],
    estimator: Annotated[
        str | None, typer.Option(help="How the value is estimated: sntis, wdr, fqe, …. Default: the study's.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="How its interval is made: recombined, bca, …. Default: the study's.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level of the interval. Default: the study's.")] = None,
    discount: Annotated[
        float | None, typer.Option(help="What a reward one step later is worth. Default: the study's.")
    ] = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Do not look for what speaks against these logs.")
    ] = False,
    returns: Annotated[str | None, typer.Option(help="The lowest and highest possible return, e.g. 0,1.")] = None,
    cap: Annotated[
        str | None, typer.Option(help="Judge capped returns: 0.99, or the lowest and highest that count, e.g. -50,0.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    **settings: Any,
) -> None:
    """Estimate what a learned policy would have achieved on logs that others made.

    Everything is as when the study was made, unless it is said otherwise here: columns, discount, estimator, interval.

    Example: poela evaluate study/ --logs test.parquet
    """
    from poela.cli.output import print_json, say
    from poela.cli.study_output import print_estimate
    from poela.core.errors import InputError
    from poela.core.paths import is_there, place
    from poela.core.typed import to_plain
    from poela.evaluation.options import bounds_in, cap_in

    described = layout_in(settings)
    bounds = None if returns is None else bounds_in(returns)
    options: dict[str, Any] = {"cap": None if cap is None else cap_in(cap)}
    options |= {"estimator": estimator, "interval": interval, "level": level, "discount": discount, "bounds": bounds}
    changed = {name: value for name, value in options.items() if value is not None}
    if not is_there(study) or not study.is_dir():
        raise InputError(f"{place(study)} is no directory of a study or a policy: make one with poela learn")
    name, estimate, caveat, advice, audit = (_of_study if is_there(study / "study.json") else _of_policy)(
        study, logs, described, changed, no_audit
    )
    if json:
        judged = estimate.to_dict() | {"next": advice}
        print_json({"policy": name, "logs": str(logs), "estimate": judged, "caveat": caveat, "audit": to_plain(audit)})
        return
    say(f"Policy: {name}")
    print_estimate(estimate, f"On {estimate.n_episodes} episodes of {logs}", caveat, advice)


Judged = tuple[str, Any, str, str, Any]  # the policy's name, its estimate, a caveat, advice, and the audit of the logs


def _of_study(directory: Path, path: Path, layout: Any, settings: dict[str, Any], no_audit: bool) -> Judged:
    from poela.studies.evaluation import evaluate_study
    from poela.studies.study import Study

    study = Study.open(directory)
    evaluation = evaluate_study(study, path, layout, no_audit=no_audit, **settings)
    unchanged = "what is done now (the study recommends no other)"
    name = unchanged if study.choice.chosen is None else study.chosen_name
    return name, evaluation.estimate, evaluation.caveat, evaluation.advice, evaluation.audit


def _of_policy(directory: Path, path: Path, layout: Any, settings: dict[str, Any], no_audit: bool) -> Judged:
    from poela.data.layout import LogLayout
    from poela.data.tables import read_and_warn
    from poela.evaluation.evaluate import evaluate as estimate
    from poela.policies.gaussian import GaussianPolicy
    from poela.policies.storage import load_policy
    from poela.studies.audit import audited

    policy = load_policy(directory)
    if isinstance(policy, GaussianPolicy):
        own = LogLayout(action=tuple(map(str, policy.action_names))).fixed_by(policy.table_schema, None)
    else:
        own = LogLayout().fixed_by(policy.table_schema, policy.action_names)
    described = own if layout is None else layout.over(own)
    read = read_and_warn(path, described)
    looked_at = audited(read, no_audit)
    judged = estimate(policy, read, wrong=looked_at.problem, **settings)
    return str(directory), judged, "", judged.advice, looked_at
