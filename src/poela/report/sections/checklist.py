"""A filled reporting checklist: what a study can answer, and what its authors have to say.

The items follow TARGET (observational studies that emulate a target trial; Cashin et al. 2025) and the guidelines for
reinforcement learning in healthcare of Gottesman et al. (2019), in our own words, as far as they apply.
"""

from dataclasses import dataclass

from poela.core.readable import effective, factor_in_words
from poela.data.trajectories import Trajectories
from poela.eligibility.words import rule_in_words
from poela.report.blocks import Column, Entry, Section, Table, Text, Words
from poela.report.numbers.enough import usual_range
from poela.report.study_logs import ShownPolicy
from poela.report.subject import Numbers, Subject
from poela.stats.verdict import chances
from poela.studies.answer import whose_gain
from poela.studies.study import Study
from poela.studies.words import changed_in_words, gaps_in_words, sentence

TITLE, ABOUT = "Reporting checklist", "TARGET and Gottesman et al., answered as far as the study can"
YOURS = "for you to fill in"


@dataclass(frozen=True)
class Item:
    """One item: where it is from, what it asks, and the answer."""

    source: str
    asks: str
    answer: Words = YOURS


def checklist_section(subject: Subject) -> Section:
    """All items, answered from the study where it can."""
    study, shown, logs = subject.study, subject.shown, subject.train
    items = [*target_items(study, shown, logs), *healthcare_items(study, shown, logs)]
    open_ones = sum(item.answer == YOURS for item in items)
    rows = [(Entry(item.source), Entry(item.asks), Entry(item.answer)) for item in items]
    words = f"The study answers {len(items) - open_ones} of {len(items)} items; {open_ones} are {YOURS}."
    yours = frozenset(place for place, item in enumerate(items) if item.answer == YOURS)
    table = Table(
        "Items of TARGET and of Gottesman et al.",
        (Column("from"), Column("item"), Column("answer")),
        rows,
        yours,
        stacked=True,
    )
    return Section("checklist", TITLE, (Text(words), table), ABOUT)


def target_items(study: Study, shown: ShownPolicy | None, logs: Trajectories | None) -> list[Item]:
    """TARGET: the trial that one would have liked to run, and how the logs stand in for it."""
    data = study.record.data
    kind = "Estimated from logged decisions, not from a trial, by importance sampling"
    return [
        Item(
            "TARGET, abstract",
            "Say that logs stand in for a trial, which logs, and what was found",
            f"{kind}. {study.answer.headline}",
        ),
        Item("TARGET, introduction", "The question, and why a trial is not at hand"),
        Item("TARGET, methods", "Where and when the data were recorded, and for what purpose"),
        Item("TARGET, methods", "Who is eligible for the trial and for the emulation"),
        Item("TARGET, methods", "The strategies that are compared", _strategies(study, shown)),
        Item(
            "TARGET, methods",
            "How strategies are assigned, and what stands in for randomisation",
            sentence(data.propensities),
        ),
        Item("TARGET, methods", "When follow-up begins and ends", _follow_up(logs)),
        Item("TARGET, methods", "The outcome", _outcome(study)),
        Item(
            "TARGET, methods",
            "The contrast that is estimated",
            "The mean return of the policy minus that of what is done now, among cases like those of the log.",
        ),
        Item("TARGET, methods", "Assumptions by which the contrast is identified", _assumptions(study)),
        Item(
            "TARGET, methods",
            "What was measured to adjust for confounding",
            f"{len(data.layout.context or ())} features. Whether they are all that decisions rested on is {YOURS}.",
        ),
        Item("TARGET, methods", "The analysis", _analysis(study)),
        *_target_results(study),
    ]


def _target_results(study: Study) -> list[Item]:
    data = study.record.data
    return [
        Item(
            "TARGET, results",
            "How many were selected, and why others were left out",
            f"{data.train_episodes:,} cases are in the log. Who was left out before is {YOURS}.",
        ),
        Item(
            "TARGET, results",
            "What those included are like",
            f"Section “The data”: lengths, actions and returns. A table of patients’ characteristics is {YOURS}.",
        ),
        Item(
            "TARGET, results",
            "Missing data",
            f"{gaps_in_words(data.layout.schema).capitalize()} Why they are empty is {YOURS}.",
        ),
        Item("TARGET, results", "The estimate with its precision", _estimate(study)),
        Item(
            "TARGET, results",
            "Further analyses",
            "Sensitivity to hidden confounding (Γ), weights by return, gap between training and held-out episodes.",
        ),
        Item("TARGET, discussion", "Interpretation, limits, and to whom the result applies"),
        Item("TARGET, other", "Ethics, registration, funding, interests, patients’ involvement"),
        Item(
            "TARGET, other",
            "Code and data",
            f"Section “How to reproduce”: command, settings, versions and hashes. Where to get the data is {YOURS}.",
        ),
    ]


