"""What would change, and for whom."""

from collections.abc import Sequence

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.report.blocks import (
    Block,
    Column,
    Entry,
    Picture,
    Pictures,
    Section,
    Table,
    Text,
    named,
    needs_logs,
    typeset,
)
from poela.report.numbers.changes import (
    STEP,
    ActionShares,
    Change,
    DoseCurve,
    Flows,
    action_shares,
    by_step,
    departures,
    dose_curves,
    dose_shifts,
    flows_of,
    largest_changes,
)
from poela.report.pictures.charts import NARROW, Band, Cell, Key, Line, Pair, Plane, heat_map, pairs
from poela.report.pictures.drawing import WIDTH
from poela.report.study_logs import DoseLogs, StudyLogs
from poela.report.subject import Subject
from poela.studies.acted import OTHERS
from poela.studies.groups import Groups

# How often each action is taken, before and after.

BEFORE, AFTER = "now", "new policy"
MOST_TOLD = 10  # actions that the label of a picture names
KEYS = (Key("log", BEFORE), Key("new", AFTER))


def percent(share: float) -> str:
    """A share, with a decimal where it is small.

    >>> percent(0.25), percent(0.0123), percent(0.0)
    ('25%', '1.2%', '0%')
    """
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def shares_picture(groups: Groups, most: int | None = None, title: str = "", caption: str = "") -> Picture:
    """Everybody's actions, before and after; with `most`, those that change most and the rest together."""
    both = np.nan_to_num([groups.everybody.before, groups.everybody.after])  # no weight, no share
    names, both = _few(groups.actions, both, np.abs(both[1] - both[0]), most)
    rows = [
        Pair(name, old, new, f"{percent(old)} → {percent(new)}", f"{name}: now {old:.1%}, new policy {new:.1%}")
        for name, (old, new) in zip(names, both.T.tolist(), strict=True)
    ]
    label = f"Share of decisions for each action, now and under the new policy: {_told(rows)}"
    return Picture(title, pairs(rows, label, KEYS), caption)


def practice_picture(logs: Trajectories, most: int | None = None) -> Picture:
    """How often each action is taken now."""
    shares = np.bincount(logs.actions, minlength=logs.n_actions) / logs.n_steps
    names, few = _few(tuple(map(str, logs.action_names)), shares[None], shares, most)
    rows = [
        Pair(name, share, None, percent(share), f"{name}: {share:.1%}")
        for name, share in zip(names, few[0].tolist(), strict=True)
    ]
    return Picture("", pairs(rows, f"Share of decisions for each action now: {_told(rows)}", KEYS[:1]))


def _told(rows: Sequence[Pair]) -> str:
    return "; ".join(f"{row.name} {row.note}" for row in rows) if len(rows) <= MOST_TOLD else f"{len(rows)} actions"


def _few(names: Sequence[str], shares: FloatArray, size: FloatArray, most: int | None) -> tuple[list[str], FloatArray]:
    """The actions of the largest `size` in their order, with the rest as one, and their shares [k, few]."""
    if most is None or len(names) <= most:
        return list(names), shares
    kept = np.sort(np.argsort(-size, kind="stable")[: most - 1])
    rest = np.setdiff1d(np.arange(len(names)), kept)
    together = np.column_stack([shares[:, kept], shares[:, rest].sum(axis=1)])
    return [*(names[place] for place in kept), OTHERS], together


# Doses before and after, along what was known of a case.

DOSES_TITLE = "Doses, before and after"
MOST_CURVES = 6
LONG = 60


def doses_section(logs: DoseLogs) -> Section:
    """Doses for everybody, and along columns."""
    about = "which cases would get more, and which less"
    if logs.drawn is None:
        return Section(
            "doses", DOSES_TITLE, (Text("There is no policy to look at: no dose would change.", "note"),), about
        )
    blocks: list[Block] = [_everybody(logs)]
    if curves := dose_curves(logs, MOST_CURVES):
        blocks.append(Pictures([curve_picture(curve) for curve in curves]))
    if logs.followed is not logs.train:
        some = f"{logs.followed.n_episodes:,} of {logs.train.n_episodes:,} cases, spread evenly over the log"
        blocks.append(Text(f"To save time, this section looks at {some}.", "note"))
    return Section("doses", DOSES_TITLE, blocks, about)


def _everybody(logs: DoseLogs) -> Table:
    columns = (Column("dose"), Column("most cases now", True), Column("most cases, new policy", True))
    rows = [
        (
            Entry(named(one.action, LONG), one.action),
            Entry(_span(one.before), one.before[0]),
            Entry(_span(one.after), one.after[0]),
        )
        for one in dose_shifts(logs)
    ]
    note = "Most cases: the middle 80% of doses, in the cases of the log."
    return Table("Everybody", columns, rows, note=note)


