"""Times among the context that lie after the decision itself: nobody knew them then, unless they were planned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from poela.data.encoding import days_of
from poela.data.schema import Variable
from poela.data.sources import TableSource
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.trajectories import Trajectories

ADVICE = "leave it out of the context, unless it was known before the decision, as planned dates are"


def late_notes(source: TableSource, step: str | None, variables: Sequence[Variable]) -> list[str]:
    """One sentence for each column of times that lie after those of their steps, where steps have a time."""
    import pyarrow as pa

    times = [variable.name for variable in variables if variable.kind == "time"]
    if not times or step is None or step not in source.names or step in times:
        return []
    kind = _kind(source, step)
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return []
    decided, notes = days_of(source.read(step)), []
    for name in times:
        if _zoned(_kind(source, name)) != _zoned(kind):
            continue  # hours apart by their zones alone
        days = days_of(source.read(name))
        days = np.floor(days) if pa.types.is_date(kind) else days  # at some hour of the same day
        late = int((days > decided).sum())
        if late:
            rows = counted(late, "row")
            notes.append(f"{_subject(name)} lies after the time of the decision ({quoted(step)}) in {rows}: {ADVICE}")
    return notes


def late_columns(logs: "Trajectories") -> list[tuple[str, str]]:
    """The columns that were noted so when the logs were read, and what was said of them before the advice."""
    times = [] if logs.schema is None else [one.name for one in logs.schema.variables if one.kind == "time"]
    return [
        (name, note.removesuffix(f": {ADVICE}"))
        for name in times
        for note in logs.notes
        if note.startswith(f"{_subject(name)} lies after the time") and note.endswith(ADVICE)
    ]


def _subject(name: str) -> str:
    return f"column {quoted(name)}"


def _kind(source: TableSource, name: str) -> "pa.DataType":
    import pyarrow as pa

    kind = source.schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _zoned(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and kind.tz is not None
