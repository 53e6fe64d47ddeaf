"""Text that a spreadsheet would run: an apostrophe makes it harmless, and our reader takes that away again."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA = "[=+\\-@\t\r]"  # how text begins that spreadsheets take for a formula
NUMBER = r"[+-]([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"  # which begins alike, and does nothing


def harmless(table: "pa.Table") -> "pa.Table":
    """The table, with an apostrophe before names and texts that spreadsheets would run.

    Texts that have apostrophes before such a beginning get one more, so that all are read back as they were.

    >>> import pyarrow as pa
    >>> written = harmless(pa.table({"note": ["=1+1", "-5", "'@a", "plain"]}))
    >>> written["note"].to_pylist()
    ["'=1+1", '-5', "''@a", 'plain']
    >>> as_meant(written)["note"].to_pylist()
    ['=1+1', '-5', "'@a", 'plain']
    """
    import pyarrow as pa

    written = _changed(table, "'*", lambda column: _joined("'", column))
    names = pa.table({"name": pa.array(table.column_names, pa.string())})
    return written.rename_columns(_changed(names, "'*", lambda column: _joined("'", column))["name"].to_pylist())


def as_meant(table: "pa.Table") -> "pa.Table":
    """The table of a CSV file, without the apostrophes that `harmless` has put before its texts."""
    import pyarrow.compute as pc

    return _changed(table, "'+", lambda column: pc.utf8_slice_codeunits(column, 1))


def meant_names(names: "list[str]") -> "list[str]":
    """The same of the names of columns.

    >>> meant_names(["age", "'=risk"])
    ['age', '=risk']
    """
    import pyarrow as pa

    return [str(name) for name in as_meant(pa.table({"name": pa.array(names, pa.string())}))["name"].to_pylist()]


def _changed(table: "pa.Table", quotes: str, change: Callable[[Any], Any]) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        column, kind = table.column(place), field.type
        coded = pa.types.is_dictionary(kind)
        text = kind.value_type if coded else kind
        if not (pa.types.is_string(text) or pa.types.is_large_string(text)):
            continue
        if coded and not _any_formula(pa.chunked_array([c.dictionary for c in column.chunks], text), quotes):
            continue
        plain = column.cast(text) if coded else column
        formula = _formulas(plain, quotes)
        if not pc.any(formula).as_py():
            continue
        new = pc.if_else(formula, change(plain), plain)
        new = new.dictionary_encode() if coded else new
        table = table.set_column(place, field.with_type(new.type), new)
    return table


def _any_formula(texts: "pa.ChunkedArray", quotes: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(_formulas(texts, quotes)).as_py())


def _formulas(texts: "pa.ChunkedArray", quotes: str) -> "pa.ChunkedArray":
    """Which texts a spreadsheet would run, after so many apostrophes."""
    import pyarrow.compute as pc

    begins = pc.match_substring_regex(texts, f"^{quotes}{FORMULA}")
    number = pc.match_substring_regex(texts, f"^{quotes}{NUMBER}$")
    return pc.fill_null(pc.and_not(begins, number), False)


def _joined(before: str, texts: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = texts.type
    return pc.binary_join_element_wise(pa.scalar(before, kind), texts, pa.scalar("", kind))
