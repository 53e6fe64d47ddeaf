"""On the first screen: what could go wrong, and what the answer rests on."""

from markupsafe import Markup

from poela.core.readable import factor_in_words, share_in_words
from poela.evaluation.outside import LEAST_OUTSIDE
from poela.report.blocks import Panel, Points, Words, named
from poela.report.numbers.eligible import missing_actions
from poela.report.pictures.drawing import clean
from poela.report.sections.groups import losing
from poela.report.subject import Subject
from poela.report.wording import capital
from poela.stats.verdict import chances
from poela.studies.unseen_holes import unseen_holes

MOST_POINTS = 4
FEW_CASES = 100  # effective ones: below, each of them matters
FRAGILE = 1.2  # Γ: below, a small bias undoes the gain


def watch_panel(subject: Subject) -> Panel:
    """What could go wrong, the gravest first."""
    points = [
        *_audited(subject),
        *_lucky(subject),
        *losing(subject),
        *_never_done(subject),
        *_hidden(subject),
        *_few_cases(subject),
        *_mean(subject),
        *_not_judged(subject),
    ]
    if subject.shown is None:
        points += [*_unseen(subject), "Practice may drift: learn again when cases, staff or guidelines change."]
    return Panel("watch", "What to watch", (Points(points[:MOST_POINTS]),))


def _lucky(subject: Subject) -> list[Words]:
    if not subject.trial:
        return []
    tried = len(subject.result.points)
    return [f"It may be luck: the best of {tried:,} policies often looks better than it is."]


def _unseen(subject: Subject) -> list[Words]:
    """How large a gain must be to be seen: about as far as a bound lies below its estimate."""
    gain, data = subject.study.gain, subject.study.record.data
    least = "Keeping does not mean that nothing is better."
    if gain is None or gain.low is None or gain.value <= gain.low:
        return [least]
    reach = subject.gained(gain.value - gain.low, signed=False)
    # Where they are estimated, bounds allow for wrong weights, and more cases would not help.
    known = f"estimated {chances(subject.real)}" if data.estimated else f"{data.validation_episodes:,} cases"
    return [f"{least} With {known}, gains below about {reach}{subject.each} stay unseen."]


def _audited(subject: Subject) -> list[Words]:
    audit = subject.study.record.audit
    return [] if audit is None else [capital(clean(note, 240)) + "." for note in audit.notes[:2]]


def _never_done(subject: Subject) -> list[Words]:
    """What the policy does that was never done in like cases, and what it leaves alone for that reason."""
    if subject.shown is None:
        return []
    outside = subject.shown.point.metrics.get("outside")
    items: list[Words] = []
    if outside is not None and outside >= LEAST_OUTSIDE:
        items.append(
            f"{share_in_words(outside)} of its decisions were never made in like cases: nobody knows their effect."
        )
    if subject.logs is not None:
        missing = missing_actions(subject.logs)
        if missing and missing[0].policy < LEAST_OUTSIDE:
            first = missing[0]
            where = Markup(", above all where {}").format(named(first.group, 60)) if first.group else ""
            items.append(
                Markup("{} of cases hardly ever got {}{}: the policy does not suggest it there.").format(
                    share_in_words(first.contexts), named(first.action, 60), where
                )
            )
    return items


def _hidden(subject: Subject) -> list[Words]:
    """How wrong weights may be."""
    gain = subject.study.gain
    if gain is None or gain.undone_by is None:
        return []
    factor = factor_in_words(gain.undone_by)
    if subject.study.record.data.estimated:
        why = "Those who decided may have known more than the log."
        wrong = f"made some decisions {factor} times as likely, or unlikely, as the log suggests (Γ)"
        return [f"{why} The gain would vanish if that {wrong}."]
    small = "A small error would undo it: the" if gain.undone_by < FRAGILE else "The"
    known = chances(subject.real)
    single = subject.train is not None and subject.train.n_steps == subject.train.n_episodes
    like = (
        ""
        if subject.real or not single or not FRAGILE <= gain.undone_by <= 9
        else f", such as {gain.undone_by / 10:.0%} logged as 10%"
    )
    return [f"{small} gain would vanish if logged {known} were off by a factor of {factor} (Γ){like}."]


def _few_cases(subject: Subject) -> list[Words]:
    if subject.shown is None:
        return []
    ess = subject.shown.point.metrics.get("ess")
    if ess is None or ess >= FEW_CASES:
        return []
    return [
        f"Few past cases were decided as the policy decides: in effect {ess:.0f}. A bolder policy would rest on fewer."
    ]


def _mean(subject: Subject) -> list[Words]:
    """What to see once the policy acts."""
    gain, now = subject.study.gain, subject.study.record.logging_policy.value
    if subject.shown is None or gain is None or gain.low is None or gain.low <= 0:
        return []
    if subject.trial:
        stop = Markup("Stop the trial if {} falls clearly below {}, as it is now.")
        return [stop.format(subject.outcome_name, subject.level(now))]
    expect = Markup("Expect a mean of at least {}. Stop and look again if {} falls below {}, as it is now.")
    return [expect.format(subject.level(now + gain.low), subject.outcome_name, subject.level(now))]


def _not_judged(subject: Subject) -> list[Words]:
    """What the gain does not tell of: groups of cases and other outcomes, unless these were asked for."""
    if subject.shown is None:
        return []
    missing = [] if subject.groups is not None and len(subject.groups) > 1 else ["groups of cases (--by)"]
    missing += [] if subject.study.settings.selection.guards else ["other outcomes (--guard)"]
    return [f"Not judged: {' or '.join(missing)}."] if missing else []


def _lost_outcomes(share: float) -> list[Words]:
    if not share:
        return []
    stand = "cases like them stand in, so everything that made cases drop out must be in the log"
    return [f"The outcomes of {share:.0%} of cases were not observed: {stand}."]


def rests_panel(subject: Subject) -> Panel:
    """Where probabilities come from, and what is assumed, a line each."""
    study = subject.study
    data, cap = study.record.data, study.settings.scoring.cap
    known = capital(chances(subject.real))
    first = f"{known} were logged when decisions were made."
    if data.estimated:
        first = f"{known} were not logged but estimated: everything that decisions rested on must be in the log."
    how = f"{data.folds}-fold cross-validation" if data.folds > 1 else "one split"
    items: list[Words] = [
        first,
        *_lost_outcomes(data.lost),
        f"Policies were judged on {data.validation_episodes:,} cases that they had not learned from ({how}).",
        "New cases are like past ones, and no case affects another.",
        Markup("For {}, higher is better{}.").format(subject.outcome_name, "" if cap is None else f" ({cap.in_words})"),
    ]
    if subject.shown is not None and (unseen := unseen_holes(study)):
        items.append(unseen)
    return Panel("rests", "What it rests on", (Points(items),))
