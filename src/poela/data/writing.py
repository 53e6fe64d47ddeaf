"""Logs as a table that `read_logs` reads back."""

import json
from typing import TYPE_CHECKING

import numpy as np

from poela.core.errors import InputError
from poela.data.action_space import ACTION_COLUMNS, PREFIX
from poela.data.layout import CENSORED
from poela.data.schema import TableSchema
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.trajectories import Trajectories

CLUSTER = "cluster"
# What `to_table` notes in the schema: that the column above names clusters, that propensities are estimates, and how
# the columns of another table became these features.
CLUSTERS, ESTIMATED, FEATURES = b"poela.clusters", b"poela.estimated", b"poela.schema"
LOST = b"poela.lost"
OUTCOMES = b"poela.outcomes"  # columns of further outcomes


def table_of(logs: "Trajectories") -> "pa.Table":
    """The logs as an Arrow table; `read_logs` reads it back as it was, episodes in the order of their ids."""
    import pyarrow as pa

    space = logs.action_space
    done, chances = space.table(logs)
    metadata = space.metadata
    parts = ["episode", "step", *done, "reward", "propensity", *chances, ""]
    parts += ([] if logs.clusters is None else [CLUSTER]) + ([] if logs.lost is None else [CENSORED])
    if taken := sorted((set(parts) - {"reward"}) & set(logs.outcome_names)):
        raise InputError(f"outcomes {quoted(taken)} have the name of another column: rename them")
    parts += logs.outcome_names
    clashes = [name for name in logs.feature_names if name in parts or name.startswith(PREFIX)]
    if clashes:
        raise InputError(f"features {quoted(clashes)} have no name or that of another column: rename them")
    columns = {
        "episode": pa.array(logs.episode_ids).take(pa.array(logs.episode_of_step)),
        "step": logs.step_numbers,
        **{
            name: np.ascontiguousarray(column) for name, column in zip(logs.feature_names, logs.contexts.T, strict=True)
        },
        **done,
        "reward": logs.rewards,
    }
    if logs.clusters is not None:
        columns[CLUSTER] = logs.clusters[logs.episode_of_step]
        metadata[CLUSTERS] = b"true"
    if logs.lost is not None:
        columns[CENSORED] = logs.lost[logs.episode_of_step]
        metadata[LOST] = b"true"
    if logs.outcomes is not None:
        columns |= dict(zip(logs.outcome_names, logs.outcomes.T.copy(), strict=True))
        metadata[OUTCOMES] = json.dumps(logs.outcome_names).encode()
    if logs.estimated:
        metadata[ESTIMATED] = b"true"
    if logs.schema is not None and not logs.schema.is_plain:
        metadata[FEATURES] = json.dumps(logs.schema.to_json()).encode()
    return pa.table({**columns, **chances}, metadata=metadata)


def action_columns_noted(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """The columns of real-valued actions that `to_table` noted; none where it did not."""
    return columns_noted(metadata, ACTION_COLUMNS)


def columns_noted(metadata: dict[bytes, bytes] | None, key: bytes) -> tuple[str, ...]:
    """The columns that `to_table` noted by this key; none where it did not."""
    try:
        names = json.loads((metadata or {}).get(key, b"[]"))
    except ValueError:
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def noted_schema(metadata: dict[bytes, bytes] | None, features: tuple[str, ...]) -> TableSchema | None:
    """The schema that `to_table` noted, if its features are these."""
    noted = (metadata or {}).get(FEATURES)
    try:
        schema = None if noted is None else TableSchema.from_json(json.loads(noted))
    except (ValueError, InputError):  # somebody else's
        return None
    return schema if schema is not None and schema.feature_names == features else None


def is_usual_name(propensity: str) -> bool:
    """Whether this is how `to_table` calls a column of propensities."""
    return propensity == "propensity" or propensity.startswith(PREFIX)
