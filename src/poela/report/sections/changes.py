"""What would change, and for whom."""

from collections.abc import Sequence

import numpy as np

from poela.report.blocks import Block, Column, Entry, Picture, Pictures, Section, Table, Text, named, needs_logs
from poela.report.numbers.changes import (
    ActionShares,
    Change,
    Flows,
    action_shares,
    by_step,
    departures,
    flows_of,
    largest_changes,
)
from poela.report.pictures.charts import Key, Line, Pair, Plane, pairs
from poela.report.pictures.grids import Cell, heat_map
from poela.report.study_logs import StudyLogs
from poela.report.wording import readable

TITLE = "What would change, and for whom"
LONG = 60  # letters of a name in a table; the whole of it is in the section on the data
KEYS = (Key("log", "log"), Key("new", "policy"))


def changes_section(logs: StudyLogs | None, by: Sequence[str], show_values: bool) -> Section:
    """How often and where the policy departs from current practice."""
    if logs is None:
        return Section("changes", TITLE, (needs_logs("What the policy does differently"),))
    if logs.acting is None:
        return Section("changes", TITLE, (Text("There is no policy to look at: nothing would change.", "note"),))
    shares = action_shares(logs, by)
    blocks: list[Block] = [Text(_in_words(logs))]
    pictures = [_actions_picture(shares)]
    stepwise = _steps_picture(logs)
    blocks.append(Pictures((*pictures, *([] if stepwise is None else [stepwise]))))
    maps = [_flows_picture(flows_of(logs))]
    if len(shares.strata) > 1:
        maps.insert(0, _strata_picture(shares))
    blocks.append(Pictures(maps))
    if len(shares.strata) > 1:
        blocks.append(_strata_table(shares))
    else:
        blocks.append(
            Text("To see groups of cases apart, name a column: --by COLUMN (numbers are cut at quantiles).", "note")
        )
    blocks += _largest(logs, show_values)
    if logs.followed is not logs.train:
        words = f"{logs.followed.n_episodes:,} of {logs.train.n_episodes:,} episodes, spread evenly over the log"
        blocks.append(Text(f"To save time, this section and the next look at {words}.", "note"))
    return Section("changes", TITLE, blocks)


def _in_words(logs: StudyLogs) -> str:
    change, acting = departures(logs), logs.acting
    assert acting is not None
    assert logs.shown is not None
    whose = f"The policy that is {logs.study.answer.called if logs.shown.recommended else 'worth a trial'}"
    if change is None or logs.logging is None:
        return f"{whose} is set beside the logged actions; how probable other actions were is not known."
    other = float((acting.argmax(axis=1) != logs.logging.argmax(axis=1)).mean())
    return (
        f"{whose} would decide otherwise in {change.mean():.1%} of {logs.followed.n_steps:,} logged decisions. The "
        f"action that it favours is another than the usual one in {other:.1%} of them."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def _actions_picture(shares: ActionShares) -> Picture:
    everybody = shares.strata[0]
    rows = [
        Pair(name, old, new, f"{_percent(old)} → {_percent(new)}", f"{name}: log {old:.1%}, policy {new:.1%}")
        for name, old, new in zip(shares.actions, everybody.logged.tolist(), everybody.policy.tolist(), strict=True)
    ]
    label = f"How often each of {len(rows)} actions was taken, and how often the policy would take it"
    svg = pairs(rows, label, "share of decisions", KEYS)
    return Picture("How often each action is taken", svg, "At the contexts of the log, as they were reached there.")


def _steps_picture(logs: StudyLogs) -> Picture | None:
    by_step_number = by_step(logs)
    if by_step_number is None or len(by_step_number[0]) < 3:
        return None
    steps, means, counts = (part.tolist() for part in by_step_number)
    plane = Plane(
        "The share of decisions that change, by step of an episode",
        "step of an episode",
        "share of decisions that change",
        lines=[Line(list(zip(steps, means, strict=True)), "newline")],
        from_zero=True,
        whole_x=True,
    )
    return Picture("When decisions change", plane.svg(), f"Steps that at least {counts[-1]:,} episodes reach.")


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
    most = float(np.nanmax(flows.shares))
    cells = [
        [
            Cell(
                share / most,
                "" if np.isnan(share) else f"{100 * share:.0f}",
                f"{old} → {new}: {share:.1%} of {count:,} decisions",
            )
            for new, share in zip(flows.actions, line, strict=True)
        ]
        for old, line, count in zip(flows.actions, flows.shares.tolist(), flows.decisions.tolist(), strict=True)
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
    columns = [
        Column("step", True),
        Column("changed", True),
        Column("less"),
        Column("more"),
        Column("like cases", True),
        Column("… with that action", True),
        Column("nearest of these", True),
    ]
    rows = [_change_row(change) for change in changes]
    note = (
        "One decision in an episode. Like cases: logged contexts within the radius of the rule (without one, of the "
        "usual rule), and the distance to the nearest where the action that gains was taken."
    )
    table = Table(f"The {len(rows)} largest changes", columns, rows, note=note)
    return [table, _values(logs, changes)] if show_values else [table]


def _change_row(change: Change) -> tuple[Entry, ...]:
    return (
        Entry(str(change.step), change.step),
        Entry(f"{change.departure:.0%}", change.departure),
        Entry(named(change.less, LONG) + f" {change.less_from:.0%} → {change.less_to:.0%}", change.less),
        Entry(named(change.more, LONG) + f" {change.more_from:.0%} → {change.more_to:.0%}", change.more),
        Entry("–" if change.near is None else f"{change.near:,}", change.near),
        Entry("–" if change.near_more is None else f"{change.near_more:,}", change.near_more),
        Entry(readable(change.distance), change.distance),
    )


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
        note="These are values of the log: keep this page as you keep the log.",
    )