def _span(ends: tuple[float, float]) -> str:
    return f"{typeset(ends[0])} to {typeset(ends[1])}"


def curve_picture(curve: DoseCurve, *, small: bool = False) -> Picture:
    """Doses along a column, before and after: means as lines, the middle 80% as bands."""
    at = curve.at.tolist()
    lines = [
        Line(list(zip(at, means.tolist(), strict=True)), css)
        for means, css in ((curve.before, "logline"), (curve.after, "newline"))
    ]
    bands = [
        Band([(place, low, high) for place, (low, high) in zip(at, ends.tolist(), strict=True)], css)
        for ends, css in ((curve.before_range, "log"), (curve.after_range, "new"))
    ]
    first, last = (f"{typeset(curve.before[place])} → {typeset(curve.after[place])}" for place in (0, -1))
    plane = Plane(
        f"{curve.action} against {curve.column}, now and under the new policy: {first} where {curve.column} is lowest, "
        f"{last} where it is highest",
        curve.column,
        f"{curve.action}: mean, and the middle 80%",
        lines=lines,
        bands=bands,
        keys=KEYS,
        height=165 if small else 220,
        width=NARROW if small else WIDTH,
    )
    if small:
        return Picture("", plane.svg())
    caption = f"Each point of a line stands for at least {curve.decisions:,} decisions."
    return Picture(f"{curve.action} against {curve.column}", plane.svg(), caption)


TITLE = "What changes, in detail"
ABOUT = "which action replaces which, when, and the ten largest changes"


def changes_section(subject: Subject, show_values: bool) -> Section:
    """How often and where the policy departs from current practice."""
    logs = subject.logs
    if subject.shown is None:
        return Section("changes", TITLE, (Text("There is no policy to look at: nothing would change.", "note"),), ABOUT)
    first = [] if subject.groups is None else [shares_picture(subject.groups, title="How often each action is taken")]
    if logs is None:
        needed = needs_logs("What the policy does differently in which cases")
        return Section("changes", TITLE, (*([Pictures(first)] if first else []), needed), ABOUT)
    stepwise = _steps_picture(logs)
    blocks: list[Block] = [Text(_in_words(logs))]
    blocks.append(Pictures([*first, _flows_picture(flows_of(logs))]))
    if stepwise is not None:
        blocks.append(Pictures((stepwise,)))
    if STEP in subject.by:
        by_number = action_shares(logs, [STEP])
        blocks += [Pictures((_strata_picture(by_number),)), _strata_table(by_number)]
    blocks += _largest(logs, show_values)
    if logs.followed is not logs.train:
        words = f"{logs.followed.n_episodes:,} of {logs.train.n_episodes:,} cases, spread evenly over the log"
        blocks.append(Text(f"To save time, this section and that on allowed actions look at {words}.", "note"))
    return Section("changes", TITLE, blocks, ABOUT)


def _in_words(logs: StudyLogs) -> str:
    change, acting = departures(logs), logs.acting
    assert acting is not None
    if change is None or logs.logging is None:
        return "How probable the actions were that were not taken is not known, so changes cannot be counted."
    other = float((acting.argmax(axis=1) != logs.logging.argmax(axis=1)).mean())
    first = (
        "Its first choice is always the one that is usual today."
        if other < 0.0005
        else f"Its first choice differs from the usual one in {other:.1%}."
    )
    decisions = f"{change.mean():.1%} of {logs.followed.n_steps:,} logged decisions"
    return f"The new policy would decide otherwise in {decisions}. {first}"


def _steps_picture(logs: StudyLogs) -> Picture | None:
    by_step_number = by_step(logs)
    if by_step_number is None or len(by_step_number[0]) < 3:
        return None
    steps, means, counts = (part.tolist() for part in by_step_number)
    plane = Plane(
        "The share of decisions that change, by step of an episode",
        "step of an episode",
        "share of decisions",
        lines=[Line(list(zip(steps, means, strict=True)), "newline")],
        from_zero=True,
        whole_x=True,
    )
    return Picture(
        "When decisions change",
        plane.svg(),
        f"The share of decisions that change, at steps that at least {counts[-1]:,} cases reach.",
    )


def _strata_picture(shares: ActionShares) -> Picture:
    rows, cells = [], []
    most = max(float(max(part.logged.max(), part.policy.max())) for part in shares.strata)
    for stratum in shares.strata:
        for whose, values in (("log", stratum.logged), ("policy", stratum.policy)):
            rows.append(whose)
            cells.append(
                [
                    Cell(value / most, f"{100 * value:.0f}", f"{stratum.name}, {whose}: {name} {value:.1%}")
                    for name, value in zip(shares.actions, values.tolist(), strict=True)
                ]
            )
    headings = {2 * place: stratum.name for place, stratum in enumerate(shares.strata)}
    label = (
        f"Shares of actions in {len(shares.strata)} groups of decisions, in the log and under the policy, in percent"
    )
    svg = heat_map(rows, shares.actions, cells, label, x="percent of decisions", headings=headings)
    return Picture(
        "Groups of decisions", svg, "For each group: what the log did, and below it what the policy would do."
    )


