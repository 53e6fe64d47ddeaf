"""The first screen, for the one who decides: what changes, for whom, how sure, what could go wrong, what next."""

from dataclasses import replace

from markupsafe import Markup

from poela.core.readable import about, effective
from poela.report.blocks import Block, Fact, Facts, Panel, Panels, Picture, Pictures, Points, Section, Text, Words
from poela.report.numbers.logged import only_yes_or_no
from poela.report.pictures.drawing import clean
from poela.report.pictures.gains import gain_line
from poela.report.sections.first_changes import cases_panel, changes_panel
from poela.report.sections.first_doubts import rests_panel, watch_panel
from poela.report.sections.groups import gains_picture
from poela.report.subject import Subject, gain_unit
from poela.studies.answer import MOST_EPISODES
from poela.studies.outcome_unit import PERCENT
from poela.studies.words import sentence

TITLES = {"change": "Change practice", "worth a trial": "Worth a trial", "keep": "Keep what you do"}
MOST_GROUPS = 7  # on a brief page, everybody among them
STYLES = {"change": "change", "worth a trial": "trial", "keep": "keep"}


def first_screen(subject: Subject, *, brief: bool = False) -> Section:
    """What to do in one sentence, and six panels below it; on a brief page, also the gain in a few groups."""
    answer = subject.study.answer
    blocks: list[Block] = [
        Text(lead(subject), "lead"),
        Panels(
            (
                changes_panel(subject),
                sure_panel(subject),
                cases_panel(subject),
                watch_panel(subject),
                rests_panel(subject),
                Panel("next", "What next", (Points(next_steps(subject)),)),
            )
        ),
    ]
    if brief and subject.groups is not None and len(subject.groups) > 1:
        few = replace(subject.groups, groups=subject.groups.groups[:MOST_GROUPS])
        blocks.append(Pictures((gains_picture(subject, few),)))
    title = TITLES[answer.kind] + "; one policy is worth a trial" * subject.trial
    return Section("answer", title, blocks, style=f"first {STYLES[answer.kind]}")


def lead(subject: Subject) -> Words:
    """The change in one sentence."""
    study, gain, name = subject.study, subject.study.gain, subject.outcome_name
    if study.choice.chosen is None:
        none = "No policy is shown to do better than what is done now."
        if not subject.trial or gain is None:
            return none
        looks = Markup("{} One may raise {} by {}{}: try it where that is safe.")
        return looks.format(none, name, subject.gained(gain.value, signed=False), subject.each)
    if gain is None or gain.low is None:
        return "A policy was chosen by its estimate, and no gain is shown for it."
    if study.settings.selection.by != "gain":
        chosen = Markup("A policy was chosen by its estimate: it may raise {} by {}{}. Nothing is shown for it.")
        return chosen.format(name, subject.gained(gain.value, signed=False), subject.each)
    raised = Markup("Changing would raise {} by at least {}{}").format(
        name, subject.gained(gain.low, signed=False), subject.each
    )
    if study.answer.kind == "change":
        return raised + "."
    return raised + ", if everything that mattered was recorded. Try it before you change."


def sure_panel(subject: Subject) -> Panel:
    """At least, best estimate, and how sure that is."""
    gain, now = subject.study.gain, subject.study.record.logging_policy.value
    facts = [_fact("Now", subject.number(now), subject.outcome.unit, "mean per case")]
    pictures: list[Picture] = []
    if gain is not None:
        best, low = subject.number(gain.value, signed=True), subject.number(gain.low, signed=True)
        unit = gain_unit(subject.outcome)
        facts = [
            _fact("At least", low, unit, f"{'alone, ' * subject.trial}{subject.confidence} confidence"),
            _fact("Best estimate", best, unit, "often too high"),
            *facts,
        ]
        if gain.low is not None:
            label = f"Gain over what is done now, which is at zero: at least {low}; the best estimate is {best}"
            svg = gain_line(gain.low, gain.value, f"at least {low}", f"best estimate {best}", label)
            pictures.append(Picture("", svg))
    blocks: list[Block] = [Facts(facts), *([Pictures(pictures)] if pictures else []), Points(_how_sure(subject))]
    title = "How much better, and how sure"
    if subject.shown is None or subject.trial:
        title = "How much it may gain" if subject.trial else "How close the best one came"
    return Panel("sure", title, blocks)