def healthcare_items(study: Study, shown: ShownPolicy | None, logs: Trajectories | None) -> list[Item]:
    """Gottesman et al.: does it see enough, is there enough, and would it behave?"""
    metrics = {} if shown is None else shown.point.metrics
    units = "" if study.result is None else study.result.units
    enough = f"{effective(metrics.get('ess'))} effective cases of {units} support the policy."
    departure, changed = metrics.get("departure"), ""
    if departure is not None:
        changed = f" {departure:.0%} of decisions change; section “What changes, in detail” shows where."
    elif by := changed_in_words(metrics):
        changed = f" Amounts change by {by} on average."
    evaluation = study.test_evaluation
    return [
        Item("Gottesman, variables", "Does the policy see all that decisions depended on?"),
        Item(
            "Gottesman, variables",
            "Did the logging policy remember more than the contexts show?",
            "See section “The data”."
            if logs is not None and not study.record.data.layout.is_real
            else _without_logs(study),
        ),
        Item("Gottesman, variables", "How much hidden confounding would undo the result?", _gamma(study)),
        Item("Gottesman, data", "How many past cases really support the policy?", YOURS if shown is None else enough),
        Item("Gottesman, data", "Does the policy stay where there are data?", _rule(shown)),
        Item("Gottesman, data", "Was it judged on cases that it has not seen?", _judged(study)),
        Item(
            "Gottesman, data",
            "Was it tested on fresh data?",
            "No: add --test, or evaluate on later logs."
            if evaluation is None
            else f"Yes, on {evaluation.estimate.n_episodes:,} cases (evaluation {evaluation.number} on them).",
        ),
        Item(
            "Gottesman, behaviour",
            "What would the policy do differently, and does that make sense to those who decide?",
            f"{changed.strip()} Whether it makes sense is {YOURS}." if changed else YOURS,
        ),
        Item("Gottesman, behaviour", "Is the reward what one wants?"),
        Item("Gottesman, behaviour", "Will those who act by it be like those in the log, and who watches over it?"),
    ]


def _strategies(study: Study, shown: ShownPolicy | None) -> str:
    tried = f"What is done now, against the best of {len(study.points)} policies"
    if shown is None or not shown.recommended:
        return f"{tried}; none is recommended."
    return f"{tried}; {study.answer.called}: {shown.name}."


def _without_logs(study: Study) -> str:
    real = study.record.data.layout.is_real
    return "This is not checked for real-valued actions." if real else "Needs the logs (--logs)."


def _follow_up(logs: Trajectories | None) -> str:
    if logs is None:
        return YOURS
    least, most = map(int, usual_range(logs.lengths))
    steps = f"{least} to {most} decisions" if least < most else "one decision" if most == 1 else f"{most} decisions"
    mostly = "" if (logs.lengths == most).all() else " in most cases"
    return f"From the first to the last decision of a case: {steps}{mostly}. How much time that is, is {YOURS}."


def _outcome(study: Study) -> str:
    discount = study.settings.scoring.discount
    worth = "" if discount == 1 else f", discounted by {discount:g} at each step"
    cap = study.settings.scoring.cap
    capped = "" if cap is None else f" ({cap.in_words})"
    return f"The sum of rewards over a case{worth}{capped}. What a reward stands for is {YOURS}."


def _assumptions(study: Study) -> str:
    ratio = "Positivity (overlap): the rule of allowed actions keeps it, and effective cases measure it."
    if study.record.data.estimated:
        hidden = (
            "No hidden confounding: contexts hold everything that decisions rested on. No log can check this; see Γ"
        )
        return f"{hidden}. {ratio}"
    known = chances(study.record.data.layout.is_real)
    return f"The logged {known} are those by which decisions were made. {ratio}"


def _analysis(study: Study) -> str:
    data, settings = study.record.data, study.settings
    how = f"{data.folds} folds" if data.folds > 1 else "one split"
    return (
        f"{len(study.points)} policies judged in {how} by self-normalised truncated importance sampling; chosen by "
        f"{settings.selection}."
    )


def _estimate(study: Study) -> str:
    gain, number = study.gain, Numbers.of(study).number
    if gain is None:
        return "There is no estimate that could be believed."
    ends = ""
    if gain.low is not None and gain.high is not None:
        ends = f" [{number(gain.low, signed=True)}, {number(gain.high, signed=True)}]"
    assert study.result is not None
    whose = whose_gain(study.result)
    whose = f" (of the policy {whose}, which is not recommended)" if whose else ""
    return f"New − current {number(gain.value, signed=True)}{ends}{whose}."


def _gamma(study: Study) -> str:
    gain = study.gain
    if gain is None or gain.undone_by is None:
        return "There is no gain to undo."
    return f"Weights that are wrong by a factor of Γ = {factor_in_words(gain.undone_by)}, in the worst way."


def _rule(shown: ShownPolicy | None) -> str:
    rule = None if shown is None else getattr(shown.policy, "eligibility", None)
    return YOURS if rule is None else rule_in_words(rule)


def _judged(study: Study) -> str:
    data = study.record.data
    how = f"in {data.folds} folds" if data.folds > 1 else "in one split"
    return f"Yes: {data.validation_episodes:,} held-out cases, {how}."
