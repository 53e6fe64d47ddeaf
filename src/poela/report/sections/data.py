"""The data: how long episodes are, what was done, what came of it, and who decided."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from poela.behavior.calibration import Calibration
from poela.behavior.history import memory_of
from poela.core.arrays import FloatArray
from poela.core.readable import effective
from poela.data.trajectories import Trajectories
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
    Words,
    capital,
    joined,
    named,
    needs_logs,
    typeset,
    with_signs,
)
from poela.report.numbers.judged import HistogramBar, enough_cases, histogram, propensity_calibration, told
from poela.report.pictures.charts import Bar, Dot, LadderRow, Line, Plane, bars
from poela.report.pictures.charts import ladder as draw_ladder
from poela.report.pictures.drawing import clean, short
from poela.report.subject import Numbers, Subject
from poela.studies.findings_of_audit import context_in_words
from poela.studies.groups import Group, Groups
from poela.studies.names import gaps_in_words, sentence
from poela.studies.study import Study

# Who gains: the gain in each group with bounds that hold for all groups together, and who gets what there.

GROUPS_TITLE = "Who gains, by group"
GROUPS_ABOUT = "the gain in each group, and who gets what"
LONG = 60
MOST_NAMED = 3  # groups in a sentence
CSS = {"trust": "sure", "caution": "doubt"}


def groups_section(subject: Subject) -> Section:
    """The groups of each column that was asked for."""
    groups = subject.groups
    if groups is None or len(groups) < 2:
        why = "There is no policy to look at." if subject.shown is None else ASK
        return Section("groups", GROUPS_TITLE, (Text(why, "note"),), GROUPS_ABOUT)
    blocks: list[Block] = [Text(_how(groups)), Pictures((gains_picture(subject, groups),))]
    blocks += [_gains_table(subject, groups), _shares_table(groups)]
    blocks += [Text(capital(note) + ".", "small") for note in groups.notes]
    return Section("groups", GROUPS_TITLE, blocks, GROUPS_ABOUT)


ASK = (
    "To see groups of cases apart, name their columns: --by ward,age:3 (three groups of age), here with --logs or when "
    "the study is made."
)


def _how(groups: Groups) -> str:
    adds = " Weighted by cases, gains add up to that of everybody." if groups.adds_up else ""
    return (
        f"Bounds hold with {groups.confidence:.0%} confidence for all groups together. A group has fewer cases than "
        f"everybody, so its bound is lower. Columns count as they were at the first decision of a case.{adds}"
    )


def gains_picture(subject: Subject, groups: Groups, title: str = "Gain in each group") -> Picture:
    """A row for each group: the estimate, and a bar down to its bound."""
    numbers = Numbers.of(subject.study)
    rows = [
        LadderRow(
            group.label,
            numbers.scaled(group.gain),
            numbers.scaled(group.shown),
            f"{group.cases:,} cases",
            CSS.get(group.verdict, "lost"),
            _tip(subject, group),
            not group.column,
        )
        for group in groups
    ]
    told = "; ".join(_tip(subject, group) for group in groups.groups[:10])
    axis = f"gain over what is done now{numbers.unit}"
    svg = draw_ladder(rows, f"Gain over what is done now in each group: {told}", axis)
    caption = (
        "Dot: best estimate. Bar: down to the lower bound, for all groups together. No bar: too few cases to tell."
    )
    return Picture(title, svg, caption)


def _tip(subject: Subject, group: Group) -> str:
    if group.gain is None:
        return f"{group.label}: these cases cannot tell"
    least = "no bound" if group.shown is None else f"at least {subject.number(group.shown, signed=True)}"
    return f"{group.label}: {subject.number(group.gain, signed=True)} ({least})"


def _gains_table(subject: Subject, groups: Groups) -> Table:
    columns = (
        Column("group"),
        Column("cases", True),
        Column("now", True),
        Column("gain", True),
        Column("at least", True),
        Column(f"{groups.level:.0%} interval", True),
        Column("effective cases", True),
        Column("verdict"),
    )
    rows = [
        (
            Entry(named(group.label, LONG), group.label),
            Entry(f"{group.cases:,}", group.cases),
            Entry(subject.number(group.current), group.current),
            Entry(subject.number(group.gain, signed=True), group.gain),
            Entry(subject.number(group.shown, signed=True), group.shown),
            Entry(_interval(subject, group), group.low),
            Entry(effective(group.ess).replace("-", "–"), group.ess if group.ess == group.ess else None),
            Entry(group.verdict or "–", group.verdict),
        )
        for group in groups
    ]
    return Table("Gains in numbers", columns, rows, frozenset({0}), note="–: these cases cannot tell.")


def _interval(subject: Subject, group: Group) -> str:
    if group.low is None or group.high is None:
        return "–"
    return f"{subject.number(group.low, signed=True)} to {subject.number(group.high, signed=True)}"


def _shares_table(groups: Groups) -> Table:
    header, rows = groups.who_gets_what()
    columns = [Column("group"), *(Column(name, number=True) for name in header[1:])]
    entries = [
        (Entry(named(group.label, LONG), group.label), *(Entry(with_signs(cell)) for cell in row[1:]))
        for group, row in zip(groups, rows, strict=True)
    ]
    what = "Mean amounts" if groups.amounts else "Shares of decisions"
    note = f"{what}, now → under the new policy."
    return Table("Who gets what", columns, entries, frozenset({0}), note=note)


def gaining(subject: Subject) -> list[Words]:
    """In which groups a gain is shown and in which not, a sentence for each column."""
    groups = subject.groups
    sentences: list[Words] = []
    for column in () if groups is None else groups.columns:
        own = [group for group in groups or () if group.column == column]
        shown = [group for group in own if (group.shown or 0.0) > 0]
        if len(shown) == len(own):
            words: Words = f"a gain is shown in each of {len(own)} groups"
        elif not shown:
            words = f"too few cases to show a gain in any of {len(own)} groups"
        else:
            rest = [group for group in own if group not in shown]
            words = joined(["a gain is shown for ", _group_names(shown), ", not for ", _group_names(rest)], "")
        sentences.append(Markup("By {}: {}.").format(named(column, LONG), words))
    return sentences


def losing(subject: Subject) -> list[Words]:
    """The groups whose estimate is below zero."""
    groups = () if subject.groups is None else subject.groups.groups[1:]
    below = sorted((group for group in groups if (group.gain or 0.0) < 0), key=lambda group: group.gain or 0.0)
    if not below:
        return []
    worst = below[0]
    more = f" {len(below) - 1} more groups are below zero." if len(below) > 1 else ""
    interval = "" if worst.low is None else f" ({_interval(subject, worst)})"
    words = Markup("{} may lose: best estimate {}{}.{}")
    return [words.format(named(worst.label, LONG), subject.gained(worst.gain), interval, more)]


def _group_names(groups: Sequence[Group]) -> Words:
    names: list[Words] = [named(group.name, LONG) for group in groups[:MOST_NAMED]]
    if len(groups) > MOST_NAMED:
        names.append(f"{len(groups) - MOST_NAMED} more")
    return joined([joined(names[:-1]), names[-1]], " and ") if len(names) > 1 else names[0]


TITLE, ABOUT = "The data", "cases, actions, outcomes, propensities, and what the audit found"
MOST_ACTIONS = 60


def data_section(subject: Subject) -> Section:
    """What the study was made of."""
    study, train = subject.study, subject.train
    data, cap = study.record.data, study.settings.scoring.cap
    features = data.layout.context or ()
    actions: tuple[object, ...] = data.layout.action_space.names
    mean = subject.number(study.record.logging_policy.value)
    facts = [
        Fact("Cases (episodes)", f"{data.train_episodes:,}", _split_in_words(study)),
        Fact(subject.said.counted, f"{len(actions)}"),
        Fact("Features", f"{len(features)}"),
        Fact("Mean return", mean, "" if cap is None else cap.in_words),
    ]
    if train is not None:
        single = train.n_steps == train.n_episodes
        each = "one in each case" if single else f"{train.lengths.mean():.1f} in a case"
        facts.insert(1, Fact("Decisions", f"{train.n_steps:,}", each))
        if train.clusters is not None:
            facts.insert(1, Fact("Clusters", f"{train.n_units:,}", "cases of one are kept together"))
    blocks: list[Block] = [Facts(facts), Text(sentence(data.propensities)), *_audit(study)]
    if train is None:
        what = "A picture of the lengths of cases and of their outcomes"
        blocks += [_names(features, actions, None, subject.smallest), needs_logs(what)]
        return Section("data", TITLE, blocks, ABOUT)
    if subject.logs is not None and train.n_steps > train.n_episodes:  # single decisions have nothing to remember
        blocks.append(Text(f"Who made the logs: {memory_of(subject.logs.train, study.settings.seed)}."))
    blocks.append(Text(f"Missing values: {gaps_in_words(data.layout.schema)}"))
    blocks += [
        Pictures(_pictures(subject, train)),
        _names(features, actions, None if subject.logs is None else subject.logs.train, subject.smallest),
    ]
    return Section("data", TITLE, blocks, ABOUT)


def _pictures(subject: Subject, train: Trajectories) -> list[Picture]:
    returns, few = train.returns(subject.study.settings.scoring.discount), subject.smallest
    pictures = [_bars_picture("Returns", returns, "return of a case", train, few)]
    if train.n_steps > train.n_episodes:
        pictures.insert(0, _bars_picture("Length of cases", train.lengths.astype(float), "steps", train, few))
    fit = None if subject.logs is None else propensity_calibration(subject.logs.train, few)
    return pictures if fit is None else [*pictures, _calibration_picture(fit, estimated=train.estimated)]


def _audit(study: Study) -> list[Text]:
    """What the context is, and what was found against the logs before anything was learned."""
    found = study.record.audit
    words = [context_in_words(study.record.data.layout.context or ()) + "."]
    if found is not None:
        words += [f"Audit: {note}." for note in found.notes or ("nothing was found against these columns",)]
    return [Text(clean(one)) for one in words]


def _split_in_words(study: Study) -> str:
    data = study.record.data
    words = (
        f"in {data.folds} cross-validation folds"
        if data.folds > 1
        else f"to learn from; {data.validation_episodes:,} to judge by"
    )
    return words + (f"; {data.test_episodes:,} kept for a test" if data.test_episodes else "")


def _bars_picture(title: str, values: FloatArray, x: str, logs: Trajectories, smallest: int) -> Picture:
    found = histogram(values, logs.units, smallest)
    names = [_ends(bar) for bar in found]
    items = [
        Bar(name, bar.cases.number, f"{span}: {bar.cases.words} cases")
        for bar, (name, span) in zip(found, names, strict=True)
    ]
    svg = bars(items, f"{title}: how many cases have each", x, "cases")
    return Picture(title, svg, f"Median {typeset(float(np.median(values)))}.")


def _ends(bar: HistogramBar) -> tuple[str, str]:
    """A bar's name on the axis, and which values it stands for.

    >>> from poela.report.numbers.judged import Told
    >>> many = Told("20", 20)
    >>> [_ends(HistogramBar(low, high, many))[1] for low, high in ((2.0, 2.0), (None, 5.0), (1.0, 5.0), (5.0, None))]
    ['2', 'below 5', '1 to 5', '5 or more']
    """
    low, high = (None if end is None else short(end) for end in (bar.low, bar.high))
    if low is None:
        return ("all", "all") if high is None else (f"< {high}", f"below {high}")
    return (f"≥ {low}", f"{low} or more") if high is None else (low, low if low == high else f"{low} to {high}")


def _calibration_picture(fit: Calibration, *, estimated: bool) -> Picture:
    curve = fit.every_action
    points = list(zip(curve.predicted.tolist(), curve.observed.tolist(), strict=True))
    dots = [
        Dot(x, y, "sure", f"propensity {x:.1%}, taken {y:.1%} of {count:,} times")
        for (x, y), count in zip(points, curve.counts.tolist(), strict=True)
    ]
    plane = Plane(
        "Calibration of propensities: how often actions were taken, against their propensities",
        "probability, as estimated" if estimated else "probability, as logged",
        "how often it was taken",
        dots,
        [Line([(0.0, 0.0), (1.0, 1.0)], "edge", ""), Line(points, "newline")],
        square=True,
    )
    error = f"Calibration error of the likeliest action: {fit.expected_calibration_error:.3f}"
    words = f"On the dotted line, propensities are right. {error}."
    return Picture("Are propensities right?", plane.svg(), words)


def _names(features: tuple[str, ...], actions: tuple[object, ...], logs: Trajectories | None, smallest: int) -> Table:
    """The names of actions and features in full, which pictures cut short."""
    counts = [Entry("–", None)] * len(actions)
    if logs is not None:
        taken = [np.asarray(logs.actions == place) for place in range(len(actions))]
        few = [bool(one.any()) and not enough_cases(logs, one, smallest) for one in taken]
        counts = [Entry(one.words, one.number) for one in told([int(one.sum()) for one in taken], smallest, few)]
    rows = [
        (Entry("action", 0), Entry(named(action), str(action)), count)
        for action, count in zip(actions[:MOST_ACTIONS], counts[:MOST_ACTIONS], strict=True)
    ]
    rows += [(Entry("feature", 1), Entry(named(name), name), Entry("–", None)) for name in features]
    return Table("Actions and features", (Column("part"), Column("name"), Column("decisions", True)), rows, folded=True)
