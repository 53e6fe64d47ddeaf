"""Is it propensity overfitting: does the policy look good by avoiding cases, or by luck with its training episodes?"""

from poela.evaluation.overfitting import AvoidedContext, Gap
from poela.report.blocks import Block, Column, Entry, Fact, Facts, Picture, Pictures, Section, Table, Text, needs_logs
from poela.report.numbers.weights import WeightsByReturn, avoided, training_gap, weights_by_return
from poela.report.pictures.charts import Bar, Key, bars
from poela.report.subject import Subject
from poela.report.wording import typeset

TITLE, ABOUT = "Does it only look good?", "checks for propensity overfitting"
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
        return Section("overfitting", TITLE, (first, needs_logs("This check")), ABOUT)
    weights = weights_by_return(logs)
    if weights is None:
        words = "There is no policy with weight on held-out cases that are at hand, so there is nothing to check."
        return Section("overfitting", TITLE, (first, Text(words, "note")), ABOUT)
    facts = [*_facts(weights), *_gap(subject, training_gap(logs))]
    told = [one for one in avoided(logs) if one.neighbours >= logs.smallest]
    blocks: list[Block] = [first, Facts(facts), Pictures((weights_picture(weights),)), _avoided_block(told)]
    return Section("overfitting", TITLE, blocks, ABOUT)


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
