"""On the first screen: what could go wrong, and what the answer rests on."""

from markupsafe import Markup

from poela.core.readable import factor_in_words, share_in_words
from poela.evaluation.outside import LEAST_OUTSIDE
from poela.evaluation.overfitting import AvoidedContext, Gap
from poela.report.blocks import (
    Block,
    Column,
    Entry,
    Fact,
    Facts,
    Panel,
    Picture,
    Pictures,
    Points,
    Section,
    Table,
    Text,
    Words,
    capital,
    named,
    needs_logs,
    typeset,
)
from poela.report.numbers.weights import (
    GammaCurve,
    WeightsByReturn,
    avoided,
    gamma_curve,
    missing_actions,
    training_gap,
    weights_by_return,
)
from poela.report.pictures.charts import Bar, Key, Level, Line, Plane, bars
from poela.report.pictures.drawing import clean
from poela.report.sections.data import losing
from poela.report.subject import Numbers, Subject
from poela.studies.answer import unconfounded_in_words
from poela.studies.logging_policy import unseen_holes

# Sensitivity: how wrong weights may be, by something that was not recorded, before the gain is gone.

SENSITIVITY_TITLE, SENSITIVITY_ABOUT = "If something was not recorded", "sensitivity to hidden confounding (Γ)"


def sensitivity_section(subject: Subject) -> Section:
    """The curve of the gain over Γ."""
    study = subject.study
    data, gain, gamma = study.record.data, study.gain, study.settings.selection.sensitivity
    blocks: list[Block] = [
        Text(
            "If something that was not recorded moved both decisions and outcomes (hidden confounding), weights are "
            "wrong. Γ says by how much: every weight may be up to Γ times too large or too small, in the worst way."
        ),
        Text(_vanishes(None if gain is None else gain.undone_by, shown=not study.keeps_logging_policy)),
    ]
    if data.estimated:
        known = data.chances.capitalize()
        blocks.append(Text(f"{known} are estimates here, so a gain counts as shown only if it survives Γ = {gamma:g}."))
    if middle := unconfounded_in_words(subject.result, study.record):
        blocks.append(Text(middle))
    if data.lost:
        blocks.append(
            Text(
                f"The outcomes of {data.lost:.0%} of cases were not seen. A gain counts as shown only if it survives "
                f"odds of having been seen that are wrong by a factor of {gamma:g}, too."
            )
        )
    curve = None if subject.logs is None else gamma_curve(subject.logs)
    if curve is not None:
        blocks.append(Pictures((gamma_picture(curve, gamma if data.estimated else None, Numbers.of(study)),)))
    elif subject.said.curve:
        blocks.append(needs_logs(subject.said.curve))
    return Section("sensitivity", SENSITIVITY_TITLE, blocks, SENSITIVITY_ABOUT)


def _vanishes(gamma: float | None, *, shown: bool) -> str:
    if gamma is None:
        return "There is no gain to lose: no lower bound is above zero."
    what = "What is shown" if shown else "The bound of the policy worth a trial"
    return f"{what} is gone at Γ = {gamma:.2f}. The best estimate, in the picture, lasts longer."


def gamma_picture(curve: GammaCurve, gamma: float | None, numbers: Numbers) -> Picture:
    """The least gain over Γ, with where it vanishes and what was asked for."""
    levels = [Level(0.0, "no gain")]
    if curve.gains[0] > 0 and curve.vanishes <= curve.gammas[-1]:
        levels.append(Level(curve.vanishes, f"gone at Γ = {curve.vanishes:.2f}", upright=True))
    if gamma is not None and gamma <= curve.gammas[-1]:
        levels.append(Level(gamma, f"required: {gamma:g}", upright=True))
    gains = [numbers.scaled(gain) or 0.0 for gain in curve.gains.tolist()]
    plane = Plane(
        "The least gain that weights wrong by a factor of up to gamma can leave",
        "Γ (log scale)",
        f"gain in the worst case{numbers.unit}",
        lines=[Line(list(zip(curve.gammas.tolist(), gains, strict=True)), "newline")],
        levels=levels,
        log_x=True,
    )
    return Picture(
        "The gain in the worst case",
        plane.svg(),
        "At Γ = 1 weights are right, and the gain is the best estimate. Chance is not in this picture.",
    )


# Is it propensity overfitting: does the policy look good by avoiding cases, or by luck with its training episodes?

OVERFITTING_TITLE, OVERFITTING_ABOUT = "Does it only look good?", "checks for propensity overfitting"
KEYS = (Key("log", "share of cases"), Key("new", "share of weight"))
SUSPECT = 2.0  # standard errors


