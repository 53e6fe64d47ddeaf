"""A study in words and tables, or as JSON."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from poela.cli.output import interval, number, print_json, print_table, say
from poela.core.typed import to_plain

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
        f"{study.directory}: {len(study.runs)} of {len(study.tasks)} runs ({_tried(study)})",
        ("policy", "value", "std. error", "effective episodes"),
        _rows(study, rows if every_run else _best_of_each_learner(rows)),
        f"Values ({study.settings.selection.by}) are estimates on {study.record.data.validation_episodes} "
        "validation episodes, by which the policy was chosen: the best of many is a little too high. "
        "Few effective episodes: little evidence.",
    )
    for run in study.runs.values():
        if run.status != "done":
            say(f"{run.task.candidate}, restart {run.task.restart}, {run.status}: {run.message}")
    if study.left_out:
        say(f"Left out: {len(study.left_out)} of {len(study.tasks)} runs; continue with --resume.")
    say(_sentence(study.record.data.propensities))
    say("")
    say(f"Chosen: {study.chosen_name}", bold=True)
    say(f"Why: {study.choice.reason}.")
    _print_test(study)
    if (study.directory / "policy").exists():
        say(f"\nThe policy is in {study.directory / 'policy'}.")
    elif study.result is not None:
        say(
            "\nThere is no new policy to act by: carry on as before. "
            f"A model of the logging policy, for comparisons, is in {study.directory / 'behavior'}."
        )


def _print_test(study: "Study") -> None:
    look, result = study.test_look, study.result
    if look is None or result is None:
        say("It has not been tested: no look at test episodes yet.")
        return
    print_estimate(look.estimate, f"On {look.estimate.n_episodes} test episodes, used for nothing else")
    logging = result.logging_policy_on_test
    if logging is not None:
        say(f"The logging policy achieved {number(logging.value)} ± {number(logging.standard_error)} there.")
    if look.caveat:
        say(f"- {look.caveat}")


def print_estimate(estimate: "Estimate", where: str) -> None:
    """An estimate in a few lines."""
    ends = "" if estimate.low is None else f" {interval(estimate.low, estimate.high)}"
    level = "" if estimate.level is None else f" ({100 * estimate.level:g}%)"
    say(f"{where}: value {number(estimate.value)}{ends}{level}", bold=True)
    if estimate.verdict:
        say(f"Verdict: {estimate.verdict}", bold=True)
    for sentence in dict.fromkeys((*estimate.reasons, *estimate.warnings)):
        say(f"- {sentence}")


def study_document(study: "Study") -> dict[str, Any]:
    """The study as one JSON document."""
    look = study.test_look
    return {
        "directory": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        "chosen": study.chosen_name,
        "reason": study.choice.reason,
        "propensities": study.record.data.propensities,
        "logging_policy": to_plain(study.record.logging_policy),
        "estimate": None if look is None else look.estimate.to_dict(),
        "looks_at_test": 0 if look is None else look.number,
        "left_out": [task.run_id for task in study.left_out],
        "failed": {run_id: run.message for run_id, run in study.runs.items() if run.status != "done"},
        "table": study.table().to_pylist(),
    }


def _tried(study: "Study") -> str:
    counts = Counter(run.task.candidate.learner for run in study.runs.values())
    return ", ".join(f"{count} {learner}" for learner, count in counts.items()) or "none has finished"


def _rows(study: "Study", rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    logging = study.record.logging_policy
    episodes = study.record.data.validation_episodes
    mark = "* " if study.choice.chosen is None else ""
    first = (f"{mark}logging policy", number(logging.value), number(logging.standard_error), str(episodes))
    return [first, *(_row(row, study.settings.selection.by) for row in rows)]


def _row(row: dict[str, Any], metric: str) -> tuple[str, ...]:
    mark = "* " if row["chosen"] else ""
    where = row["note"] or f"step {row['step']}"
    return (
        f"{mark}{row['candidate']}, restart {row['restart']}, {where}",
        number(row[metric]),
        number(row[f"{metric}_error"]),
        number(row["ess"], 3),
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


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
