"""Logs as a table that `read_logs` reads back."""

import json
from typing import TYPE_CHECKING

import numpy as np

from poela.core.errors import InputError
from poela.data.actions import metadata_of
from poela.data.layout import PREFIX
from poela.data.schema import TableSchema
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.trajectories import Trajectories

CLUSTER = "cluster"
# What `to_table` notes in the schema: that the column above names clusters, that propensities are estimates, and how
# the columns of another table became these features.
CLUSTERS, ESTIMATED, FEATURES = b"poela.clusters", b"poela.estimated", b"poela.schema"


def table_of(logs: "Trajectories") -> "pa.Table":
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
    if logs.schema is not None and not logs.schema.is_plain:
        metadata[FEATURES] = json.dumps(logs.schema.to_json()).encode()
    if logs.propensities is not None and logs.propensities.ndim == 1:
        columns["propensity"] = logs.propensities
    elif logs.propensities is not None:
        for name, column in zip(names, logs.propensities.T, strict=True):
            columns[f"{PREFIX}{name}"] = np.ascontiguousarray(column)
    return pa.table(columns, metadata=metadata)


def noted_schema(metadata: dict[bytes, bytes] | None, features: tuple[str, ...]) -> TableSchema | None:
    """The schema that `to_table` noted, if its features are these."""
    noted = (metadata or {}).get(FEATURES)
    try:
        schema = None if noted is None else TableSchema.from_json(json.loads(noted))
    except (ValueError, InputError):  # somebody else's
        return None
    return schema if schema is not None and schema.feature_names == features else None
