"""Cells of decisions: what else may be done, and what is to be known about a row."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.decided import ROW
from poela.data.decision_rows import Rows
from poela.data.limits import UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

NEAREST_CASES = 10  # whose outcomes are averaged
FEWEST_CASES = 10  # an average of fewer would tell of single persons
DEFERRED = "unlike any logged case: decide as before"
LEFT = "choose among what is not barred"
CLOSED = "no action is allowed: decide as before"
INCOMPLETE = "earlier steps of its episode are missing, and the policy looks at them"


def not_logged(column: str) -> str:
    """The note on a category that is new to the policy."""
    return f"{column}: a category that was not logged"


def filled_in(column: str) -> str:
    """The note on a gap."""
    return f"{column}: missing, filled in"


def columns_before(rows: Rows, start: int) -> dict[str, Any]:
    """The number of each row, unless it has a name, and what is kept of the case."""
    numbered = {} if rows.is_named else {ROW: np.arange(start + 1, start + rows.n + 1)}
    return {**numbered, **{name: rows.copied[name] for name in rows.copied.column_names}}


def eligible_texts(names: Sequence[Any], mask: BoolArray, distances: FloatArray | None) -> "pa.Array":
    """The eligible actions of each row with the distances to their nearest logged cases: 'wait:0.12; treat:0.4'."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = []
    for action, name in enumerate(names):
        texts: Any = pa.scalar(str(name))
        if distances is not None:
            far = pa.array(_three_digits(distances[:, action])).cast(pa.string())
            texts = pc.binary_join_element_wise(texts, far, pa.scalar(":"))
        parts.append((mask[:, action], texts))
    return _joined(parts, len(mask))


def eligible_lists(names: Sequence[Any], mask: BoolArray, distances: FloatArray | None) -> "pa.Array":
    """The same as lists; distances are null where the rule measures none."""
    import pyarrow as pa

    rows, actions = np.nonzero(mask)
    far = pa.nulls(len(rows), pa.float64())
    if distances is not None:
        far = pa.array(distances[rows, actions], mask=~np.isfinite(distances[rows, actions]))
    entries = pa.StructArray.from_arrays([pa.array(names).take(pa.array(actions)), far], ["action", "distance"])
    ends = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), entries)


def _joined(parts: "Sequence[tuple[BoolArray, Any]]", n: int) -> "pa.Array":
    """Texts, each where its mask says so, with semicolons between them (Arrow's own join loses rows without any)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar("")
    result = pa.repeat(nothing, n)
    for mask, texts in parts:
        if mask.any():
            between = pc.if_else(pc.equal(result, nothing), nothing, pa.scalar("; "))
            longer = pc.binary_join_element_wise(result, texts, between)
            result = pc.if_else(pa.array(mask), longer, result)
    return result


def _three_digits(values: FloatArray) -> FloatArray:
    """Rounded to three digits.

    >>> _three_digits(np.array([0.123456, 1234.5, 0.0]))
    array([1.23e-01, 1.23e+03, 0.00e+00])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (2 - np.floor(np.log10(np.abs(values))))
        return np.asarray(np.where(np.isfinite(values) & (values != 0), np.round(values * scale) / scale, values))


def _limited(rows: Rows) -> tuple[BoolArray, dict[str, BoolArray]]:
    """By row of the file: whether every action is forbidden, and for each action whether that is not known."""
    contexts, limits = rows.contexts.rows.contexts, rows.contexts.schema.limits
    if limits is None:
        return np.zeros(rows.n, np.bool_), {}
    values = rows.order.in_file(contexts[:, -len(limits.features) :])
    everything = len(limits.limited) == len(limits.actions)
    closed: BoolArray = np.asarray((values > 0).all(axis=1) & everything)
    return closed, {
        name: values[:, place] == UNKNOWN for place, name in enumerate(limits.limited) if (values[:, place] > 0).any()
    }


def notes_of(rows: Rows, stranded: BoolArray, beside: Mapping[str, BoolArray] | None = None) -> "pa.Array":
    """What is to be known about a row: columns that were filled or are new to the policy, that it defers, or what is
    to be said `beside` that, such as that what would be best is used up.
    """
    more = beside or {}
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded, order = rows.contexts.rows, rows.order
    closed, unsure = _limited(rows)
    said: Mapping[str, BoolArray] = {
        CLOSED: closed,
        DEFERRED: stranded & ~np.any([closed, *more.values()], axis=0),
        **more,
        INCOMPLETE: rows.incomplete,
        **{not_logged(name): order.in_file(bad) for name, bad in encoded.unseen.items()},
        **{filled_in(name): order.in_file(bad) for name, bad in encoded.filled.items()},
        **{f"{name}: not known to be allowed": bad for name, bad in unsure.items()},
    }
    joined = _joined([(bad, pa.scalar(text)) for text, bad in said.items()], len(stranded))
    return pc.if_else(pc.equal(joined, pa.scalar("")), pa.scalar(None, pa.string()), joined)