def overfitting_section(subject: Subject) -> Section:
    """Weights by return, avoided contexts, and the gap between training and held-out episodes."""
    logs = subject.logs
    first = Text(
        "A policy can look good by giving no weight to cases that end badly, whatever it does there (propensity "
        "overfitting). Then weight piles up on good outcomes, and some kinds of cases lose theirs. Every estimate on "
        "this page is from held-out cases, which are hard to fool in this way."
    )
    if logs is None:
        return Section("overfitting", OVERFITTING_TITLE, (first, needs_logs("This check")), OVERFITTING_ABOUT)
    weights = weights_by_return(logs)
    if weights is None:
        words = "There is no policy with weight on held-out cases that are at hand, so there is nothing to check."
        return Section("overfitting", OVERFITTING_TITLE, (first, Text(words, "note")), OVERFITTING_ABOUT)
    facts = [*_facts(weights), *_gap(subject, training_gap(logs))]
    told = [one for one in avoided(logs) if one.neighbours >= logs.smallest]
    blocks: list[Block] = [first, Facts(facts), Pictures((weights_picture(weights),)), _avoided_block(told)]
    return Section("overfitting", OVERFITTING_TITLE, blocks, OVERFITTING_ABOUT)


def _facts(weights: WeightsByReturn) -> list[Fact]:
    low, facts = weights.below_median, []
    if low.share_of_episodes:  # of yes/no returns none may lie below the median
        share = f"{low.share_of_episodes:.0%}"
        note = f"is on the {share} of cases with a return below the median"
        facts.append(Fact("Weight on low returns", f"{low.weight:.0%}", note))
    heaviest = f"of all weight; {weights.ess:,.0f} effective {'clusters' if weights.clustered else 'cases'}"
    name = f"Heaviest {'cluster' if weights.clustered else 'case'}"
    return [*facts, Fact(name, f"{weights.largest_share:.1%}", heaviest)]


def _gap(subject: Subject, gap: Gap | None) -> list[Fact]:
    """What training promised too much: of no account for estimates, which are of held-out cases."""
    if gap is None:
        return []
    train, held_out = subject.number(gap.train), subject.number(gap.validation)
    optimism = "more than chance explains, as learning does" if gap.z > SUSPECT else "no more than chance explains"
    note = f"value on the cases it learned from ({train}) less held out ({held_out}): {optimism}; held out counts"
    return [Fact("Optimism of training", subject.number(gap.gap, signed=True), note)]


def weights_picture(weights: WeightsByReturn) -> Picture:
    """The share of weight beside the share of episodes, from low to high returns."""
    names = _spans(weights.low.tolist(), weights.high.tolist())
    shares = zip(weights.episodes.tolist(), weights.weight.tolist(), strict=True)
    items = [
        Bar(short, share, f"returns {span}: {share:.1%} of cases, {weight:.1%} of weight", weight)
        for (short, span), (share, weight) in zip(names, shares, strict=True)
    ]
    label = "The share of weight beside the share of held-out cases, from low to high returns"
    svg = bars(items, label, "return, from", "share", KEYS, percent=True)
    caption = "A better policy puts more weight on good returns. If almost none is left on bad ones, ask why."
    return Picture("Weight by return", svg, caption)


def _spans(lows: list[float], highs: list[float]) -> list[tuple[str, str]]:
    """Groups of returns, short and in full, without the least and the largest return of all."""
    spans = []
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        start, end = place == 0, place == len(lows) - 1
        if start or end:
            span = "of all cases" if start and end else f"up to {typeset(high)}" if start else f"from {typeset(low)}"
            spans.append((span if start else typeset(low), span))
        else:
            spans.append((typeset(low), f"{typeset(low)} to {typeset(high)}"))
    return spans


def _avoided_block(avoided: list[AvoidedContext]) -> Block:
    if not avoided:
        return Text("No kind of case was found that has lost weight.")
    columns = (
        Column("similar cases", True),
        Column("weight they hold", True),
        Column("weight lost", True),
        Column("their mean return", True),
    )
    rows = [
        (
            Entry(f"{item.neighbours:,}", item.neighbours),
            Entry(f"{item.weight:.1f}", item.weight),
            Entry(f"{item.missing:.1f}", item.missing),
            Entry(typeset(item.mean_return), item.mean_return),
        )
        for item in avoided
    ]
    note = (
        "Cases that begin alike should keep about as much weight as there are of them. Weight that is lost beyond "
        "chance, where returns are low, means that the policy looks good by avoiding them."
    )
    return Table("Kinds of cases that have lost weight", columns, rows, note=note)


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
    known = f"estimated {data.chances}" if data.estimated else f"{data.validation_episodes:,} cases"
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
    known = subject.study.record.data.chances
    single = subject.train is not None and subject.train.n_steps == subject.train.n_episodes
    like = subject.said.like.format(gain.undone_by / 10) if single and FRAGILE <= gain.undone_by <= 9 else ""
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
    known = capital(subject.study.record.data.chances)
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
