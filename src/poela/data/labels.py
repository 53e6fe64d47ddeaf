"""Columns of labels (episode ids, actions) of any type, as codes of their sorted values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

# The one way to write a whole number, so that '007' and '7' stay different episodes.
WHOLE = "^(0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True, eq=False)
class Labels:
    """A column as codes [N] (−1: missing) of the sorted values that occur in it."""

    codes: IntArray
    values: "pa.Array"


def encode(column: "pa.ChunkedArray", whole_numbers: bool = False) -> Labels:
    """Encode a column; with `whole_numbers`, text that is whole numbers throughout is read as such.

    >>> import pyarrow as pa
    >>> labels = encode(pa.chunked_array([["b", None, "a"]]))
    >>> labels.codes, labels.values.to_pylist()
    (array([ 1, -1,  0]), ['a', 'b'])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    codes, values = _hashed(column)
    occurs = np.bincount(codes + 1, minlength=len(values) + 1)[1:] > 0
    occurs &= values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        occurs &= ~values.is_nan().fill_null(True).to_numpy(zero_copy_only=False)
    occurring = np.flatnonzero(occurs)
    values = values.take(pa.array(occurring))
    if whole_numbers and len(values) and pc.all(pc.match_substring_regex(values, WHOLE)).as_py():
        values = values.cast(pa.int64())
    ascending = pc.sort_indices(values).to_numpy()
    rank = np.full(len(occurs) + 1, -1)  # the last entry serves the code −1
    rank[occurring[ascending]] = np.arange(len(occurring))
    return Labels(rank[codes], values.take(pa.array(ascending)))


def is_label(kind: "pa.DataType", is_action: bool = False) -> bool:
    """Whether a type can be compared and sorted, as ids must, or names categories, as actions do.

    >>> import pyarrow as pa
    >>> is_label(pa.timestamp("s")), is_label(pa.timestamp("s"), is_action=True)
    (True, False)
    """
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    unfit = [pa.types.is_nested, pa.types.is_interval]
    if is_action:
        unfit += [pa.types.is_temporal, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view]
        unfit += [pa.types.is_fixed_size_binary]
    return not any(is_kind(kind) for is_kind in unfit)


def _hashed(column: "pa.ChunkedArray") -> tuple[IntArray, "pa.Array"]:
    """Codes and the values they stand for, in no order; values may be null or unused, but never repeat."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        outer = column.cast(pa.dictionary(pa.int64(), _plain(column.type.value_type)))
        joined = outer.unify_dictionaries().combine_chunks()
        # A given dictionary may hold a value twice; encoding it again tells.
        inner, values = _hashed(pa.chunked_array([joined.dictionary]))
        codes = joined.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.append(inner, -1)[codes], values
    encoded = column.cast(_plain(column.type)).dictionary_encode().combine_chunks()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _plain(kind: "pa.DataType") -> "pa.DataType":
    """The type to compute with: one kind of text instead of three, and none that cannot be sorted."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return pa.float32() if pa.types.is_float16(kind) else kind
