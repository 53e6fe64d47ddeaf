"""A filled reporting checklist: what a study can answer, and what its authors have to say.

The items follow TARGET (observational studies that emulate a target trial; Cashin et al. 2025) and the guidelines for
reinforcement learning in healthcare of Gottesman et al. (2019), in our own words, as far as they apply.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from poela.core.live import references_in
from poela.core.readable import effective, factor_in_words
from poela.core.references import described
from poela.core.typed import to_plain
from poela.data.trajectories import Trajectories
from poela.eligibility.words import rule_in_words
from poela.report.blocks import Block, Code, Column, Entry, Section, Table, Text, Words
from poela.report.numbers.judged import usual_range
from poela.report.said import said_of
from poela.report.study_logs import ShownPolicy, StudyLogs
from poela.report.subject import Numbers, Subject
from poela.studies.answer import whose_gain
from poela.studies.candidates import Candidate
from poela.studies.defaults import default_candidates
from poela.studies.names import changed_in_words, gaps_in_words, sentence
from poela.studies.settings import StudySettings
from poela.studies.study import Study

# How to reproduce a study: the command, what it reads, hashes, versions and settings.

REPRODUCE_TITLE, REPRODUCE_ABOUT = "How to reproduce", "command, settings, versions and hashes"


BY_CODE = "No command makes this study: it was made with objects of a Python session ({}), whose code has to run again."


def reproduce_section(study: Study, logs: StudyLogs | None) -> Section:
    """The command and everything that the result depends on."""
    data = study.record.data
    settings = study.settings
    objects = sorted({described(text) for text in references_in(to_plain(settings))})
    same = "" if logs is None else " The logs behind this page have the same hash."
    blocks: list[Block] = [
        Text(
            f"The same logs, settings, versions and kind of machine give the same study.{same} LOGS is the file of "
            "logged decisions; layout.toml (below) names its columns. Categories and medians are not in it: they are "
            "learned from LOGS again."
        ),
        Code("Command", command_of(settings)) if not objects else Text(BY_CODE.format(", ".join(objects))),
        # Its schema holds values of features, and is learned again from the same logs.
        Code("layout.toml", toml_of(replace(data.layout, schema=None).to_json())),
    ]
    if not objects and _learner_flags(settings) is None:
        blocks.append(Code("candidates.toml", candidates_toml(settings.candidates)))
    blocks += [_hashes(study), _versions(study)]
    plain = json.dumps(to_plain(settings), indent=1)
    blocks.append(Code("Settings in full", plain, folded=True))
    return Section("reproduce", REPRODUCE_TITLE, blocks, REPRODUCE_ABOUT)


def command_of(settings: StudySettings) -> str:
    """The `poela learn` that makes this study; logs that were given in other files are named by what they are for."""
    selection, scoring = settings.selection, settings.scoring
    by_gain = selection.by == "gain"
    usual = {
        "seed": (settings.seed, 0),
        "folds": (settings.folds, 5),
        "test": (settings.test_share or None, None),
        "shares": (None if settings.shares is None else ",".join(f"{share:g}" for share in settings.shares), None),
        "restarts": (settings.restarts, 1),
        "behavior": (settings.behavior, "auto"),
        "discount": (scoring.discount, 1.0),
        "choose-by": (selection.by, "gain"),
        "checkpoints": (selection.checkpoints, "best"),
        "confidence": (selection.confidence, 0.95 if by_gain else 0.99),
        "min-ess": (selection.min_ess, 0.0),
        "sensitivity": (selection.sensitivity, 1.5),
        "level": (scoring.level, 0.95),
        "cap": (None if scoring.cap is None else str(scoring.cap), None),
        "returns": (
            None if scoring.bounds is None else f"{scoring.bounds.lowest_return:g},{scoring.bounds.highest_return:g}",
            None,
        ),
    }
    flags = [
        f"--{name}{'=' if _flag(now).startswith('-') else ' '}{shlex.quote(_flag(now))}"
        for name, (now, then) in usual.items()
        if now != then and now is not None
    ]
    tried = _learner_flags(settings)
    flags += ["--candidates candidates.toml"] if tried is None else tried
    return " ".join(["poela learn LOGS --out study/ --layout layout.toml", *flags])


def _flag(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _learner_flags(settings: StudySettings) -> list[str] | None:
    """How the candidates are asked for by names of learners; None where that is not possible."""
    names = [*dict.fromkeys(candidate.learner for candidate in settings.candidates)]
    for learners in (None, names):
        for ruled in (True, False):
            if tuple(default_candidates(learners, ruled=ruled, behavior=settings.behavior)) == settings.candidates:
                flags = [] if learners is None else [f"--learners {','.join(names)}"]
                return [*flags, *([] if ruled else ["--no-rule"])]
    return None


def candidates_toml(candidates: tuple[Candidate, ...]) -> str:
    """The candidates as the file that `--candidates` reads, where a list holds alternatives: here, one."""
    grids = []
    for candidate in candidates:
        settings = to_plain(candidate.settings)
        lines = [f"{name} = [{_toml(value)}]" for name, value in settings.items() if value is not None]
        grids.append("\n".join(["[[grid]]", f"learner = {json.dumps(candidate.learner)}", *lines]))
    return "\n\n".join(grids)


def toml_of(document: Mapping[str, Any]) -> str:
    """A flat document as TOML.

    >>> print(toml_of({"episode": "stay", "cluster": None, "context": ["age"]}))
    episode = "stay"
    context = ["age"]
    """
    return "\n".join(f"{name} = {_toml(value)}" for name, value in document.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{_toml(name)} = {_toml(item)}" for name, item in value.items() if item is not None)
            + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # TOML knows no halves of letters, which JSON writes beyond the first 65536; what turns text around goes by number.
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


def _hashes(study: Study) -> Table:
    rows = [(Entry(f"{role} logs"), Entry(value or "none")) for role, value in study.record.data.hashes.items()]
    rows.append((Entry("study"), Entry(study.record.fingerprint)))
    return Table("Hashes (SHA-256)", (Column("of"), Column("hash")), rows)


def _versions(study: Study) -> Table:
    sessions = study.record.sessions
    names = [*dict.fromkeys(name for session in sessions for name in session.versions)]
    columns = (Column("package"), *(Column(session.when[:16].replace("T", " ")) for session in sessions[-3:]))
    rows = [(Entry(name), *(Entry(session.versions.get(name, "-")) for session in sessions[-3:])) for name in names]
    return Table("Versions", columns, rows, folded=True)


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
            said_of(study.record.data.layout.action_space).memory[logs is None],
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
    return f"The logged {study.record.data.chances} are those by which decisions were made. {ratio}"


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
