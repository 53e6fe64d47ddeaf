"""A study in words and tables, or as JSON."""

from typing import TYPE_CHECKING, Any

from poela.cli.output import console, interval, number, print_json, print_table

if TYPE_CHECKING:
    from poela.evaluation.estimate import Estimate
    from poela.studies.study import Study


def print_study(study: "Study", *, as_json: bool, every_run: bool = False) -> None:
    """What was tried, what was chosen and why, and what it is worth."""
    if as_json:
        print_json(study_document(study))
        return
    rows = study.table().to_pylist()
    print_table(
        f"{study.directory}: {len(study.runs)} of {len(study.tasks)} runs",
        ("policy", "value", "std. error", "ESS"),
        _rows(study, rows if every_run else _best_of_each_learner(rows)),
        "Values on the validation episodes, by which the policy was chosen (so the best of them is too high). "
        "ESS: the effective number of episodes behind a value.",
    )
    out = console()
    for run_id, run in study.runs.items():
        if run["status"] != "done":
            out.print(f"{study.asked_candidate(run_id)} restart={run['restart']} {run['status']}: {run['message']}")
    if study.left_out:
        out.print(f"Left out: {len(study.left_out)} of {len(study.tasks)} runs; continue with --resume.")
    out.print(study.document["data"]["propensities"][:1].upper() + study.document["data"]["propensities"][1:] + ".")
    out.print(f"\nChosen: [bold]{study.chosen_name}[/bold]\nWhy: {study.choice.reason}.")
    look = study.test_look
    if look is None:
        out.print("It has not been tested: no look at the test episodes yet.")
    else:
        print_estimate(look.estimate, f"On {look.estimate.n_episodes} test episodes, used for nothing else")
        if look.caveat:
            out.print(f"- {look.caveat}")
    if (study.directory / "policy").exists():
        out.print(f"\nPolicy: {study.directory / 'policy'}")


def print_estimate(estimate: "Estimate", where: str) -> None:
    """An estimate in a few lines."""
    out = console()
    ends = (
        "" if estimate.low is None else f" {interval(estimate.low, estimate.high)} ({100 * (estimate.level or 0):g}%)"
    )
    out.print(
        f"{where}: value [bold]{number(estimate.value)}[/bold]{ends}, {estimate.estimator}, ESS {number(estimate.ess)}"
    )
    if estimate.verdict:
        out.print(f"Verdict: [bold]{estimate.verdict}[/bold]")
    for warning in estimate.warnings:
        out.print(f"- {warning}")


def study_document(study: "Study") -> dict[str, Any]:
    """The study as one JSON document."""
    look = study.test_look
    return {
        "directory": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        "chosen": study.chosen_name,
        "reason": study.choice.reason,
        "propensities": study.document["data"]["propensities"],
        "logging_policy": study.document["logging_policy"],
        "estimate": None if look is None else look.estimate.to_dict(),
        "looks_at_test": 0 if look is None else look.number,
        "left_out": [task.run_id for task in study.left_out],
        "table": study.table().to_pylist(),
    }


def _rows(study: "Study", rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    logging = study.document["logging_policy"]
    episodes = study.document["data"]["validation_episodes"]
    first = ("logging policy", number(logging["value"]), number(logging["standard_error"]), str(episodes))
    return [first, *(_row(row) for row in rows)]


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    name = f"{row['candidate']} restart={row['restart']} step={row['step']}"
    return (
        f"* {name}" if row["chosen"] else name,
        number(row["sntis"]),
        number(row["sntis_error"]),
        number(row["ess"]),
    )


def _best_of_each_learner(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = best.get(row["learner"])
        if row["chosen"] or known is None or (not known["chosen"] and _score(row) > _score(known)):
            best[row["learner"]] = row
    return list(best.values())


def _score(row: dict[str, Any]) -> float:
    return float("-inf") if row["score"] is None else float(row["score"])
