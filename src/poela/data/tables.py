"""Tables of logged decisions, read into `Trajectories`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, FloatArray, IntArray, freeze
from poela.core.errors import InputError, PoelaWarning
from poela.core.policy import AnyPolicy
from poela.data.action_space import DENSITY, ActionName, Box, Finite
from poela.data.actions import alike_names, name_actions
from poela.data.beside import Beside, by_end, hiding, opened_with, with_done
from poela.data.checks import NO_CONTEXT, learning_problems
from poela.data.clusters import cluster_of_episodes
from poela.data.context_columns import contexts_of, irregular, strict_columns, variables_of, without_constants
from poela.data.decided import notes_of_decisions, of_decisions
from poela.data.labels import Labels, encode, is_label
from poela.data.layout import CENSORED, EPISODE, STEP, LogLayout
from poela.data.limited_rows import LimitedRows, lacks_limits, limited_rows
from poela.data.losses import loss_in_words
from poela.data.numbers import NOT_TOLD_APART, merges_in_single, numbers_of, read_numbers, read_outcomes
from poela.data.opening import AnyTable, explain_read_errors
from poela.data.order import Order, in_table, order_of, sortable_steps
from poela.data.outcomes import joined_receipts
from poela.data.propensity_columns import paired
from poela.data.real_actions import doses_in, read_actions, with_doses, with_noted_actions
from poela.data.receipts import is_receipts
from poela.data.reshaping import put_right, untold_end
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.trajectories import Trajectories
from poela.data.words import bad_log, counted, kind_in_words, quoted
from poela.data.writing import CLUSTER, CLUSTERS, ESTIMATED, LOST, OUTCOMES, columns_noted, is_usual_name, noted_schema

MOST_NOTES = 20
WHOLE_IN_SINGLE = 2**24  # up to here, single precision tells whole numbers apart
NARROW = 2**-7  # of the largest number: a range of 2^16 different ones, or fewer


def read_logs(
    source: AnyTable,
    *,
    episode: str | None = EPISODE,
    step: str | None = STEP,
    action: str | Sequence[str] = "action",
    reward: str = "reward",
    context: Sequence[str] | str | None = None,
    propensity: str | Sequence[str] | Mapping[ActionName, str] | None = None,
    actions: Sequence[ActionName] | None = None,
    cluster: str | None = None,
    log_density: str | None = None,
    side_outcomes: Sequence[str] = (),
    missing: str = "indicator",
    category: Sequence[str] = (),
    ordinal: Mapping[str, Sequence[str]] | None = None,
    origin: str | None = None,
    censored: str | None = None,
    end: str | None = None,
    horizon: float | None = None,
    wide: Sequence[str] = (),
    allowed: str | None = None,
    forbid: Sequence[str] = (),
    separator: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    layout: LogLayout | None = None,
    for_learning: bool = False,
    outcomes: AnyTable | None = None,
    done: str | None = None,
    ended: str | None = None,
    logged_by: str | PathLike[str] | AnyPolicy | None = None,
) -> Trajectories:
    """Read a table with one row for each decision, in any order, and check all of it.

    The source is a Parquet, CSV, Arrow or Feather file, or anything that Arrow takes for a table (pandas, polars, …).
    Episodes come in the order of ids, decisions in that of steps; `step="rows"` takes rows as they stand, and where
    neither column is there, every row is an episode. Without `context`, all other columns are features. Without
    `propensity`, a column `propensity` (of the logged action) or columns `propensity_<action>` (of every action) are
    found. The actions are those of `actions` or of propensity columns, else the sorted values that occur. `cluster`
    names what episodes belong to, such as a patient with several stays: kept together everywhere. The reward may be a
    formula of columns, "survived - 0.01*cost", and blank before the last row of an episode.
    Text becomes one feature 0/1 for each category (or, with `ordinal`, a number), and so do number columns named in
    `category`; times count in days from the first of their episode, or from `origin`; `missing` is about gaps. Missing
    outcomes, rows after the end (`censored`, `end`, `horizon`), tables `wide`: docs/guides/missing.md; `allowed` and
    `forbid`: docs/guides/limits.md. `schema` has the result, `notes` what was done. A folder of receipts is joined with
    `outcomes`, a table of cases and rewards; `done` is the column of what was done where a policy only recommends,
    `ended` the one by which episodes are ordered, `logged_by` who made the log: "practice", a study's folder, or a
    policy. What `to_table` wrote is read back as it was, but for what CSV files cannot say. All that is wrong is told.
    >>> import pyarrow as pa
    >>> logs = read_logs(pa.table({"episode": ["b", "a", "a"], "step": [0, 1, 0], "age": [70, None, 50],
    ...                            "action": ["wait", "treat", "wait"], "reward": [0.0, 1.0, 0.0]}))
    >>> logs
    Trajectories(2 episodes, 3 steps, 2 features, 2 actions, no propensities)
    """
    said = {**locals(), "ordinal": ordinal or {}}
    named = LogLayout(**{one.name: said[one.name] for one in fields(LogLayout) if one.name in said})
    if layout is not None and named != LogLayout():
        raise InputError("columns are named twice: give either a layout or names of columns")
    return read_beside(source, layout or named, Beside(outcomes, done, ended, logged_by), for_learning)


def read_beside(source: Any, layout: LogLayout, beside: Beside, for_learning: bool = False) -> Trajectories:
    """The logs, with what is known of their cases beside the table."""
    notes: tuple[str, ...] = ()
    if is_receipts(source):
        if beside.outcomes is None:
            raise InputError("receipts do not know what came of them: give outcomes=, a table of cases and rewards")
        joined = joined_receipts(source, beside, layout)
        source, layout, notes, beside = joined.table, joined.layout, joined.notes, replace(beside, ended=joined.ended)
    elif beside.outcomes is not None:
        raise InputError("outcomes= goes with a folder of receipts, and this is none: name the folder of --receipts")
    with explain_read_errors(source):
        source, layout, said = put_right(source, layout)
        opened, logs = _opened_and_read(source, layout, beside)
        logs = _with_loss(logs, said)
        merged = _merged_features(opened, logs)
    if for_learning:
        logs = without_constants(logs, but=merged) if layout.schema is None else logs
        if problems := learning_problems(logs, merged):
            gone = "; ".join(note for note in logs.notes if ": left out" in note)
            raise bad_log([f"{one} ({gone})" if one == NO_CONTEXT and gone else one for one in problems])
    if merged:
        notes = (*notes, f"column {quoted(merged)} has numbers {NOT_TOLD_APART}: subtract an offset, or scale them")
    if not notes and beside.logged_by == logs.logged_by:
        return logs  # another copy would check all rows again
    return replace(logs, notes=(*logs.notes, *notes), logged_by=beside.logged_by)


def read_and_warn(
    source: str | PathLike[str] | Any,
    layout: LogLayout | None,
    for_learning: bool = False,
    beside: Beside | None = None,
) -> Trajectories:
    """The logs, with what was noted while they were read said as warnings; the command line shows them as notes."""
    logs = read_beside(source, layout or LogLayout(), beside or Beside(), for_learning)
    warn_of(logs.notes)
    return logs


def warn_of(notes: Sequence[str]) -> None:
    """Say each note as a warning or, where these would fill pages, the first ones."""
    rest = len(notes) - MOST_NOTES
    for note in (*notes[:MOST_NOTES], *([f"and {counted(rest, 'more note')}"] if rest > 0 else [])):
        warnings.warn(note, PoelaWarning, stacklevel=3)


def _opened_and_read(source: Any, layout: LogLayout, beside: Beside) -> tuple[TableSource, Trajectories]:
    whole = opened_with(source, layout, beside.columns)
    opened, logs = _opened_log(hiding(whole, beside.columns) if beside.columns else whole, source, layout, beside)
    if beside.columns:
        order = ordered(opened, in_table(layout, opened), RowProblems())[1]
        assert order is not None  # or the logs could not have been read
        logs = logs if beside.done is None else with_done(logs, whole, order, beside.done)
        logs = logs if beside.ended is None else by_end(logs, whole, order, beside.ended)
    return opened, logs


def _opened_log(
    opened: TableSource, source: Any, layout: LogLayout, beside: Beside
) -> tuple[TableSource, Trajectories]:
    import pyarrow as pa

    if (decided := of_decisions(layout, opened.names)) != layout:  # by which other columns are read
        return _opened_log(
            hiding(opened_with(source, decided, beside.columns), beside.columns), source, decided, beside
        )
    again = opened.reopened
    try:
        return opened, _read(opened, layout)
    except pa.ArrowCancelled:
        raise  # an interruption: nothing is wrong with the file
    except pa.ArrowException:
        if again is None:
            raise
    # Not in the handler, where the first error, which quotes a cell, would be shown beside a second one.
    opened = again()
    return opened, _read(opened, layout)


def _read(source: TableSource, layout: LogLayout) -> Trajectories:
    """Read every column that can be read, whatever is wrong with others, and tell all problems together."""
    layout = in_table(with_noted_actions(_with_noted_columns(layout, source), source), source)
    problems = layout.problems(source.names)
    if source.n_rows == 0:
        problems.append("there are no rows: the log needs one for each decision")
    if source.n_rows == 0 or len(set(source.names)) < len(source.names) or not layout.recognises(source.names):
        raise bad_log(problems)
    own = () if layout.context else notes_of_decisions(source.names, layout.action_columns)
    given, layout = layout, layout.resolve(source.names)
    row_problems = RowProblems()
    episodes, order, notes = ordered(source, layout, row_problems)
    notes = (*notes, *own)
    labels = layout.action_space.labels(layout.action_columns)
    taken = labels_in(source, labels[0], row_problems, is_action=True) if labels else None
    doses = doses_in(layout, source, taken)
    if doses is not None:
        layout, said = with_doses(given)  # whose log density is then found by its name
        layout, notes = layout.resolve(source.names), (*notes, said)
    acted = READ_ACTIONS[layout.action_space.kind](
        source, layout, taken if doses is None else doses, order, row_problems
    )
    layout, limited = acted.layout, acted.limited
    variables = variables_of(source, layout, row_problems)
    plain = [variable.name for variable in variables if variable.kind == "number"]
    numbers = read_numbers(source, layout, plain, strict_columns(layout), acted.codes, order, row_problems)
    beside = read_outcomes(source, layout, order, row_problems, numbers)
    around: Any = (source, layout, variables, numbers.contexts, order, row_problems, limited)
    contexts = None if order is None or lacks_limits(layout, limited) else contexts_of(*around)
    clusters, changing = _clusters(source, layout, episodes, row_problems)
    problems += row_problems.sentences() + changing + acted.problems
    if problems or episodes is None or order is None or acted.actions is None or contexts is None:
        raise bad_log(problems)
    features = contexts.schema.feature_names
    told = (*source.notes, *notes, *acted.notes, *contexts.notes, *numbers.notes, *beside.notes)
    return Trajectories(
        contexts=freeze(contexts.rows.contexts),
        actions=acted.actions,
        rewards=freeze(numbers.rewards),
        lost=_lost(beside.lost),
        offsets=order.offsets,
        propensities=None if numbers.propensities is None else freeze(numbers.propensities),
        log_densities=acted.log_densities,
        feature_names=features,
        action_names=acted.names,
        episode_ids=episodes.values.to_numpy(zero_copy_only=False),
        clusters=clusters,
        estimated=_noted(source, ESTIMATED) and acted.usual,
        schema=noted_schema(source.schema.metadata, features) or contexts.schema,
        notes=tuple(dict.fromkeys(told)),
        outcomes=None if beside.values is None else freeze(beside.values),
        outcome_names=layout.side_outcomes,
    )


@dataclass(frozen=True, eq=False)
class _Acted:
    """What a table says of actions."""

    layout: LogLayout  # by which the rest is read
    names: tuple[ActionName, ...] = ()
    actions: NDArray[Any] | None = None  # in their final order; None: they cannot be read
    codes: IntArray | None = None  # of names, by row of the file
    log_densities: FloatArray | None = None
    usual: bool = True  # whether what is known of the logging policy stands in columns that `to_table` writes
    limited: LimitedRows | None = None
    notes: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)


def _named_actions(
    source: TableSource, layout: LogLayout, taken: Labels | None, order: Order | None, found: RowProblems
) -> _Acted:
    """Of a finite set, from labels."""
    codes, names = (None, ()) if taken is None else name_actions(taken, source, layout, found)
    layout, unpaired = paired(layout, names)
    limited = limited_rows(source, layout, names, found) if names else None
    notes: tuple[str, ...] = ()
    if alike := alike_names(names):
        where = f"column {quoted(layout.action_columns)} has {counted(alike, 'action')}"
        why = "differ from another only by capital letters or blanks"
        notes = (f"{where} that {why}: they count as different actions, so write each in one way",)
    if limited is not None and codes is not None:
        limited.note_broken(codes, names, found)
        notes = (*notes, *limited.notes_of_log(codes, names))
    actions = None if order is None or codes is None else freeze(order.place(codes))
    usual = all(map(is_usual_name, layout.propensity_columns()))
    return _Acted(layout, names, actions, codes, None, usual, limited, notes, unpaired)


def _amounts(
    source: TableSource, layout: LogLayout, doses: FloatArray | None, order: Order | None, found: RowProblems
) -> _Acted:
    """Real numbers; `doses` are the one column that was read as labels."""
    done = read_actions(source, layout, doses, order, found)
    actions, densities = (None, None) if done is None else (done.actions, done.log_densities)
    return _Acted(layout, layout.action_columns, actions, None, densities, layout.log_density == DENSITY)


READ_ACTIONS: Mapping[str, Callable[..., _Acted]] = {Finite.kind: _named_actions, Box.kind: _amounts}


def ordered(
    source: TableSource, layout: LogLayout, problems: RowProblems
) -> tuple[Labels | None, Order | None, tuple[str, ...]]:
    """The episodes, the order of rows, and what is to be said about them."""
    import pyarrow as pa

    rows = np.arange(source.n_rows)
    if layout.episode is None:
        note = "there is no column of episodes: every row is an episode of one decision"
        return Labels(rows, pa.array(rows)), Order(None, np.arange(source.n_rows + 1)), (note,)
    episodes = labels_in(source, layout.episode, problems)
    steps, numbered = rows if layout.keeps_row_order else None, False
    if layout.step in source.names and layout.step is not None:
        column = source.read(layout.step)
        numbered = not pa.types.is_temporal(column.type)
        steps = sortable_steps(column, layout.step, problems, source.decimal)
    if episodes is None or steps is None:
        return episodes, None, ()
    order = order_of(episodes, steps, layout, problems)
    if (episodes.codes < 0).any():
        return episodes, None, ()
    if numbered:
        order = replace(order, steps=order.place(steps))
    notes = [] if layout.keeps_row_order else irregular(order.place(steps), order.offsets, str(layout.step))
    notes += [] if (note := untold_end(source, layout, order)) == "" else [note]
    return episodes, order, tuple(notes)


def _with_noted_columns(layout: LogLayout, source: TableSource) -> LogLayout:
    """The layout with the columns of clusters and outcomes that `to_table` wrote, unless they are given other parts."""
    if CENSORED in source.names and _noted(source, LOST) and not layout.names(CENSORED):
        layout = replace(layout, censored=CENSORED)
    noted = CLUSTER in source.names and _noted(source, CLUSTERS)
    layout = replace(layout, cluster=CLUSTER) if noted and not layout.names(CLUSTER) else layout
    outcomes = [name for name in columns_noted(source.schema.metadata, OUTCOMES) if name in source.names]
    beside = tuple(name for name in outcomes if name == layout.reward or not layout.names(name))
    return replace(layout, side_outcomes=beside) if beside and not layout.side_outcomes else layout


def _lost(lost: BoolArray | None) -> BoolArray | None:
    return lost if lost is not None and lost.any() else None


def _with_loss(logs: Trajectories, said: tuple[str, ...]) -> Trajectories:
    """The logs with what was said before they were read, and a note on whose outcome was not seen, if any."""
    if logs.lost is None:
        return replace(logs, notes=(*said, *logs.notes)) if said else logs  # which checks all rows again
    last = logs.offsets[1:] - 1
    taken = logs.action_space.kinds(logs.actions[last])
    note = loss_in_words(logs.lost, taken, logs.contexts[last], logs.feature_names, logs.action_names)
    return replace(logs, notes=(*said, *logs.notes, f"{note}. Those seen are weighted by the chance of that"))


def _noted(source: TableSource, key: bytes) -> bool:
    """Whether `to_table` noted this beside the columns."""
    return (source.schema.metadata or {}).get(key) == b"true"


def _clusters(
    source: TableSource, layout: LogLayout, episodes: Labels | None, problems: RowProblems
) -> tuple[IntArray | None, list[str]]:
    labels = None if layout.cluster is None else labels_in(source, layout.cluster, problems)
    if labels is None or episodes is None or layout.cluster is None:
        return None, []
    return cluster_of_episodes(labels, episodes, layout.cluster)


def labels_in(source: TableSource, name: str, problems: RowProblems, is_action: bool = False) -> Labels | None:
    """A column of names as codes; None where it is missing or cannot be one."""
    if name not in source.names:
        return None
    column = source.read(name)
    remedy = "label actions with text, whole numbers or booleans" if is_action else "give ids as text or numbers"
    if not is_label(column.type, is_action):
        problems.note(np.ones(len(column), bool), f"column {quoted(name)} is {kind_in_words(column.type)}", remedy)
        return None
    labels = encode(column, whole_numbers=source.is_text and not is_action)
    problems.note(labels.codes < 0, f"column {quoted(name)} is null or NaN", "fill it in, or drop those episodes")
    return labels


def _merged_features(source: TableSource, logs: Trajectories) -> list[str]:
    """Features whose different numbers are the same in the single precision of contexts."""
    low, high = logs.contexts.min(axis=0), logs.contexts.max(axis=0)
    largest = np.maximum(-low, high)
    doubtful = np.flatnonzero((high - low <= NARROW * largest) | (largest >= WHOLE_IN_SINGLE))
    plain = {variable.name for variable in logs.schema.variables if variable.kind == "number"} if logs.schema else set()
    names = [logs.feature_names[column] for column in doubtful if logs.feature_names[column] in plain]
    batches = list(source.batches(names)) if names else []
    return [
        name
        for name in names
        if merges_in_single(np.concatenate([numbers_of(batch.column(name)) for batch in batches]))
    ]
