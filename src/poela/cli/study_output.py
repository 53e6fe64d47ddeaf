"""A study in words and tables, or as JSON: the answer first, then the ladder, then the evidence."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from poela.cli.output import print_json, print_table, say
from poela.core.readable import effective, factor_in_words, share_in_words
from poela.core.typed import to_plain
from poela.eligibility.words import rule_in_words, strictness_in_words
from poela.evaluation.outside import LEAST_OUTSIDE
from poela.studies.allotment import curve, spend_name, spend_points
from poela.studies.findings_of_audit import context_in_words
from poela.studies.groups import Groups, moves_in_words
from poela.studies.guards_later import (
    ABOUT_CELLS,
    amount_number,
    guard_cell,
    guard_columns,
    guard_documents,
    guard_header,
    guard_sentences,
)
from poela.studies.logging_policy import unseen_holes
from poela.studies.names import (
    FAMILIES,
    changed_in_words,
    kept_by_support,
    outside_in_words,
    sentence,
    thinned,
    where_on_path,
    without_rule,
)
from poela.studies.outcome_unit import Outcome
from poela.studies.so_far import left_out_in_words, so_far_in_words
from poela.studies.store import LOTLESS

if TYPE_CHECKING:
    from poela.evaluation.estimate import Estimate
    from poela.studies.records import ChoiceRecord
    from poela.studies.study import Study

MOST_FAILED, MOST_OF_CURVE = 2, 8
ADD_UP = "Weights are normalised within each group, so gains do not add up exactly to the overall gain."
TRIAL = "→ "  # before the name of a policy
BY_GAIN, BY_ESTIMATE = ("new −\ncurrent", "at\nleast"), ("value", "score")


def print_study(study: "Study", *, as_json: bool, every_point: bool = False, details: bool = False) -> None:
    """What to do and why, the policies from cautious to bold, and what the recommended one is worth."""
    if as_json:
        print_json(study_document(study))
        return
    if study.result is None:
        say(f"{study.directory}: {len(study.runs)} of {len(study.tasks)} runs have finished; continue with --resume.")
        if study.so_far is not None:
            say(so_far_in_words(study.so_far, study.record))
        return
    answer = study.answer
    say(answer.headline, bold=True)
    for more in filter(None, (answer.since, answer.words)):
        say(more, bold=True)
    say(answer.why)
    if study.choice.chosen is not None:
        rule = study.policy.eligibility
        say(" ".join(filter(None, (rule_in_words(rule), strictness_in_words(rule), unseen_holes(study)))))
    say(f"Next: {answer.next}")
    say("")
    _print_policies(study, every_point)
    if kept := kept_by_support(study.points):
        say(kept)
    _print_guards(study)
    _print_spend(study)
    _print_failed(study, every_point)
    if study.left_out:
        say(left_out_in_words(study))
    if study.choice.chosen is not None:
        say(f"{answer.called.capitalize()}: {study.chosen_name}", bold=True)
    if details:
        _print_details(study, every_point)
    if study.result.groups is not None:
        print_groups(study.result.groups)
    _print_worth(study)
    _print_outside(study)
    say(sentence(study.record.data.propensities))
    say(context_in_words(study.record.data.layout.context or ()))
    for note in () if study.record.audit is None else study.record.audit.notes:
        say(f"Audit: {note}.")
    _print_places(study)


def _print_policies(study: "Study", every_point: bool) -> None:
    rows, by_gain = study.table().to_pylist(), study.settings.selection.by == "gain"
    if not every_point:
        rows = thinned(study.ladder().to_pylist()) if by_gain else _best_of_each_learner(rows)
    logging, result = study.record.logging_policy, study.result
    assert result is not None
    error, mark = logging.standard_error, "* " if study.choice.chosen is None else ""
    units = result.estimate.diagnostics
    of = {"ess": logging.ess or units.n_units, "sntis": logging.value}
    amounts = any(row["change_sd"] is not None for row in rows)
    unit = study.record.outcome or Outcome()
    current = {"gain": None, "shown": None, "score": None, "verdict": "", **of}
    guards = guard_columns(result.guards)
    never = any((row["outside"] or 0.0) >= LEAST_OUTSIDE for row in rows)  # if any policy has such decisions
    told = [[guard_cell(guard, numbers, row) for guard, numbers in guards.items()] for row in (current, *rows)]
    cells = [_cells(row, error, by_gain, unit) for row in (current, *rows)]
    names = [f"{mark}what is done now", *(f"{_mark(row)}{row['name']}" for row in rows)]
    judged = (*(BY_GAIN if by_gain else BY_ESTIMATE), *map(guard_header, guards))
    print_table(
        f"{'From cautious to bold' if by_gain else 'Policies'} ({_tried(study)}){in_unit(unit, gains=by_gain)}",
        ("policy", *judged, "effective\ncases", "decisions\nchanged", *never * ("never\ndone",), "verdict"),
        [
            (name, *own[:2], *more, *own[2:-1], *never * (_never_done(row),), own[-1])
            for name, own, more, row in zip(names, cells, told, (current, *rows), strict=True)
        ],
        f"Effective cases: effective sample size, in {'cases' if units.n_clusters is None else 'clusters'}."
        + by_gain * "\nAt least: lower confidence bound, for all policies together; -: too few effective cases to tell."
        + any(_mark(row) == TRIAL for row in rows) * f"\n{TRIAL}worth a trial."
        + bool(guards) * f"\n{ABOUT_CELLS}"
        + never * "\nNever done: share of decisions that were never made in similar cases."
        + amounts * "\nDecisions changed: by how much on average (SD: in standard deviations of the logged actions).",
    )


def _mark(row: dict[str, Any]) -> str:
    return "* " if row["chosen"] else TRIAL if row["role"] == "worth a trial" else ""


def _print_guards(study: "Study") -> None:
    """What the policy that is told of does to guarded outcomes: the recommended one, or the best that is not."""
    result = study.result
    if result is None or not result.guards or (point := result.guarded_point) is None:
        return
    say(f"Guardrails, change by {study.name_of(point)} (with the gain's confidence, for all policies together):")
    for told in guard_sentences(result.guards, point.metrics):
        say(f"- {told}")


def _print_spend(study: "Study") -> None:
    """Shown gain against spend: the policies that no cheaper one beats."""
    best = curve(spend_points(study))
    if not best:
        return
    unit, error = study.record.outcome or Outcome(), study.record.logging_policy.standard_error
    step = -(-len(best) // MOST_OF_CURVE)
    rows = [one for place, one in enumerate(best) if place % step == 0 or one.chosen or place == len(best) - 1]
    cells = [
        (
            f"{'* ' * one.chosen}{one.name}",
            amount_number(one.spend),
            amount_number(one.at_most),
            unit.number(one.shown, error, signed=True),
        )
        for one in rows
    ]
    print_table(
        f"Gain against spend{in_unit(unit, gains=True)}",
        ("policy", spend_name(study), "at most", "gain, at\nleast"),
        cells,
    )


def _print_failed(study: "Study", every: bool) -> None:
    """Runs that have no policy: the first few, unless all are asked for."""
    failed = [run for run in study.runs.values() if run.status != "done"]
    for run in failed if every else failed[:MOST_FAILED]:
        say(f"{without_rule(str(run.task.candidate))}, restart {run.task.restart}, {run.status}: {run.message}")
    if len(failed) > MOST_FAILED and not every:
        say(f"{len(failed) - MOST_FAILED} more runs have no policy: --all shows them.")


def _print_details(study: "Study", every: bool) -> None:
    """How the policies of the ladder were made, the recommended one among them."""
    by_gain = study.settings.selection.by == "gain" and not every
    rows = thinned(study.ladder().to_pylist()) if by_gain else study.table().to_pylist()
    say("Details: how each policy was made")
    for row in rows:
        say(f"- {row['name']}: {without_rule(row['candidate'])}, restart {row['restart']}, {where_on_path(row)}")


def print_groups(groups: Groups) -> None:
    """Who gets what and, where there are groups, who gains."""
    if len(groups) == 1:
        say(f"Who gets what, before → after: {groups.in_words()}.")
        return
    what = "Mean amounts" if groups.amounts else "Who gets what: shares of decisions"
    header, rows = groups.who_gets_what()
    note = "Before: as logged. After: in episodes under the new policy. Changed: in the logged contexts."
    print_table(f"{what}, before → after", header, rows, "" if groups.amounts else note)
    if moves := moves_in_words(groups):
        say(f"Most changes: {moves}.")
    header, rows = groups.who_gains()
    together = f"At least: {groups.confidence:.0%}, for all groups together, like the interval"
    added = "Gains, weighted by episodes, add up to the overall gain." if groups.adds_up else ADD_UP
    print_table(f"Who gains{in_unit(groups.outcome, gains=True)}", header, rows, f"{together}.\n{added}")
    for note in groups.notes:
        say(f"{note}.")


def in_unit(outcome: Outcome, *, gains: bool = False) -> str:
    """What numbers of a table are in, after its title; empty where nothing was said."""
    title = outcome.gain_title if gains else outcome.title
    return f", {title}" if title else ""


def _cells(row: dict[str, Any], error: float, by_gain: bool, unit: Outcome) -> tuple[str, ...]:
    if by_gain:
        judged = (unit.number(row["gain"], error, signed=True), unit.number(row["shown"], error, signed=True))
    else:
        judged = (unit.number(row["sntis"], error), unit.number(row["score"], error))
    return (*judged, effective(row["ess"]), changed_in_words(row) or "-", row["verdict"] or "-")


def _never_done(row: dict[str, Any]) -> str:
    return "-" if row.get("outside") is None else share_in_words(row["outside"])


def _print_worth(study: "Study") -> None:
    look, result, unit = study.test_evaluation, study.result, study.record.outcome
    assert result is not None
    if look is None and result.chosen is None:
        _print_value(result.estimate, f"What is done now, on {result.estimate.n_episodes:,} episodes", unit)
        return
    if look is None:
        _print_value(result.estimate, f"Its value on the {result.estimate.n_episodes:,} held-out episodes", unit)
        if study.settings.selection.by == "gain":
            say("- this interval ignores the choice among many policies; the bound above accounts for it.")
        say(f"Verdict: {result.estimate.verdict} ({'; '.join(result.estimate.reasons)})")
        return
    where = f"On {look.estimate.n_episodes:,} test episodes, not used for anything else"
    print_estimate(look.estimate, where, look.caveat, look.advice, unit)
    logging = result.logging_policy_on_test
    if logging is not None and result.chosen is not None:
        error, unit = logging.standard_error, unit or Outcome()
        say(f"What is done now achieved {unit.number(logging.value, error)} ± {unit.number(error, error)} there.")


def _print_outside(study: "Study") -> None:
    """What of the policy lies outside support: always where no rule keeps it in, else where there is anything."""
    result = study.result
    assert result is not None
    place = result.promising if result.chosen is None else result.chosen
    if place is None:
        return
    point = study.points[place]
    settings = getattr(getattr(study.policy_of(point), "eligibility", None), "settings", None)
    least = 0.0 if getattr(settings, "support", None) is None else LEAST_OUTSIDE
    if words := outside_in_words(point.metrics.get("outside"), point.metrics.get("leaving"), least):
        say(f"{'The policy worth a trial: ' if result.chosen is None else 'Support: '}{words}.")


def _print_places(study: "Study") -> None:
    result = study.result
    assert result is not None
    if result.chosen is not None:
        trial = " that is worth a trial" if study.answer.kind == "worth a trial" else ""
        say(f"\nThe policy{trial} is in {study.directory / 'policy'}.")
    else:
        say(
            "\nNo new policy is recommended. "
            f"A model of what is done now, for comparison, is in {study.directory / 'behavior'}."
        )
    if result.lotless is not None:
        name = study.name_of(result.points[result.lotless])
        say(
            f"A policy that needs no random draws is in {study.directory / LOTLESS} ({name}); poela decide --leave "
            "lists what it bars and leaves the rest to people."
        )
    if result.promising is not None and result.promising != result.chosen:
        beside = "" if result.chosen is None else ", beside it"
        told = result.points[result.promising].metrics.get("own") is not None  # by studies of this version
        what = "has a policy that is better by its own bound" if told else "has the policy with the highest estimate"
        name = study.name_of(result.points[result.promising])
        say(f"{'Worth a trial' if told else 'Unproven'}{beside}: {study.directory / 'promising'} {what} ({name}).")


def _print_value(estimate: "Estimate", where: str, outcome: Outcome | None = None) -> None:
    error, unit = estimate.standard_error, outcome or Outcome()
    ends = "" if estimate.low is None else f" {unit.between(estimate.low, estimate.high, error)}"
    level = "" if estimate.level is None else f" ({100 * estimate.level:g}%)"
    value = f"{unit.number(estimate.value, error)}{ends}{in_unit(unit)}"
    say(f"{where}: {value}{level}{estimate.about}", bold=True)


def print_estimate(estimate: "Estimate", where: str, caveat: str, advice: str, outcome: Outcome | None = None) -> None:
    """An estimate in a few lines, and what to do next."""
    gain, error, unit = estimate.gain, estimate.standard_error, outcome or Outcome()
    _print_value(estimate, where, outcome)
    if gain is not None:
        ends = "" if gain.low is None else f" {unit.between(gain.low, gain.high, error)}"
        factor, gone = gain.undone_by, "; it would vanish if weights were wrong by a factor of"
        undone = "" if factor is None else f"{gone} {factor_in_words(factor)}"
        say(f"New − current: {unit.number(gain.value, error, signed=True)}{ends}{in_unit(unit, gains=True)}{undone}")
    if words := outside_in_words(estimate.diagnostics.outside_share, estimate.diagnostics.leaving_share):
        say(f"Support: {words}.")
    if estimate.verdict and estimate.estimator != "behavior":
        say(f"Verdict: {estimate.verdict}", bold=True)
        for sentence in dict.fromkeys((*estimate.reasons, *estimate.warnings)):
            say(f"- {sentence}")
        if caveat:
            say(f"- {caveat}")
        if advice:
            say(f"Next: {advice}")


def study_document(study: "Study") -> dict[str, Any]:
    """The study as one JSON document."""
    look, result = study.test_evaluation, study.result
    return {
        "directory": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        **({} if study.so_far is None else {"so_far": to_plain(study.so_far)}),
        "answer": None if result is None else {**to_plain(study.answer), "change": study.answer.change},
        "chosen": study.chosen_name,
        "details": study.details_of(study.choice.chosen),
        "reason": study.choice.reason,
        "gain": None if result is None else to_plain(result.gain),
        "promising": None
        if result is None or result.promising is None
        else study.name_of(study.points[result.promising]),
        "episodes_needed": None if result is None else result.needed,
        "propensities": study.record.data.propensities,
        "outcome": to_plain(study.record.outcome),
        "groups": None if result is None else to_plain(result.groups),
        "guards": None if result is None else _guard_documents(result),
        "spend": [asdict(one) for one in curve(spend_points(study))],
        "context": list(study.record.data.layout.context or ()),
        "audit": to_plain(study.record.audit),
        "logging_policy": to_plain(study.record.logging_policy),
        "estimate": to_plain(look.estimate if look is not None else None if result is None else result.estimate),
        "looks_at_test": 0 if look is None else look.number,
        "left_out": [task.run_id for task in study.left_out],
        "failed": {run_id: run.message for run_id, run in study.runs.items() if run.status != "done"},
        "ladder": study.ladder().to_pylist(),
        "table": study.table().to_pylist(),
    }


def _guard_documents(result: "ChoiceRecord") -> list[dict[str, Any]]:
    point = result.guarded_point
    return guard_documents(result.guards, {} if point is None else point.metrics)


def _tried(study: "Study") -> str:
    counts = Counter(study.all_runs[point.run_id].task.candidate.learner for point in study.points)
    tried = ", ".join(f"{count} {FAMILIES.get(learner, learner)}" for learner, count in counts.items())
    return f"tried: {tried}" if tried else "no policy has been judged"


def _best_of_each_learner(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = best.get(row["learner"])
        if row["chosen"] or known is None or (not known["chosen"] and _score(row) > _score(known)):
            best[row["learner"]] = row
    return list(best.values())


def _score(row: dict[str, Any]) -> float:
    return float("-inf") if row["score"] is None else float(row["score"])
