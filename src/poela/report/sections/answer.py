"""The answer in words: change, try or keep, by how much, under which rule, and what could undo it."""

from markupsafe import Markup

from poela.core.readable import effective, factor_in_words
from poela.eligibility.words import rule_in_words, strictness_in_words
from poela.report.blocks import Block, Fact, Facts, Section, Text, named
from poela.report.study_logs import Shown
from poela.report.wording import readable
from poela.studies.answer import whose_gain
from poela.studies.study import Study
from poela.studies.words import changed_in_words, sentence


def answer_section(study: Study, shown: Shown | None) -> Section:
    """What to do, why, and what next."""
    answer = study.answer
    blocks: list[Block] = [Text(answer.headline, "lead"), *([Text(answer.words)] if answer.words else [])]
    blocks += [Text(answer.why), Facts(_facts(study, shown))]
    if shown is not None and shown.recommended:
        blocks.append(Text(_recommended(shown, answer.called)))
    elif shown is not None:
        words = named(shown.name)
        blocks.append(
            Text(
                "Nothing is recommended. Where this page looks at a policy, it is the one that is worth a trial: "
                + words
                + "."
            )
        )
    blocks += _test(study)
    if study.left_out:
        blocks.append(Text(f"{len(study.left_out)} of {len(study.tasks)} runs were left out.", "note"))
    return Section("answer", "The answer", (*blocks, Text(f"Next: {answer.next}", "next")))


def _recommended(shown: Shown, called: str) -> Markup:
    rule = getattr(shown.policy, "eligibility", None)
    acts = "" if rule is None else f" {rule_in_words(rule)} {strictness_in_words(rule)}".rstrip()
    return Markup(f"{called.capitalize()}: ") + named(shown.name) + f".{acts}"


def _facts(study: Study, shown: Shown | None) -> list[Fact]:
    assert study.result is not None
    logging, gain = study.record.logging_policy, study.gain
    error = logging.standard_error
    facts = []
    if gain is not None:
        ends = None
        if gain.low is not None and gain.high is not None:
            ends = f"{readable(gain.low, error, signed=True)} to {readable(gain.high, error, signed=True)}"
        whose = "New − current" if study.choice.chosen is not None else f"{whose_gain(study.result)} − current"
        facts.append(Fact(whose[:1].upper() + whose[1:], readable(gain.value, error, signed=True), _holds(study, ends)))
    facts.append(
        Fact(
            "What is done now",
            readable(logging.value, error),
            f"± {readable(error, error)} (standard error of the mean return)",
        )
    )
    if shown is not None:
        facts += _of_policy(study, shown)
    if gain is not None and gain.undone_by is not None:
        what = "its own bound" if study.keeps_logging_policy else "what is shown"
        facts.append(
            Fact(
                "Γ",
                factor_in_words(gain.undone_by),
                f"weights would have to be wrong by this factor to undo {what}",
            )
        )
    return facts


def _holds(study: Study, ends: str | None) -> str:
    """An interval, and what it holds for."""
    selection = study.settings.selection
    if ends is None:
        return "no interval"
    if study.choice.chosen is not None and selection.by == "gain":
        return f"{ends}; the lower end holds for all policies together ({100 * selection.confidence:g}%)"
    return f"{ends} ({100 * study.settings.scoring.level:g}%), as if no other policy had been tried"


def _of_policy(study: Study, shown: Shown) -> list[Fact]:
    metrics = shown.point.metrics
    verdict = study.estimate.verdict if shown.recommended else shown.point.verdict
    reason = study.estimate.reasons[0] if shown.recommended and study.estimate.reasons else ""
    facts = [
        Fact(
            "Effective cases",
            effective(metrics.get("ess")),
            f"of {'' if study.result is None else study.result.units} that judge",
        )
    ]
    if changed := changed_in_words(metrics):
        share = metrics.get("departure") is not None
        whose = "of all logged decisions" if share else "on average; SD: deviations of what was logged"
        facts.append(Fact("Decisions changed", changed, whose))
    if verdict:
        facts.append(Fact("Verdict", verdict, reason))
    return facts


def _test(study: Study) -> list[Block]:
    evaluation = study.test_evaluation
    if evaluation is None:
        return []
    estimate, error = evaluation.estimate, evaluation.estimate.standard_error
    ends = ""
    if estimate.low is not None and estimate.high is not None and estimate.level is not None:
        ends = f" [{readable(estimate.low, error)}, {readable(estimate.high, error)}] ({100 * estimate.level:g}%)"
    where = f"on {estimate.n_episodes:,} test episodes, used for nothing else"
    words = f"{where}, it is worth {readable(estimate.value, error)}{ends}"
    return [Text(sentence(words)), *([Text(sentence(evaluation.caveat), "note")] if evaluation.caveat else [])]
