"""`poela evaluate`: a study's policy (or a saved policy) on other logs."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from poela.cli.flags import column_flags, layout_in, some_flags
from poela.core.options import read_from_text
from poela.studies.options import LearnOptions, RoundOptions

GROUPS, SEVERAL = LearnOptions(), RoundOptions()
OF_SEVERAL = ("logged_by", "current", "outcomes", "done", "ended")


@column_flags
@some_flags(("by", "smallest_group"), GROUPS)
@some_flags(OF_SEVERAL, SEVERAL)
def evaluate(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    *,
    logs: Annotated[
        list[Path],
        typer.Option(help="Table of logged decisions that were not used for learning. May be repeated: several logs."),
    ],
    estimator: Annotated[
        str | None, typer.Option(help="Off-policy estimator: sntis, wdr, fqe, …. Default: the study's.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="Confidence interval: recombined, bca, …. Default: the study's.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level of the interval. Default: the study's.")] = None,
    discount: Annotated[float | None, typer.Option(help="Discount factor per step. Default: the study's.")] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Skip the audit of these logs.")] = False,
    returns: Annotated[str | None, typer.Option(help="Lowest and highest possible return, e.g. 0,1.")] = None,
    cap: Annotated[
        str | None, typer.Option(help="Cap (winsorize) returns: 0.99, or the lowest and highest value, e.g. -50,0.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    **settings: Any,
) -> None:
    """Estimate what a policy would have achieved on other logs (off-policy evaluation).

    Columns, discount, estimator and interval are those of the study, unless set here.

    Example: poela evaluate study/ --logs test.parquet

    Several logs: poela evaluate study2/ --logs later.parquet --logs more.parquet --logged-by practice,study1/
    """
    from poela.cli.output import print_json
    from poela.core.errors import InputError
    from poela.core.paths import is_there, place
    from poela.evaluation.options import bounds_in, cap_in

    described = layout_in(settings)
    bounds = None if returns is None else bounds_in(returns)
    options: dict[str, Any] = {"cap": None if cap is None else cap_in(cap)}
    options |= {"estimator": estimator, "interval": interval, "level": level, "discount": discount, "bounds": bounds}
    changed = {name: value for name, value in options.items() if value is not None}
    if not is_there(study) or not study.is_dir():
        raise InputError(f"{place(study)} is no directory of a study or a policy: make one with poela learn")
    asked = read_from_text([GROUPS, SEVERAL], settings)
    columns = (asked["by"], asked["smallest_group"]) if "by" in asked else None
    several = {name: asked[name] for name in OF_SEVERAL if name in asked}
    is_study, names = is_there(study / "study.json"), " and ".join(map(str, logs))
    if len(logs) > 1 or several:
        if columns is not None or not is_study:
            raise InputError(
                "several logs, or receipts, can only evaluate the policy of a study, and without groups (--by)"
            )
        judged = _of_several(study, logs, described, changed, no_audit, several)
    else:
        judged = (_of_study if is_study else _of_policy)(study, logs[0], described, changed, no_audit, columns)
    if json:
        print_json({"logs": names, **judged.document()})
    else:
        _print(judged, names, columns is not None)


def _print(judged: "Judged", names: str, by_group: bool) -> None:
    from poela.cli.output import say
    from poela.cli.study_output import print_estimate, print_groups

    say(f"Policy: {judged.name}")
    where = f"On {judged.estimate.n_episodes} episodes of {names}"
    print_estimate(judged.estimate, where, judged.caveat, judged.advice, judged.outcome)
    if judged.groups is not None:
        print_groups(judged.groups)
    elif by_group:
        say("No other policy is recommended, so nothing changes for any group.")
    if judged.guards is not None:
        say(f"Guardrails on these logs (each with a {judged.guards.confidence:.0%} bound of its own):")
        for told in judged.guards.sentences:
            say(f"- {told}")


class Judged(NamedTuple):
    """A policy on other logs."""

    name: str
    details: str  # how it was made
    estimate: Any
    caveat: str
    advice: str
    audit: Any
    groups: Any = None
    outcome: Any = None
    guards: Any = None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        from poela.core.typed import to_plain

        return {
            "policy": self.name,
            "details": self.details,
            "estimate": self.estimate.to_dict() | {"next": self.advice},
            "caveat": self.caveat,
            "audit": to_plain(self.audit),
            "groups": to_plain(self.groups),
            "guards": None if self.guards is None else self.guards.documents(),
        }


Columns = tuple[tuple[str, ...], int] | None  # to group by, and the smallest group


def _of_study(
    directory: Path, path: Path, layout: Any, settings: dict[str, Any], no_audit: bool, columns: Columns
) -> Judged:
    from poela.data.tables import read_and_warn
    from poela.studies.by_group import GroupRequest
    from poela.studies.evaluation import evaluate_study, evaluate_study_groups, evaluate_study_guards, layout_for
    from poela.studies.guards_later import with_guarded
    from poela.studies.study import Study

    study = Study.open(directory)
    _ = study.keeps_logging_policy  # which says so where the study has not come to its end
    described = with_guarded(study, path, layout_for(study, layout))
    read = read_and_warn(path, described)
    request = None if columns is None else GroupRequest.of_table(*columns, path, described)
    if request is not None:
        request.refuse_unknown(read)
    evaluation = evaluate_study(study, read, no_audit=no_audit, **settings)
    unchanged = "what is done now (the study recommends no other)"
    chosen, groups, guards = study.choice.chosen, None, None
    problem = "" if evaluation.audit is None else evaluation.audit.problem
    if chosen is not None and request is not None:
        groups = evaluate_study_groups(study, read, request, problem, **settings)
    if chosen is not None and study.settings.selection.rails:
        by_table = GroupRequest.of_table((), GROUPS.smallest_group, path, described)
        guards = evaluate_study_guards(study, read, by_table, problem, **settings)
    return Judged(
        unchanged if chosen is None else study.chosen_name,
        study.details_of(chosen),
        evaluation.estimate,
        evaluation.caveat,
        evaluation.advice,
        evaluation.audit,
        groups,
        study.record.outcome,
        guards,
    )


def _of_several(
    directory: Path, paths: list[Path], layout: Any, settings: dict[str, Any], no_audit: bool, several: dict[str, Any]
) -> Judged:
    from poela.data.beside import Beside
    from poela.studies.evaluation import evaluate_on_several
    from poela.studies.study import Study

    study = Study.open(directory)
    beside = Beside(*(several.pop(name, None) for name in ("outcomes", "done", "ended")))
    found = evaluate_on_several(study, paths, layout, no_audit=no_audit, beside=beside, **several, **settings)
    details = study.details_of(study.choice.chosen)
    outcome = study.record.outcome
    return Judged(study.chosen_name, details, found.estimate, found.caveat, found.advice, found.audit, outcome=outcome)


def _of_policy(
    directory: Path, path: Path, layout: Any, settings: dict[str, Any], no_audit: bool, columns: Columns
) -> Judged:
    from poela.data.layout import LogLayout
    from poela.data.tables import read_and_warn
    from poela.evaluation.evaluate import evaluate as estimate
    from poela.evaluation.scoring import Scoring
    from poela.policies.storage import load_policy
    from poela.studies.audit import audited
    from poela.studies.by_group import GroupRequest, evaluated_groups
    from poela.studies.selection import DEFAULT_SELECTION

    policy = load_policy(directory)
    own = LogLayout().fixed_by(policy.table_schema, policy.action_space)
    described = own if layout is None else layout.over(own)
    read = read_and_warn(path, described)
    looked_at = audited(read, no_audit)
    judged = estimate(policy, read, wrong=looked_at.problem, **settings)
    groups = None
    if columns is not None:
        request, gamma = GroupRequest.of_table(*columns, path, described), DEFAULT_SELECTION.sensitivity
        scoring = Scoring(**settings)
        problem = looked_at.problem
        groups = evaluated_groups(policy, str(directory), read, scoring, request, gamma=gamma, problem=problem)
    return Judged(str(directory), "", judged, "", judged.advice, looked_at, groups)
