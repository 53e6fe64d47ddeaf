"""The answer in full: as the command line prints it, with the policy's settings and its rule of eligible actions."""

from markupsafe import Markup

from poela.core.readable import effective, factor_in_words
from poela.eligibility.words import rule_in_words, strictness_in_words
from poela.report.blocks import Block, Fact, Facts, Section, Text, named
from poela.report.pictures.drawing import clean
from poela.report.study_logs import ShownPolicy
from poela.report.subject import Subject
from poela.studies.answer import whose_gain
from poela.studies.names import changed_in_words, sentence
from poela.studies.so_far import left_out_in_words

TITLE, ABOUT = "The answer in full", "why, by which policy, and every figure behind it"


def full_section(subject: Subject) -> Section:
    """What to do, why, and by which policy."""
    study, shown = subject.study, subject.shown
    answer = study.answer
    blocks: list[Block] = [Text(clean(answer.headline), "strong")]
    blocks += [Text(clean(words)) for words in (answer.words, answer.why) if words]
    blocks.append(Facts(_facts(subject)))
    if shown is not None:
        blocks.append(Text(_policy(subject, shown)))
    blocks += _test(subject)
    if study.left_out:
        blocks.append(Text(left_out_in_words(study), "note"))
    return Section("full", TITLE, (*blocks, Text(f"Next: {answer.next}", "next")), ABOUT)


def _policy(subject: Subject, shown: ShownPolicy) -> Markup:
    """Which policy the page is about, how it was made, and what it may do."""
    called = subject.study.answer.called.capitalize()
    if not shown.recommended:
        called = "Nothing is recommended. Where this page speaks of a policy, it is the one worth a trial"
    rule = getattr(shown.policy, "eligibility", None)
    acts = "" if rule is None else f" {rule_in_words(rule)} {strictness_in_words(rule)}".rstrip()
    made = named(subject.study.details_of(shown.point))
    return Markup("{}: {} <small>({})</small>.{}").format(called, named(shown.name), made, clean(acts))


def _facts(subject: Subject) -> list[Fact]:
    study, gain = subject.study, subject.study.gain
    logging = study.record.logging_policy
    facts = []
    if gain is not None:
        whose = "New − current" if study.choice.chosen is not None else f"{whose_gain(subject.result)} − current"
        facts.append(Fact(whose[:1].upper() + whose[1:], subject.number(gain.value, signed=True), _holds(subject)))
    error = f"± {subject.number(logging.standard_error)} (standard error of the mean return)"
    facts.append(Fact("What is done now", subject.number(logging.value), error))
    if subject.shown is not None:
        facts += _of_policy(subject, subject.shown)
    if gain is not None and gain.undone_by is not None:
        what = "its own bound" if study.keeps_logging_policy else "what is shown"
        note = f"weights would have to be wrong by this factor to undo {what}"
        facts.append(Fact("Γ", factor_in_words(gain.undone_by), note))
    return facts


def _holds(subject: Subject) -> str:
    """The interval of the gain, and what it holds for."""
    study, gain = subject.study, subject.study.gain
    if gain is None or gain.low is None or gain.high is None:
        return "no interval"
    ends = f"{subject.number(gain.low, signed=True)} to {subject.number(gain.high, signed=True)}"
    if study.choice.chosen is not None and study.settings.selection.by == "gain":
        return f"{ends}; the lower end holds for all policies together ({subject.confidence})"
    return f"{ends} ({100 * study.settings.scoring.level:g}%), as if no other policy had been tried"


def _of_policy(subject: Subject, shown: ShownPolicy) -> list[Fact]:
    study, metrics = subject.study, shown.point.metrics
    verdict = study.estimate.verdict if shown.recommended else shown.point.verdict
    reason = study.estimate.reasons[0] if shown.recommended and study.estimate.reasons else ""
    facts = [Fact("Effective cases", effective(metrics.get("ess")), f"of {subject.result.units} that judge")]
    if subject.changed is not None:
        facts.append(Fact("Decisions changed", f"{subject.changed:.0%}", "of all logged decisions"))
    elif changed := changed_in_words(metrics):
        facts.append(Fact("Doses changed by", changed, "on average; SD: standard deviations of what was logged"))
    if verdict:
        facts.append(Fact("Verdict", verdict, reason))
    return facts


def _test(subject: Subject) -> list[Block]:
    evaluation = subject.study.test_evaluation
    if evaluation is None:
        return []
    estimate, ends = evaluation.estimate, ""
    if estimate.low is not None and estimate.high is not None and estimate.level is not None:
        interval = f"[{subject.number(estimate.low)}, {subject.number(estimate.high)}]"
        ends = f" {interval} ({100 * estimate.level:g}%)"
    where = f"on {estimate.n_episodes:,} test cases, used for nothing else"
    words = f"{where}, it is worth {subject.number(estimate.value)}{ends}"
    return [Text(sentence(words)), *([Text(sentence(evaluation.caveat), "note")] if evaluation.caveat else [])]
