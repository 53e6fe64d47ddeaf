"""The first screen, for the one who decides: what changes, for whom, how sure, what could go wrong, what next."""

from dataclasses import replace

import numpy as np
from markupsafe import Markup

from poela.core.readable import about, effective
from poela.policies.valued import BarringPolicy
from poela.report.blocks import (
    Block,
    Fact,
    Facts,
    Panel,
    Panels,
    Picture,
    Pictures,
    Points,
    Section,
    Text,
    Words,
    capital,
    named,
    out_of,
    typeset,
)
from poela.report.numbers.changes import dose_curves, touched
from poela.report.numbers.judged import only_yes_or_no
from poela.report.pictures.drawing import clean, gain_line
from poela.report.sections.changes import curve_picture, percent, practice_picture, shares_picture
from poela.report.sections.data import gaining, gains_picture
from poela.report.sections.first_doubts import rests_panel, watch_panel
from poela.report.study_logs import DoseLogs
from poela.report.subject import Subject, gain_unit
from poela.studies.answer import MOST_EPISODES
from poela.studies.groups import moves_in_words
from poela.studies.names import changed_in_words, sentence
from poela.studies.outcome_unit import PERCENT

# On the first screen: what changes and for whom, and for how many cases.

MOST_ACTIONS = 6  # in the picture: those that change most, and the rest together
MOST_SENTENCES = 6  # of a rule
LONGEST_NAME, LONGEST_MOVE, LONGEST_RULE = 60, 120, 220  # letters; the whole is in the details
LEAST_SAID = 0.005  # of decisions: fewer read as 0%
DIFFER = "Decisions that would differ"


def changes_panel(subject: Subject) -> Panel:
    """The rule in words or, where it cannot be said, who gets what; before and after."""
    title = "What changes" + " in a trial" * subject.trial + ", and for whom"
    if subject.shown is None:
        return Panel("changes-first", title, _nothing_changes(subject))
    blocks: list[Block] = [_rule(subject)]
    if subject.groups is not None and not subject.groups.amounts:
        blocks.append(Pictures((shares_picture(subject.groups, MOST_ACTIONS),)))
    elif subject.doses is not None and (curves := dose_curves(subject.doses, 1)):
        blocks.append(Pictures((curve_picture(curves[0], small=True),)))
    else:
        blocks.append(Text("To see who gets what, before and after, add --logs.", "small"))
    if items := [*_whom(subject), *gaining(subject), *_other_rule(subject)]:
        blocks.append(Points(items))
    return Panel("changes-first", title, blocks)


def _nothing_changes(subject: Subject) -> list[Block]:
    blocks: list[Block] = [Text("Nothing changes: carry on as before.", "rule")]
    if subject.logs is not None:
        blocks.append(Pictures((practice_picture(subject.logs.train, MOST_ACTIONS),)))
    return blocks


def _rule(subject: Subject) -> Block:
    """What the policy says or, where it cannot be said, what kind of change it is."""
    assert subject.shown is not None
    sentences = getattr(subject.shown.policy, "sentences", None)
    if sentences:
        more = len(sentences) - MOST_SENTENCES
        items: list[Words] = [
            named(one, LONGEST_RULE) for one in sentences[: MOST_SENTENCES if more > 1 else len(sentences)]
        ]
        if more > 1:
            items.append(f"And {more} more cases: see the details.")
        return Text(items[0], "rule") if len(items) == 1 else Points(items, "rule")
    groups = subject.groups
    if groups is not None and groups.amounts:
        words: list[Words] = [
            Markup("{}: {} on average, now {}.").format(named(action, LONGEST_NAME), typeset(after), typeset(before))
            for action, before, after in zip(
                groups.actions, groups.everybody.before, groups.everybody.after, strict=True
            )
        ]
        return Text(words[0], "rule") if len(words) == 1 else Points(words[:MOST_SENTENCES], "rule")
    if subject.said.unruled:
        return Text(subject.said.unruled, "rule")
    moves = "" if groups is None else moves_in_words(groups, 1)
    if isinstance(subject.shown.policy, BarringPolicy):
        most = Markup(" Most often: {}.").format(named(moves, LONGEST_MOVE)) if moves else ""
        return Text(Markup("The actions of lowest estimated value are barred.{}").format(most), "rule")
    first = named(capital(moves), LONGEST_RULE) if moves else "The same actions, in other proportions"
    return Text(Markup("{}. No short rule says when.").format(first), "rule")