def _flows_picture(flows: Flows) -> Picture:
    most = float(np.nanmax(flows.shares, initial=0.0)) or 1.0
    cells = [
        [
            Cell(share / most, f"{100 * share:.0f}", f"{old} → {new}: {share:.1%} of {count.words} decisions")
            if not np.isnan(share)
            else Cell(share, "", f"{old}: too few cases")
            for new, share in zip(flows.actions, line, strict=True)
        ]
        for old, line, count in zip(flows.actions, flows.shares.tolist(), flows.decisions, strict=True)
    ]
    label = "Of the decisions for each logged action, the share in which the policy would take each action, in percent"
    svg = heat_map(flows.actions, flows.actions, cells, label, x="the policy would", y="the log did")
    return Picture("What becomes of each action", svg, "Percent of each row. A strong diagonal: little changes.")


def _points(change: float) -> str:
    return f"{100 * change:+.1f} points".replace("-", "−")


def _strata_table(shares: ActionShares) -> Table:
    columns = (
        Column("group"),
        Column("decisions", True),
        Column("changed", True),
        Column("rises most"),
        Column("falls most"),
    )
    rows = []
    for stratum in shares.strata:
        change = stratum.policy - stratum.logged
        up, down = int(change.argmax()), int(change.argmin())
        rows.append(
            (
                Entry(named(stratum.name, LONG), stratum.name),
                Entry(f"{stratum.decisions:,}", stratum.decisions),
                Entry("–" if stratum.departure is None else f"{stratum.departure:.1%}", stratum.departure),
                Entry(named(shares.actions[up], LONG) + f" {_points(change[up])}", float(change[up])),
                Entry(named(shares.actions[down], LONG) + f" {_points(change[down])}", float(change[down])),
            )
        )
    return Table("Groups in numbers", columns, rows)


def _largest(logs: StudyLogs, show_values: bool) -> list[Block]:
    changes = largest_changes(logs)
    if not changes:
        return []
    several = logs.followed.n_steps > logs.followed.n_episodes
    columns = [
        *([Column("step", True)] if several else []),
        Column("changed", True),
        Column("falls"),
        Column("rises"),
        Column("similar cases", True),
        Column("… with that action", True),
        Column("distance to the nearest", True),
    ]
    lengths = np.diff(logs.followed.offsets)
    fewest = logs.smallest
    rows = [_change_row(one, int((lengths > one.step).sum()), fewest)[0 if several else 1 :] for one in changes]
    note = (
        "One decision for each case. Similar cases: logged contexts within the radius of the rule (or of the default "
        "rule, where the policy has none). Distance: to the nearest one that got the action that rises. "
        f"Steps, counts and distances that fewer than {fewest} cases share are not shown."
    )
    table = Table(f"The {len(rows)} largest changes", columns, rows, note=note)
    return [table, _values(logs, changes)] if show_values else [table]


def _change_row(change: Change, reached: int, fewest: int) -> tuple[Entry, ...]:
    """One decision without what would tell of a single case: steps that few reach, and counts and distances of few."""
    few = change.near_more is None or change.near_more < fewest
    distance = None if few or change.distance is None else float(f"{change.distance:.1g}")
    return (
        Entry(str(change.step), change.step) if reached >= fewest else Entry("–", None),
        Entry(f"{change.departure:.0%}", change.departure),
        Entry(named(change.less, LONG) + f" {change.less_from:.0%} → {change.less_to:.0%}", change.less),
        Entry(named(change.more, LONG) + f" {change.more_from:.0%} → {change.more_to:.0%}", change.more),
        _count(change.near, fewest),
        _count(change.near_more, fewest),
        Entry("–" if distance is None else f"{distance:g}", distance),
    )


def _count(count: int | None, fewest: int) -> Entry:
    if count is None:
        return Entry("–", None)
    return Entry(f"{count:,}", count) if count >= fewest else Entry(f"under {fewest}", 0)


def _values(logs: StudyLogs, changes: Sequence[Change]) -> Table:
    followed = logs.followed
    ids = followed.episode_ids
    columns = [
        Column("episode"),
        Column("step", True),
        *(Column(clean_name, True) for clean_name in followed.feature_names),
    ]
    rows = [
        (
            Entry(named(change.episode if ids is None else ids[change.episode]), str(change.episode)),
            Entry(str(change.step), change.step),
            *(Entry(f"{value:.4g}", float(value)) for value in followed.contexts[change.row]),
        )
        for change in changes
    ]
    return Table(
        "What was known in these cases",
        columns,
        rows,
        note="These are values from the log: protect this page as you protect the log.",
    )
