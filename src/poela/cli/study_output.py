"""A study in words and tables, or as JSON: the answer first, then the ladder, then the evidence."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from poela.cli.output import interval, number, print_json, print_table, say
from poela.core.typed import to_plain

if TYPE_CHECKING:
    from poela.evaluation.estimate import Estimate
    from poela.studies.study import Study

MOST_RUNGS, MOST_BEYOND = 8, 3


def print_study(study: "Study", *, as_json: bool, every_run: bool = False) -> None:
    """What to do and why, the policies from cautious to bold, and what the recommended one is worth."""
    if as_json:
        print_json(study_document(study))
        return
    if study.result is None:
        say(f"{study.directory}: {len(study.runs)} of {len(study.tasks)} runs have finished; continue with --resume.")
        return
    answer = study.answer
    say(answer.headline, bold=True)
    say(answer.why)
    say(f"Next: {answer.next}")
    say("")
    rows = study.table().to_pylist()
    if not every_run:
        rows = study.ladder().to_pylist() if study.settings.selection.by == "gain" else _best_of_each_learner(rows)
    _print_policies(study, rows if every_run else _thinned(rows))
    for run in study.runs.values():
        if run.status != "done":
            say(f"{run.task.candidate}, restart {run.task.restart}, {run.status}: {run.message}")
    if study.left_out:
        say(f"Left out: {len(study.left_out)} of {len(study.tasks)} runs; continue with --resume.")
    say(_sentence(study.record.data.propensities))
    if study.choice.chosen is not None:
        say(f"Recommended: {study.chosen_name}", bold=True)
        say(f"It acts {_rule(study)}.")
    _print_worth(study)
    _print_places(study)


def _print_policies(study: "Study", rows: list[dict[str, Any]]) -> None:
    logging = study.record.logging_policy
    mark = "* " if study.choice.chosen is None else ""
    current = (f"{mark}what is done now", number(logging.value), "", "", str(study.record.data.validation_episodes), "")
    print_table(
        f"From cautious to bold: {_tried(study)}",
        ("policy", "value", "new − current", "at least", "effective cases", "verdict"),
        [current, *(_row(row) for row in rows)],
        "At least: by how much the policy is shown to be better, for all policies together; without a number the logs "
        "cannot tell. Effective cases: how many past cases speak for the policy.",
    )


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    mark = "* " if row["chosen"] else ""
    return (
        f"{mark}{_without_rule(row['candidate'])}, {row['note'] or 'step ' + str(row['step'])}",
        number(row["sntis"]),
        "-" if row["gain"] is None else f"{row['gain']:+.3g}",
        "-" if row["shown"] is None else f"{row['shown']:+.3g}",
        _whole(row["ess"]),
        row["verdict"] or "-",
    )


def _without_rule(candidate: str) -> str:
    """The rule is told apart.

    >>> _without_rule("fittedq history=2 rule=(radius=q100 scale=standard) backup=soft")
    'fittedq history=2 backup=soft'
    """
    return re.sub(r" rule=\([^)]*\)", "", candidate)


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few of those that can be verified and of those that cannot, with the ends of both and the chosen one."""
    shown, beyond = ([row for row in rows if (row["shown"] is None) == unknown] for unknown in (False, True))
    return [*_spread(shown, MOST_RUNGS), *_spread(beyond, MOST_BEYOND)]


def _spread(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    step = max((len(rows) - 1) / (most - 1), 1.0)
    kept = {round(place * step) for place in range(most)}
    return [row for place, row in enumerate(rows) if place in kept or row["chosen"]]


def _rule(study: "Study") -> str:
    rule = study.policy.eligibility.settings
    words = []
    if rule.radius is not None:
        words.append(f"only as somebody did in a like case (radius {number(float(rule.radius), 3)})")
    if rule.minimum_probability is not None:
        words.append(f"only as is done with probability {rule.minimum_probability:g} or more")
    if rule.relative_probability is not None:
        words.append(f"only as is done at least {rule.relative_probability:g} times as often as what is done most")
    return " and ".join(words) or "under no rule but that somebody may act so"


def _print_worth(study: "Study") -> None:
    look, result = study.test_look, study.result
    assert result is not None
    if look is not None:
        print_estimate(look.estimate, f"On {look.estimate.n_episodes} test episodes, used for nothing else")
        logging = result.logging_policy_on_test
        if logging is not None:
            say(f"What is done now achieved {number(logging.value)} ± {number(logging.standard_error)} there.")
        if look.caveat:
            say(f"- {look.caveat}")
    elif result.estimate is not None:
        where = f"On {result.estimate.n_episodes} held-out episodes, by which it was chosen"
        print_estimate(result.estimate, where)


def _print_places(study: "Study") -> None:
    if study.choice.chosen is not None:
        say(f"\nThe policy is in {study.directory / 'policy'}.")
    else:
        say(
            "\nThere is no new policy to act by: carry on as before. "
            f"A model of the logging policy, for comparisons, is in {study.directory / 'behavior'}."
        )
    if (study.directory / "promising").exists():
        say(f"The most promising policy, which nothing has shown to be better, is in {study.directory / 'promising'}.")


def print_estimate(estimate: "Estimate", where: str) -> None:
    """An estimate in a few lines."""
    ends = "" if estimate.low is None else f" {interval(estimate.low, estimate.high)}"
    level = "" if estimate.level is None else f" ({100 * estimate.level:g}%)"
    say(f"{where}: value {number(estimate.value)}{ends}{level}", bold=True)
    if estimate.gain is not None:
        say(f"New − current = {estimate.gain}")
    if estimate.verdict:
        say(f"Verdict: {estimate.verdict}", bold=True)
    for sentence in dict.fromkeys((*estimate.reasons, *estimate.warnings)):
        say(f"- {sentence}")
    if estimate.advice:
        say(f"Next: {estimate.advice}")


def study_document(study: "Study") -> dict[str, Any]:
    """The study as one JSON document."""
    look, result = study.test_look, study.result
    return {
        "directory": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        "answer": None if result is None else to_plain(study.answer),
        "chosen": study.chosen_name,
        "reason": study.choice.reason,
        "gain": None if result is None else to_plain(result.gain),
        "propensities": study.record.data.propensities,
        "logging_policy": to_plain(study.record.logging_policy),
        "estimate": to_plain(look.estimate if look is not None else None if result is None else result.estimate),
        "looks_at_test": 0 if look is None else look.number,
        "left_out": [task.run_id for task in study.left_out],
        "failed": {run_id: run.message for run_id, run in study.runs.items() if run.status != "done"},
        "table": study.table().to_pylist(),
    }


def _tried(study: "Study") -> str:
    counts = Counter(study.all_runs[point.run_id].task.candidate.learner for point in study.points)
    return ", ".join(f"{count} of {learner}" for learner, count in counts.items()) or "no policy has been judged"


def _best_of_each_learner(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = best.get(row["learner"])
        if row["chosen"] or known is None or (not known["chosen"] and _score(row) > _score(known)):
            best[row["learner"]] = row
    return list(best.values())


def _score(row: dict[str, Any]) -> float:
    return float("-inf") if row["score"] is None else float(row["score"])


def _whole(count: float | None) -> str:
    """A count without needless digits.

    >>> _whole(1263.4), _whole(3.14)
    ('1,263', '3.1')
    """
    return "-" if count is None else f"{count:,.{1 if count < 10 else 0}f}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