def _whom(subject: Subject) -> list[Words]:
    """Where most and where fewest decisions change."""
    if subject.doses is not None:
        return _most_moved(subject.doses)
    if subject.logs is None or subject.shown is None:
        return []
    where = touched(subject.logs)
    if where is None:
        return []
    sentence = Markup("{} of decisions with {} change, but {} of those with {}.")
    return [
        sentence.format(
            percent(where.most_share),
            named(where.most, LONGEST_NAME),
            f"only {percent(where.fewest_share)}" if where.fewest_share >= LEAST_SAID else "hardly any",
            named(where.fewest, LONGEST_NAME),
        )
    ]


def _most_moved(doses: DoseLogs) -> list[Words]:
    """Which cases get more and which less, along the most telling column."""
    curves = dose_curves(doses, 1)
    if not curves:
        return []
    (curve,) = curves
    moved = curve.after - curve.before
    most, least = int(np.abs(moved).argmax()), int(np.abs(moved).argmin())
    sentence = Markup("{} moves most where {} is about {} ({} → {}), least where it is about {} ({} → {}).")
    return [
        sentence.format(
            named(curve.action, LONGEST_NAME),
            named(curve.column, LONGEST_NAME),
            *(typeset(float(part[place])) for place in (most, least) for part in (curve.at, curve.before, curve.after)),
        )
    ]


def _other_rule(subject: Subject) -> list[Words]:
    """The best policy that can be said, where the chosen one cannot, and the best that needs no lots to be drawn."""
    result = subject.result
    told = result.promising if result.chosen is None else result.chosen
    items: list[Words] = []
    for what, place, words in (
        ("The best rule that can be said in words", result.plain, result.words),
        ("The best policy that needs no random draws", result.lotless, result.lotless_words),
    ):
        if place is not None and words and place != told:
            least = subject.gained(result.points[place].metrics.get("own" if subject.trial else "shown"))
            alone = "alone " * subject.trial
            items.append(Markup("{}: “{}” ({}at least {}).").format(what, named(words, LONGEST_RULE), alone, least))
    return items


def cases_panel(subject: Subject) -> Panel:
    """For how many cases anything changes."""
    study, shown = subject.study, subject.shown
    episodes = study.record.data.train_episodes
    if shown is None:
        none = Fact(DIFFER, "None", f"All cases are treated as in the {episodes:,} of the log.")
        return Panel("cases", "For how many cases", (Facts((none,)),))
    items: list[Words] = []
    departure = subject.changed
    if departure is not None and subject.per_year:
        items.append(_in_a_year(subject, departure))
    items.append(f"It applies to cases like the {episodes:,} of the log.")
    if getattr(getattr(shown.policy, "eligibility", None), "reach", None) is not None:
        items.append("Cases unlike any of these are left to those who decide.")
    return Panel("cases", "For how many cases", (_how_many(subject, departure), Points(items)))


def _how_many(subject: Subject, departure: float | None) -> Block:
    assert subject.shown is not None
    metrics = subject.shown.point.metrics
    if departure is not None:
        return Facts((Fact(DIFFER, out_of(departure), _changing(subject, departure)),))
    if changed := changed_in_words(metrics):
        return Facts((Fact("Cases whose dose would differ", "All", f"by {changed} on average"),))
    return Text("How many decisions change is not known: only the propensity of the action taken was logged.")


def _changing(subject: Subject, departure: float) -> str:
    train = subject.train
    if train is None:
        return ""
    decisions = f"about {round(departure * train.n_steps):,} of {train.n_steps:,} in the log"
    if train.n_steps == train.n_episodes:
        return decisions
    steps = train.n_steps / train.n_episodes
    return f"{decisions}; on average {departure * steps:.2g} of the {steps:.3g} decisions in a case"


def _in_a_year(subject: Subject, departure: float) -> str:
    """What that is in a year, by the number of cases that the user expects."""
    train, cases = subject.train, subject.per_year or 0
    steps = 1.0 if train is None else train.n_steps / train.n_episodes
    return f"At {cases:,} cases a year: about {departure * steps * cases:,.0f} decisions."


TITLES = {"change": "Change practice", "worth a trial": "Worth a trial", "keep": "Keep what you do"}
MOST_GROUPS = 5  # on a brief page, everybody among them
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
