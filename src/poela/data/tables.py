"""Tables of logged decisions: reading them into `Trajectories`, and writing them back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import IntArray, freeze
from poela.core.errors import InputError
from poela.data.actions import metadata_of, name_actions
from poela.data.checks import learning_problems
from poela.data.clusters import cluster_of_episodes
from poela.data.labels import Labels, encode, is_label
from poela.data.layout import PREFIX, LogLayout
from poela.data.numbers import merges_in_single, numbers_of, read_numbers
from poela.data.opening import open_source, readable
from poela.data.order import order_of, sortable_steps
from poela.data.rows import RowProblems
from poela.data.sources import Source
from poela.data.trajectories import ActionName, Trajectories
from poela.data.words import bad_log, kind_in_words, quoted

if TYPE_CHECKING:
    import pyarrow as pa

CLUSTER = "cluster"
# What `to_table` notes in the schema: that the column above names clusters, and that propensities are estimates.
CLUSTERS, ESTIMATED = b"poela.clusters", b"poela.estimated"
WHOLE_IN_SINGLE = 2**24  # up to here, single precision tells whole numbers apart


def read_logs(
    source: str | PathLike[str] | Any,
    *,
    episode: str = "episode",
    step: str = "step",
    action: str = "action",
    reward: str = "reward",
    context: Sequence[str] | str | None = None,
    propensity: str | Sequence[str] | Mapping[ActionName, str] | None = None,
    actions: Sequence[ActionName] | None = None,
    cluster: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    layout: LogLayout | None = None,
    for_learning: bool = False,
) -> Trajectories:
    """Read a table with one row for each decision, in any order, and check all of it.

    The source is a Parquet, CSV, Arrow or Feather file, or anything that Arrow takes for a table (pandas, polars, …).
    Episodes come in the order of their ids, decisions in the order of steps. Without `context`, every column that has
    no other part is a feature. Without `propensity`, a column `propensity` (of the logged action) or columns
    `propensity_<action>` (of every action) are found. The actions are the declared ones or, where none are declared
    by `actions` or by propensity columns, the sorted values that occur. `cluster` names what episodes belong to, such
    as a patient with several stays: these are kept together everywhere. `separator`, `decimal` and `encoding` are those
    of a CSV file.

    What `to_table` wrote is read back as it was; only a CSV file cannot say that its propensities were estimated, or
    that a column names clusters.

    Everything that is wrong is told at once in an `InputError`; rows count from 1, the header of a CSV file apart.

    >>> import pyarrow as pa
    >>> read_logs(pa.table({"episode": ["b", "a", "a"], "step": [0, 1, 0], "age": [70, 51, 50],
    ...                     "action": ["wait", "treat", "wait"], "reward": [0.0, 1.0, 0.0]}))
    Trajectories(2 episodes, 3 steps, 1 features, 2 actions, no propensities)
    """
    settings: dict[str, Any] = {"context": context, "propensity": propensity, "actions": actions, "cluster": cluster}
    settings |= {"separator": separator, "decimal": decimal, "encoding": encoding}
    named = LogLayout(episode, step, action, reward, **settings)
    if layout is not None and named != LogLayout():
        raise InputError("columns are named twice: give either a layout or names of columns")
    layout = layout or named
    with readable(source):
        opened, logs = _opened_and_read(source, layout)
        problems = learning_problems(logs, _merged_features(opened, logs)) if for_learning else []
    if problems:
        raise bad_log(problems)
    return logs


def _opened_and_read(source: Any, layout: LogLayout) -> tuple[Source, Trajectories]:
    import pyarrow as pa

    labels = (layout.episode, layout.action, *(() if layout.cluster is None else (layout.cluster,)))
    opened = open_source(source, layout, labels, step=layout.step)
    again = opened.reopened
    try:
        return opened, _read(opened, layout)
    except pa.ArrowException:
        if again is None:
            raise
    # Not in the handler, where the first error, which quotes a cell, would be shown beside a second one.
    opened = again()
    return opened, _read(opened, layout)


def _read(source: Source, layout: LogLayout) -> Trajectories:
    """Read every column that can be read, whatever is wrong with others, and tell all problems together."""
    layout = _with_noted_cluster(layout, source)
    problems = layout.problems(source.names)
    if source.n_rows == 0:
        problems.append("there are no rows: the log needs one for each decision")
    if source.n_rows == 0 or len(set(source.names)) < len(source.names) or not layout.recognises(source.names):
        raise bad_log(problems)
    layout = layout.resolve(source.names)
    found = RowProblems()
    episodes = _labels(source, layout.episode, found)
    steps = None
    if layout.step in source.names:
        steps = sortable_steps(source.read(layout.step), layout.step, found, source.decimal)
    order = None if episodes is None or steps is None else order_of(episodes, steps, layout, found)
    taken = _labels(source, layout.action, found, is_action=True)
    codes, names = (None, ()) if taken is None else name_actions(taken, source, layout, found)
    numbers = read_numbers(source, layout, codes, None if order is None else order.positions, found)
    clusters, changing = _clusters(source, layout, episodes, found)
    problems += found.sentences() + changing + _naming_problems(layout, names)
    if problems or episodes is None or order is None or codes is None:
        raise bad_log(problems)
    return Trajectories(
        contexts=freeze(numbers.contexts),
        actions=freeze(order.place(codes)),
        rewards=freeze(numbers.rewards),
        offsets=order.offsets,
        propensities=None if numbers.propensities is None else freeze(numbers.propensities),
        feature_names=layout.context,
        action_names=names,
        episode_ids=episodes.values.to_numpy(zero_copy_only=False),
        clusters=clusters,
        estimated=_noted(source, ESTIMATED) and all(map(_is_own, layout.propensity_columns())),
    )


def _with_noted_cluster(layout: LogLayout, source: Source) -> LogLayout:
    """The layout with the column of clusters that `to_table` wrote, unless the user gives that column another part."""
    noted = CLUSTER in source.names and _noted(source, CLUSTERS)
    return replace(layout, cluster=CLUSTER) if noted and not layout.names(CLUSTER) else layout


def _noted(source: Source, key: bytes) -> bool:
    """Whether `to_table` noted this beside the columns."""
    return (source.schema.metadata or {}).get(key) == b"true"


def _is_own(propensity: str) -> bool:
    """Whether this is how `to_table` calls a column of propensities."""
    return propensity == "propensity" or propensity.startswith(PREFIX)


def _clusters(
    source: Source, layout: LogLayout, episodes: Labels | None, found: RowProblems
) -> tuple[IntArray | None, list[str]]:
    labels = None if layout.cluster is None else _labels(source, layout.cluster, found)
    if labels is None or episodes is None or layout.cluster is None:
        return None, []
    return cluster_of_episodes(labels, episodes, layout.cluster)


def _labels(source: Source, name: str, found: RowProblems, is_action: bool = False) -> Labels | None:
    if name not in source.names:
        return None
    column = source.read(name)
    remedy = "label actions with text, whole numbers or booleans" if is_action else "give ids as text or numbers"
    if not is_label(column.type, is_action):
        found.note(np.ones(len(column), bool), f"column {quoted(name)} is {kind_in_words(column.type)}", remedy)
        return None
    labels = encode(column, whole_numbers=source.is_text and not is_action)
    found.note(labels.codes < 0, f"column {quoted(name)} is null or NaN", "fill it in, or drop those episodes")
    return labels


def _merged_features(source: Source, logs: Trajectories) -> list[str]:
    """Features whose different numbers are the same in the single precision of contexts."""
    low, high = logs.contexts.min(axis=0), logs.contexts.max(axis=0)
    doubtful = np.flatnonzero((low == high) | (np.maximum(-low, high) >= WHOLE_IN_SINGLE))
    names = [logs.feature_names[column] for column in doubtful]
    batches = list(source.batches(names)) if names else []
    return [
        name
        for name in names
        if merges_in_single(np.concatenate([numbers_of(batch.column(name)) for batch in batches]))
    ]


def _naming_problems(layout: LogLayout, names: Sequence[ActionName]) -> list[str]:
    """Propensity columns that do not fit the actions found."""
    if not names or not isinstance(layout.propensity, tuple):
        return []
    if len(names) != len(layout.propensity):
        return [
            f"{len(layout.propensity)} propensity columns stand for {len(names)} actions: "
            "declare the actions, or give a column for each"
        ]
    odd = [column for column, name in zip(layout.propensity, names, strict=True) if type(name) is not type(names[0])]
    return [f"{quoted(odd)} name no action: say with propensity= which columns to use"] if odd else []


def table_of(logs: Trajectories) -> "pa.Table":
    """The logs as an Arrow table; `read_logs` reads it back as it was, episodes in the order of their ids."""
    import pyarrow as pa

    names = [str(name) for name in logs.action_names]
    parts = ["episode", "step", "action", "reward", "propensity", "", *([] if logs.clusters is None else [CLUSTER])]
    clashes = [name for name in logs.feature_names if name in parts or name.startswith(PREFIX)]
    if clashes:
        raise InputError(f"features {quoted(clashes)} have no name or that of another column: rename them")
    columns = {
        "episode": pa.array(logs.episode_ids).take(pa.array(logs.episode_of_step)),
        "step": logs.step_numbers,
        **{
            name: np.ascontiguousarray(column) for name, column in zip(logs.feature_names, logs.contexts.T, strict=True)
        },
        "action": pa.array(logs.action_names).take(pa.array(logs.actions)),
        "reward": logs.rewards,
    }
    metadata = metadata_of(logs.action_names)
    if logs.clusters is not None:
        columns[CLUSTER] = logs.clusters[logs.episode_of_step]
        metadata[CLUSTERS] = b"true"
    if logs.estimated:
        metadata[ESTIMATED] = b"true"
    if logs.propensities is not None and logs.propensities.ndim == 1:
        columns["propensity"] = logs.propensities
    elif logs.propensities is not None:
        for name, column in zip(names, logs.propensities.T, strict=True):
            columns[f"{PREFIX}{name}"] = np.ascontiguousarray(column)
    return pa.table(columns, metadata=metadata)