def _fact(name: str, number: str, unit: str, note: str) -> Fact:
    return Fact(name, number, ", ".join(filter(None, (clean(unit), note))))


def _how_sure(subject: Subject) -> list[Words]:
    study, result, shown = subject.study, subject.result, subject.shown
    items: list[Words] = [words] if (words := _in_hundred(subject)) else []
    items.append(_bound(subject))
    if shown is None:
        return [*items, *_more_cases(subject)]
    clusters = result.estimate.diagnostics.n_clusters is not None
    units = result.units if clusters else f"{result.estimate.n_episodes:,} past cases"
    items.append(
        f"In effect, {effective(shown.point.metrics.get('ess'))} of {units} support it. {_verdict(subject)}".rstrip()
    )
    if (evaluation := study.test_evaluation) is not None:
        cases, value = evaluation.estimate.n_episodes, subject.level(evaluation.estimate.value)
        items.append(f"On {cases:,} test cases, used for nothing else, it is worth {value}.")
    return items


def _bound(subject: Subject) -> str:
    """What the lower bound holds for."""
    study, result = subject.study, subject.result
    selection, alone = study.settings.selection, "The bound is for this policy alone, as if no other had been tried."
    if subject.shown is None:
        return f"{sentence(result.reason)} {alone if study.gain is not None else ''}".rstrip()
    if subject.trial:
        return f"{alone} Among all {len(result.points):,} policies tried, nothing is shown."
    if selection.by != "gain":
        return alone
    judged = sum(point.metrics.get("shown") is not None for point in result.points)
    allowed = selection.sensitivity
    allows = f" It allows weights up to {allowed:g} times wrong." if study.record.data.doubted and allowed > 1 else ""
    return f"The bound covers all {judged:,} policies that had enough data, of {len(result.points):,} tried.{allows}"


def _more_cases(subject: Subject) -> list[Words]:
    """How many cases would show the gain of the policy that came closest, if it is as estimated."""
    needed, known = subject.result.needed, subject.study.record.data.validation_episodes
    if needed is None or needed <= known:
        return []
    if needed > MOST_EPISODES * known:
        return ["More cases alone would hardly show a gain of that size."]
    return [f"If the estimate is right, about {about(needed)} cases would show it."]


def _in_hundred(subject: Subject) -> str:
    """A gain in yes-or-no outcomes as a count of cases."""
    gain, train = subject.study.gain, subject.train
    if gain is None or gain.low is None or gain.low <= 0 or train is None or not only_yes_or_no(train.returns()):
        return ""
    if subject.outcome.unit == PERCENT:
        return ""  # which says it already
    base = 100 if 100 * gain.low >= 1 else 1000
    best = f"{base * gain.value:.0f} by the best estimate"
    return f"That is at least {base * gain.low:.0f} more of every {base:,} cases, {best}."


def _verdict(subject: Subject) -> str:
    study, shown = subject.study, subject.shown
    assert shown is not None
    verdict = study.estimate.verdict if shown.recommended else shown.point.verdict
    # That propensities are estimates is said below.
    reasons = study.estimate.reasons if shown.recommended and not study.record.data.doubted else ()
    why = f" ({reasons[0]})" if reasons and verdict != "trust" else ""
    return f"Verdict: {verdict}{why}." if verdict else ""


def next_steps(subject: Subject) -> list[Words]:
    """What to do, what to read, and how to see whether it holds."""
    steps: list[Words] = [sentence(subject.study.answer.next.rstrip("."))]
    if subject.shown is None:
        return steps
    if subject.logs is not None:
        steps.append("Go through the largest changes (see the details) with those who decide.")
    act = "Check" if subject.trial else "Act with poela decide, and check"
    return [*steps, f"{act} on new cases that the gain holds (poela evaluate)."]
