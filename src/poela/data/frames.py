"""Data frames of other libraries from tables, and what tables note in their schema carried through pandas' `attrs`."""

import json
from typing import TYPE_CHECKING, Any

from poela.core.errors import PoelaError

if TYPE_CHECKING:
    import pyarrow as pa

OURS = "poela."  # how the names of our notes begin


def pandas_frame(table: "pa.Table") -> Any:
    """A pandas frame, with the table's notes in its `attrs`."""
    try:
        frame = table.to_pandas()
    except ImportError:
        raise PoelaError("pandas is not installed: pip install pandas") from None
    frame.attrs = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return frame


def polars_frame(table: "pa.Table") -> Any:
    """A polars frame."""
    try:
        import polars
    except ImportError:
        raise PoelaError("polars is not installed: pip install polars") from None
    return polars.from_arrow(table)


def with_notes(schema: "pa.Schema") -> "pa.Schema":
    """The schema of what was a pandas frame, with our notes from the frame's `attrs` where Arrow keeps them.

    >>> import pyarrow as pa
    >>> pandas = b'{"attributes": {"poela.estimated": "true", "mine": 1}}'
    >>> with_notes(pa.schema([], metadata={b"pandas": pandas})).metadata[b"poela.estimated"]
    b'true'
    """
    metadata = schema.metadata or {}
    try:
        attributes = json.loads(metadata.get(b"pandas", b"{}"))["attributes"]
        notes = {key.encode(): value.encode() for key, value in attributes.items() if key.startswith(OURS)}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):  # whatever somebody else wrote there
        return schema
    return schema.with_metadata({**notes, **metadata})
