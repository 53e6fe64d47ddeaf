"""Is it propensity overfitting: does the policy look good by avoiding cases, or by luck with its training episodes?"""

from poela.evaluation.overfitting import AvoidedContext, Gap
from poela.report.blocks import Block, Column, Entry, Fact, Facts, Picture, Pictures, Section, Table, Text, needs_logs
from poela.report.numbers.weights import WeightsByReturn, avoided, training_gap, weights_by_return
from poela.report.pictures.charts import Bar, Key, bars
from poela.report.study_logs import StudyLogs
from poela.report.wording import readable

TITLE = "Is it propensity overfitting?"
KEYS = (Key("log", "share of episodes"), Key("new", "share of weight"))
SUSPECT = 2.0  # standard errors


def overfitting_section(logs: StudyLogs | None) -> Section:
    """Weights by return, avoided contexts, and the gap between training and held-out episodes."""
    first = Text(
        "A policy can look good by giving no weight to cases that end badly, whatever it does there. Then weights pile "
        "up on good returns, some kinds of cases lose their weight, and held-out episodes disappoint."
    )
    if logs is None:
        return Section("overfitting", TITLE, (first, needs_logs("Telling this")))
    weights = weights_by_return(logs)
    if weights is None:
        words = "There is no policy with weight on held-out episodes that are at hand: nothing can be told."
        return Section("overfitting", TITLE, (first, Text(words, "note")))
    gap = training_gap(logs)
    blocks: list[Block] = [first, Facts(_facts(weights, gap)), Pictures((weights_picture(weights),))]
    blocks.append(_avoided_block(avoided(logs)))
    return Section("overfitting", TITLE, blocks)


def _facts(weights: WeightsByReturn, gap: Gap | None) -> list[Fact]:
    low = weights.below_median
    # Of yes/no returns none may lie below the median.
    facts = (
        []
        if not low.share_of_episodes
        else [
            Fact(
                "Weight on low returns",
                f"{low.weight:.0%}",
                f"is on the {low.share_of_episodes:.0%} of episodes below the median return",
            ),
        ]
    )
    heaviest = f"of all weight; {weights.ess:,.0f} effective {'clusters' if weights.clustered else 'cases'}"
    facts.append(
        Fact(f"Heaviest {'cluster' if weights.clustered else 'episode'}", f"{weights.largest_share:.1%}", heaviest)
    )
    if gap is not None:
        error = gap.standard_error
        sure = "a gap beyond chance: be careful" if gap.z > SUSPECT else "no more than chance"
        facts.append(
            Fact(
                "Training − held out",
                readable(gap.gap, error, signed=True),
                f"{readable(gap.train, error)} on training episodes, {readable(gap.validation, error)} held out; "
                f"± {readable(error, error)}: {sure}",
            )
        )
    return facts


def weights_picture(weights: WeightsByReturn) -> Picture:
    """The share of weight beside the share of episodes, from low to high returns."""
    items = [
        Bar(
            readable(low),
            share,
            f"returns {readable(low)} to {readable(high)}: {share:.1%} of episodes, {weight:.1%} of weight",
            weight,
        )
        for low, high, share, weight in zip(
            weights.low.tolist(), weights.high.tolist(), weights.episodes.tolist(), weights.weight.tolist(), strict=True
        )
    ]
    label = "The share of weight beside the share of held-out episodes, from low to high returns"
    svg = bars(items, label, "return, from", "share", KEYS, percent=True)
    caption = "A better policy puts more weight on good returns. If next to none is left on bad ones, ask why."
    return Picture("Weight by return", svg, caption)


def _avoided_block(avoided: tuple[AvoidedContext, ...]) -> Block:
    if not avoided:
        return Text("No first context was found whose neighbourhood has lost weight, as far as the radius tells.")
    columns = (
        Column("like first contexts", True),
        Column("weight they hold", True),
        Column("missing", True),
        Column("their mean return", True),
    )
    rows = [
        (
            Entry(f"{item.neighbours:,}", item.neighbours),
            Entry(f"{item.weight:.1f}", item.weight),
            Entry(f"{item.missing:.1f}", item.missing),
            Entry(readable(item.mean_return), item.mean_return),
        )
        for item in avoided
    ]
    note = (
        "A fair policy leaves each neighbourhood about as much weight as it has episodes. What is missing beyond "
        "chance, where returns are low, is avoidance."
    )
    return Table("Kinds of cases that have lost weight", columns, rows, note=note)
