"""On the first screen: what changes and for whom, and for how many cases."""

import numpy as np
from markupsafe import Markup

from poela.policies.barring import BarringPolicy
from poela.report.blocks import Block, Fact, Facts, Panel, Pictures, Points, Text, Words, named
from poela.report.dose_logs import DoseLogs
from poela.report.numbers.doses import dose_curves
from poela.report.numbers.whom import touched
from poela.report.sections.doses import curve_picture
from poela.report.sections.groups import gaining
from poela.report.sections.shares import percent, practice_picture, shares_picture
from poela.report.subject import Subject
from poela.report.wording import capital, out_of, typeset
from poela.studies.groups import moves_in_words
from poela.studies.words import changed_in_words

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
