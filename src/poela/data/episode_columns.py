"""Columns of a table that are no part of the log, such as the site of a stay: one value for each episode."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poela.data.clusters import label_of_episodes
from poela.data.decided import of_decisions
from poela.data.labels import encode, is_label
from poela.data.layout import LogLayout
from poela.data.opening import explain_read_errors, open_source
from poela.data.order import in_table
from poela.data.reshaping import put_right
from poela.data.rows import RowProblems
from poela.data.tables import ordered
from poela.data.words import bad_log, kind_in_words, quoted


def episode_columns(source: Any, layout: LogLayout | None, names: Sequence[str]) -> dict[str, Mapping[Any, Any]]:
    """The value of these columns for each episode of a table, by the episode's id; a missing value is None.

    A column that changes within an episode is refused: it is no property of a case.

    >>> import pyarrow as pa
    >>> table = pa.table({"episode": ["b", "a", "a"], "step": [0, 0, 1], "site": ["north", None, None],
    ...                   "action": [0, 1, 0], "reward": [0, 0, 1]})
    >>> episode_columns(table, None, ["site"])
    {'site': {'a': None, 'b': 'north'}}
    """
    if not names:
        return {}
    layout = layout or LogLayout()
    with explain_read_errors(source):
        source, layout, _ = put_right(source, layout)
        opened = open_source(source, layout, (*layout.label_columns, *names))
        layout = in_table(of_decisions(layout, opened.names), opened)
        missing = [name for name in names if name not in opened.names]
        if missing:
            raise bad_log([f"there is no column {quoted(missing)} to group by: choose from {quoted(opened.names)}"])
        row_problems, problems = RowProblems(), []
        episodes, _, _ = ordered(opened, layout, row_problems)
        if episodes is None:
            raise bad_log(row_problems.sentences())
        ids = np.asarray(episodes.values.to_numpy(zero_copy_only=False)).tolist()
        found: dict[str, Mapping[Any, Any]] = {}
        for name in names:
            column = opened.read(name)
            if not is_label(column.type):
                problems.append(f"column {quoted(name)} is {kind_in_words(column.type)}: group by text or numbers")
                continue
            labels = encode(column)
            codes, changing = label_of_episodes(labels, episodes, name)
            if changing:
                instead = "group by a column that is the same throughout an episode"
                if name == layout.step:
                    instead = "gains are those of whole episodes; poela report --by step shows changes by step"
                problems.append(f"{changing}: {instead}")
            values = [*labels.values.to_pylist(), None]  # the code −1 is the last
            found[name] = dict(zip(ids, (values[code] for code in codes), strict=True))
    if problems:
        raise bad_log(problems)
    return found
