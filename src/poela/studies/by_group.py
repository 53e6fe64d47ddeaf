"""`study.by(…)`: who gets what, and who gains, by groups of the episodes that judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray
from poela.core.errors import InputError
from poela.core.typed import Count, parsed
from poela.data.groups import SMALLEST_GROUP, GroupBy, Grouping, context_column, episode_columns, grouped, table_column
from poela.data.layout import LogLayout
from poela.data.losses import loss_by_group
from poela.data.trajectories import Trajectories
from poela.data.words import quoted
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import logged_support
from poela.evaluation.recombination import Recombined
from poela.evaluation.scoring import Evaluator, Scoring
from poela.studies.acted import Acted, acted, merged_actions
from poela.studies.fold_errors import stored_pairs
from poela.studies.group_gains import GroupGain, GroupJudge
from poela.studies.groups import EVERYBODY, Group, Groups
from poela.studies.held_out import Episodes
from poela.studies.judging import allowed_factor, evidence_on, first_judged
from poela.studies.names import names_of
from poela.studies.outcome_unit import Outcome
from poela.studies.selection import Point, Selection
from poela.studies.splits import Given, checked_parts, with_propensities

if TYPE_CHECKING:
    from poela.studies.study import Study

LEAST_CONFIDENCE = 0.95  # where policies are chosen by estimates, without any
Table = Callable[[Sequence[str]], Mapping[str, Mapping[Any, Any]]]  # columns of a table, by episode


@dataclass(frozen=True)
class GroupRequest:
    """Which groups to look at: columns ("ward", "age:3"), and the fewest cases that a group may have."""

    by: tuple[str, ...] = ()
    smallest: Count = SMALLEST_GROUP
    table: Table | None = None  # reads columns that are not in the context; None: there is no table

    def __post_init__(self) -> None:
        parsed("smallest_group", Count, self.smallest)
        if wrong := [text for text in self.by if not isinstance(text, str)]:
            raise InputError(f"groups are named by columns, as text: {len(wrong)} of these are not text")

    @classmethod
    def of_table(cls, by: Sequence[str], smallest: int, source: Any, layout: LogLayout | None) -> "GroupRequest":
        """Groups by columns of a table, whether they are in the context or not; each is read once."""
        read = cache(lambda names: episode_columns(source, layout, names))
        return cls(tuple(by), smallest, lambda names: read(tuple(names)))

    def refuse_unknown(self, logs: Trajectories) -> None:
        """Refuse columns that do not tell groups of these logs, before any work is done."""
        if self.by:
            self.groupings([logs], Episodes.of([logs], 1.0))

    def losses(self, logs: Trajectories) -> list[str]:
        """Refuses columns that do not tell groups; else which shares of each group were lost, where some were."""
        found = self.groupings([logs], Episodes.of([logs], 1.0)) if self.by else []
        known = [one for one in found if len(one.names) > 1]
        return (
            [] if logs.lost is None else [loss_by_group(logs.lost, one.column, one.names, one.place) for one in known]
        )

    def grouping(self, column: str, held_out: Sequence[Trajectories], episodes: Episodes) -> Grouping:
        """The groups by one column, asked for or not."""
        (found,) = replace(self, by=(column,)).groupings(held_out, episodes)
        return found

    def groupings(self, held_out: Sequence[Trajectories], episodes: Episodes) -> list[Grouping]:
        """The groups of these episodes by each column."""
        schema = held_out[0].schema
        known = held_out[0].feature_names if schema is None else schema.context
        wanted = [GroupBy.of(text, known) for text in dict.fromkeys(self.by)]
        columns = {one.column: context_column(held_out, one.column) for one in wanted}
        missing = [name for name, column in columns.items() if column is None]
        if missing and self.table is None:
            raise InputError(
                f"column {quoted(missing)} is not in the context ({quoted(known)}): group by one of these, or give the "
                "table that has it"
            )
        read = self.table(missing) if missing and self.table is not None else {}
        found = []
        for one in wanted:
            column = columns[one.column]
            if column is None:
                column = table_column(held_out, one.column, read[one.column], as_numbers=one.bins is not None)
            found.append(grouped(column, one.bins, episodes.logs.units, self.smallest))
        return found


def asked_groups(study: "Study", columns: Sequence[str], logs: Given | None, smallest: int) -> Groups:
    """The groups that a study tells by these columns: stored ones, or from the logs that it was made of."""
    result = study.result
    place = None if result is None else result.promising if result.chosen is None else result.chosen
    if result is None or place is None:
        raise InputError(f"{study.directory} has no new policy, so that nothing changes for any group")
    stored = result.groups
    if stored is not None and logs is None:
        if not columns:
            return replace(stored, groups=stored.groups[:1], asked=(), notes=())
        if stored.smallest == smallest and stored.asked == tuple(columns):
            return stored
    parts = study.parts if logs is None else checked_parts(study, logs)
    if parts is None:
        raise InputError(f"groups need the logs that {study.directory} was made of: give them with logs=")
    _, held_out = with_propensities(study, parts)
    if not held_out:
        raise InputError("groups need the episodes that judged the policy, and these logs do not have them")
    if logs is None or isinstance(logs, Trajectories):
        request = GroupRequest(tuple(columns), smallest)
    else:
        request = GroupRequest.of_table(columns, smallest, logs, study.record.data.layout)
    return groups_of(study, study.points, study.points[place], held_out, request)


def groups_of(
    study: "Study", points: Sequence[Point], point: Point, held_out: Sequence[Trajectories], request: GroupRequest
) -> Groups:
    """Everybody and the groups that are asked for, of the episodes that judged the policy of a point.

    `held_out` are these episodes, fold by fold, with propensities as the study has them.
    """
    settings = study.settings
    audit = study.record.audit
    problem = "" if audit is None else audit.problem
    episodes = Episodes.of(held_out, settings.scoring.discount, problem, settings.scoring.cap)
    groupings = request.groupings(held_out, episodes)
    named, members = _members(groupings)
    everybody = np.ones(episodes.logs.n_episodes, np.bool_)
    judge = _judge(study, points, point, held_out, episodes) if groupings else None
    gains = [_known_gain(point, judge, everybody), *([] if judge is None else judge.judged(members))]
    truncation = settings.scoring.truncation
    done = Acted.joined([acted(study.fold_policy(point, fold), logs, truncation) for fold, logs in enumerate(held_out)])
    found = Groups(
        policy=names_of(study, points)[point.path_id, point.number],
        actions=(),
        groups=(),
        confidence=_confidence(settings.selection),
        level=settings.scoring.level,
        smallest=request.smallest,
        asked=request.by,
        amounts=done.amounts,
        adds_up=judge is not None and judge.controlled and not episodes.estimated,
        notes=tuple(grouping.note for grouping in groupings if grouping.note),
        outcome=study.record.outcome or Outcome(),
    )
    return filled(
        found,
        done,
        held_out,
        episodes,
        [("", EVERYBODY), *named],
        [everybody, *members],
        gains,
    )


def evaluated_groups(
    policy: Any,
    name: str,
    logs: Trajectories,
    scoring: Scoring,
    request: GroupRequest,
    *,
    gamma: float = 1.0,
    problem: str = "",
    outcome: Outcome | None = None,
) -> Groups:
    """The groups of other logs, which carry propensities: of a policy that was not chosen by them.

    By self-normalised weights, whatever the estimator. Where propensities are estimated, bounds survive weights that
    are wrong by a factor of `gamma`; `problem` says why no weight can be right, if that is known.

    >>> from poela.data.trajectories import Trajectories
    >>> class Second:
    ...     def probabilities(self, contexts):
    ...         return np.tile([0.25, 0.75], (len(contexts), 1))
    >>> old, actions = np.arange(80) % 2, np.arange(80) // 2 % 2  # what the second action gives to the old alone
    >>> columns = {"propensities": np.full((80, 2), 0.5), "feature_names": ["old"]}
    >>> logs = Trajectories(old[:, None], actions, old * actions, np.arange(81), **columns)
    >>> found = evaluated_groups(Second(), "second", logs, Scoring(), GroupRequest(("old",)))
    >>> [(group.label, group.cases, group.gain) for group in found]
    [('everybody', 80, 0.125), ('old: 0', 40, 0.0), ('old: 1', 40, 0.25)]
    """
    scoring = replace(scoring, estimator="sntis").knowing(logs)
    episodes = Episodes.of([logs], scoring.discount, problem, scoring.cap)
    groupings = request.groupings([logs], episodes)
    (evidence,) = Evaluator(logs, scoring, support=logged_support(logs)).evidence([policy])
    drawn = Recombined(logs, scoring.seed).log_weights(evidence).astype(np.float32)
    pooled = episodes.evidence(evidence.weights.episodes, scoring, None, evidence.outside)
    judge = GroupJudge((pooled, drawn), episodes, scoring, gamma=gamma if episodes.estimated else 1.0)
    named, members = _members(groupings)
    everybody = np.ones(episodes.logs.n_episodes, np.bool_)
    done = acted(policy, logs, scoring.truncation)
    found = Groups(
        policy=name,
        actions=(),
        groups=(),
        level=scoring.level,
        smallest=request.smallest,
        asked=request.by,
        amounts=done.amounts,
        notes=tuple(grouping.note for grouping in groupings if grouping.note),
        outcome=outcome or Outcome(),
    )
    gains = [*judge.judged([everybody]), *judge.judged(members)]
    return filled(found, done, [logs], episodes, [("", EVERYBODY), *named], [everybody, *members], gains)


def filled(
    groups: Groups,
    done: Acted,
    held_out: Sequence[Trajectories],
    episodes: Episodes,
    named: Sequence[tuple[str, str]],
    members: Sequence[BoolArray],
    gains: Sequence[GroupGain],
) -> Groups:
    """The same with its groups and what they got and would get."""
    used = done.before.sum(axis=0) + np.nan_to_num(done.after.sum(axis=0))
    names, merge = merged_actions(held_out[0].action_names, used)
    rows = []
    for (column, name), inside, gain in zip(named, members, gains, strict=True):
        before, after, changed = done.means(inside)
        units = episodes.logs.units[inside]
        rows.append(
            Group(
                column,
                name,
                len(np.unique(units)),
                int(inside.sum()),
                float(episodes.logs.rewards[inside].mean()),
                tuple((merge @ before).tolist()),
                tuple((merge @ after).tolist()),
                changed,
                *(gain.gain, gain.shown, gain.low, gain.high, gain.error, gain.ess, gain.verdict),
            )
        )
    merged = replace(done, moves=None if done.moves is None else merge @ done.moves @ merge.T)
    return replace(groups, actions=names, groups=tuple(rows), moves=merged.largest_moves(names))


def _known_gain(point: Point, judge: GroupJudge | None, everybody: BoolArray) -> GroupGain:
    """The gain of everybody, with the bound that the answer has."""
    known = point.metrics
    if judge is None:
        return GroupGain(
            known.get("gain"), known.get("shown"), None, None, None, known.get("ess") or 0.0, point.verdict
        )
    (overall,) = judge.judged([everybody])
    shown = known.get("shown")
    return overall if shown is None else replace(overall, shown=shown, verdict=point.verdict)


def _confidence(selection: Selection) -> float:
    return selection.confidence if selection.by == "gain" else max(selection.confidence, LEAST_CONFIDENCE)


def _members(groupings: Sequence[Grouping]) -> tuple[list[tuple[str, str]], list[BoolArray]]:
    """The names of all groups, and which episodes [n] belong to each."""
    named = [(one.column, name) for one in groupings for name in one.names]
    return named, [np.asarray(one.place == place) for one in groupings for place in range(len(one.names))]


def _judge(
    study: "Study", points: Sequence[Point], point: Point, held_out: Sequence[Trajectories], episodes: Episodes
) -> GroupJudge:
    settings, store, folds = study.settings, study.store, study.n_folds
    able = [one for one in points if one == point or one.metrics.get("shown") is not None]
    others: list[Evidence] = []
    family = [point]  # the policy, then the others
    for one, shown in evidence_on(store, able, episodes, settings, folds):
        if one == point:
            policy = shown
        else:  # whose recombined episodes nobody asks for
            others.append(shown[0])
            family.append(one)
    return GroupJudge(
        policy,
        episodes,
        settings.scoring,
        _confidence(settings.selection),
        allowed_factor(episodes, settings),
        controlled=point.metrics.get("controlled") is not None and policy[0].controlled is not None,
        others=others,
        first=first_judged(points, family, settings, episodes),
        sizes=[logs.n_episodes for logs in held_out],
        number=point.number,
        pairs=stored_pairs(store, point.path_id, folds),
    )
