"""What is eligible: how many actions, how often the fallback acts, and which along one episode."""

from markupsafe import Markup

from poela.core.readable import share_in_words
from poela.eligibility.words import rule_in_words, strictness_in_words
from poela.report.blocks import (
    Block,
    Column,
    Entry,
    Fact,
    Facts,
    Picture,
    Pictures,
    Section,
    Table,
    Text,
    named,
    needs_logs,
)
from poela.report.numbers.judged import told
from poela.report.numbers.weights import (
    LEAST_PROBABILITY,
    EligibleAlong,
    EligibleSets,
    Missing,
    eligible_along,
    eligible_sets,
    missing_actions,
)
from poela.report.pictures.charts import Bar, GridPanel, Key, action_grid, bars
from poela.report.study_logs import ShownPolicy, StudyLogs
from poela.studies.names import outside_in_words

TITLE, ABOUT = "Which actions are allowed", "what similar past cases received, and where an action is missing"
FALLBACKS = {
    "nearest": "it takes the action of the nearest logged case",
    "behavior": "it does what is done now",
    "all": "every action is allowed",
}
MOST_STEPS = 60  # of the episode that is drawn
KEYS = (Key("open", "allowed"), Key("did", "what was done"), Key("ring", "the policy’s first choice"))


def eligible_section(shown: ShownPolicy | None, logs: StudyLogs | None, episode: int | None) -> Section:
    """What the policy may do at all."""
    rule = None if shown is None else getattr(shown.policy, "eligibility", None)
    if rule is None:
        return Section("eligible", TITLE, (Text("There is no policy, and so no rule to look at.", "note"),), ABOUT)
    blocks: list[Block] = [Text(f"{rule_in_words(rule)} {strictness_in_words(rule)}".rstrip())]
    metrics = {} if shown is None else shown.point.metrics
    if words := outside_in_words(metrics.get("outside"), metrics.get("leaving"), least=0.0):
        blocks.append(Text(f"On the cases that judged it, {words}."))
    sets = None if logs is None else eligible_sets(logs)
    if logs is None or sets is None:
        return Section("eligible", TITLE, (*blocks, needs_logs("How many actions are allowed in logged cases")), ABOUT)
    blocks.append(Facts(_facts(sets)))
    blocks += _missing(logs)
    pictures = [_sizes_picture(sets, logs.smallest)]
    if episode is not None:
        pictures.append(_along_picture(eligible_along(logs, episode), rule.settings.radius is not None))
    blocks.append(Pictures(pictures))
    return Section("eligible", TITLE, blocks, ABOUT)


def _missing(logs: StudyLogs) -> list[Block]:
    """Which actions some cases never received, and which cases these are."""
    missing = missing_actions(logs)
    if not missing:
        return []
    columns = (
        Column("action"),
        Column("missing for", True),
        Column("the policy takes it there", True),
        Column("above all where"),
    )
    entries = [
        (
            Entry(named(one.action), one.action),
            Entry(share_in_words(one.contexts), one.contexts),
            Entry(share_in_words(one.policy), one.policy),
            Entry(_group(one), one.group),
        )
        for one in missing
    ]
    note = (
        "Missing for: the share of logged cases where similar cases (almost) never got it, by logged propensities if "
        "those of all actions are known, else by a model. The policy takes it there: in this share of its decisions."
    )
    return [Table("What was never done, and for whom", columns, entries, note=note)]


def _group(missing: Missing) -> Markup:
    if not missing.group:
        return Markup("no single column tells them apart")
    lack, all_who = share_in_words(missing.of_group), share_in_words(missing.in_group)
    told = f" ({lack} of these lack it; they are {all_who} of all who do)"
    return named(missing.group) + told


def _facts(sets: EligibleSets) -> list[Fact]:
    return [
        Fact("Allowed actions", f"{sets.mean:.1f}", f"on average, of {len(sets.sizes) - 1}"),
        Fact("No choice", f"{sets.sizes[1] / sets.contexts:.1%}", "of logged contexts allow a single action"),
        Fact(
            "Fallback",
            f"{sets.stranded / sets.contexts:.1%}",
            f"of logged contexts allow none: there {FALLBACKS[sets.fallback]}",
        ),
    ]


def _sizes_picture(sets: EligibleSets, smallest: int) -> Picture:
    last = max((size for size, count in enumerate(sets.sizes) if count), default=1)
    items = [
        Bar(str(size), count.number / sets.contexts, f"{size} allowed: {count.words} contexts")
        for size, count in enumerate(told(sets.sizes.tolist()[: last + 1], smallest))
    ]
    label = "How many actions are allowed at the logged contexts"
    svg = bars(items, label, "allowed actions", "share of logged contexts", percent=True)
    return Picture("How many actions are allowed", svg, "0: no action passes the rule, and the fallback acts.")


def _along_picture(along: EligibleAlong, by_radius: bool) -> Picture:
    steps = min(len(along.logged), MOST_STEPS)
    panels = [GridPanel("by the policy’s rule", along.mask[:steps].tolist())]
    if along.probable is not None and by_radius:
        panels.insert(
            0, GridPanel(f"if a probability of {LEAST_PROBABILITY:g} were enough", along.probable[:steps].tolist())
        )
    favoured = along.policy[:steps].argmax(axis=1).tolist()
    label = f"Which of {len(along.actions)} actions are allowed at each of {steps} steps of one case"
    svg = action_grid(along.actions, panels, along.logged[:steps].tolist(), favoured, label, KEYS)
    return Picture(
        "One case, step by step",
        svg,
        f"Case number {along.episode} of the log, shown on request: protect this page as you protect the log.",
    )
