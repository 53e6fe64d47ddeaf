"""What is wrong with a CSV file: written in another way than was said, or damaged. Nothing of it is quoted."""

import codecs
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from poela.data.layout import LogLayout
from poela.data.words import counted

HEAD_BYTES = 1 << 16
OTHER_KINDS = {
    b"PAR1": "is a Parquet file: let its name end in .parquet",
    b"ARROW1": "is an Arrow file: let its name end in .arrow",
    b"\x1f\x8b": "is compressed: let its name end in .csv.gz",
    b"PK\x03\x04": "is a spreadsheet or an archive: save it as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: save it as CSV",
}
# What a file may begin with, the encoding that this shows, and others that read it as well.
MARKS = {
    b"\xef\xbb\xbf": ("utf-8", "utf-8-sig"),
    codecs.BOM_UTF32_LE: ("utf-32", "utf-32-le"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
SEPARATORS = (",", ";", "\t", "|")
FRACTION = re.compile(r"[+-]?[0-9]+[.,][0-9]+")


def detect_format(path: Path, layout: LogLayout) -> str | None:
    """Whether the beginning of a file shows that it is written in another way than the layout says."""
    import pyarrow as pa

    with pa.input_stream(path) as stream:
        head = stream.read(HEAD_BYTES)
    for mark, sentence in OTHER_KINDS.items():
        if head.startswith(mark):
            return sentence
    return _other_encoding(head, layout) or _spreadsheet_line(head, layout)


def _other_encoding(head: bytes, layout: LogLayout) -> str | None:
    encoding = codecs.lookup(layout.encoding).name
    for mark, known in MARKS.items():
        if head.startswith(mark):
            return None if encoding in known else _say("is text in", known[0].upper(), "encoding", known[0])
    even, odd = (2 * head[first::2].count(0) / max(len(head), 1) for first in (0, 1))
    if max(even, odd) > 0.4 and min(even, odd) < 0.1:
        likely = "utf-16-le" if odd > even else "utf-16-be"
        return None if encoding == likely else _say("seems to be text in", likely.upper(), "encoding", likely)
    if encoding.startswith(("utf-16", "utf-32")) and not (even or odd):
        return f"seems to be no text in {encoding.upper()}: leave the encoding out, or name another"
    return None


def as_written(path: Path, layout: LogLayout) -> tuple[LogLayout, tuple[str, ...]]:
    """The layout with the separator and the decimals that the beginning of the file shows, and words about that.

    Only where it cannot be as the layout says: no part of the log is named in the header, or (where commas do not
    separate cells) there are decimal commas and no decimal points.
    """
    import pyarrow as pa

    with pa.input_stream(path) as stream:
        lines = re.split(r"[\r\n]+", stream.read(HEAD_BYTES).decode(layout.encoding, "replace"))
    notes = []
    separator = _separator(lines[0], layout)
    if separator != layout.separator:
        shown = "tabs" if separator == "\t" else repr(separator)
        layout = replace(layout, separator=separator)
        notes.append(f"the cells of the file are separated by {shown}")
    cells = [cell.strip().strip('"') for line in lines[1:-1] or lines[1:] for cell in line.split(separator)]
    fractions = [cell for cell in cells if FRACTION.fullmatch(cell)]
    if layout.decimal == "." and separator != "," and fractions and not any("." in cell for cell in fractions):
        layout = replace(layout, decimal=",")
        notes.append("the decimals of the file follow a comma")
    return layout, tuple(notes)


def _separator(header: str, layout: LogLayout) -> str:
    separator = layout.separator
    cells = {cell.strip().strip('"') for cell in header.split(separator)}
    parts = (*layout.key_columns, *layout.action_columns, *layout.reward_columns(list(cells)))
    if "\0" in header or not cells.isdisjoint(parts):  # no text at all, or as said
        return separator
    unquoted = re.sub(r'"[^"]*"', "", header)
    best = max(SEPARATORS, key=unquoted.count)
    return best if unquoted.count(best) > unquoted.count(separator) else separator


def _spreadsheet_line(head: bytes, layout: LogLayout) -> str | None:
    line = re.split(r"[\r\n]", head.decode(layout.encoding, "replace"), maxsplit=1)[0]
    return "begins with a line for spreadsheets (sep=…): remove that line" if re.fullmatch(r"sep=.?", line) else None


def _say(what: str, shown: str, field: str, value: str) -> str:
    return f"{what} {shown}: say so with {field}={value!r} (--{field} {value})"


def damage(path: Path, layout: LogLayout) -> str:
    """What is wrong with a file that could not be read."""
    import pyarrow as pa
    from pyarrow import csv

    if not _is_text(path, layout.encoding):
        known = codecs.lookup(layout.encoding).name.upper()
        return f"it is not text in {known}; name its encoding, e.g. encoding='latin-1' (--encoding latin-1)"
    ragged: list[tuple[int, bool]] = []

    def note(row: Any) -> str:
        ragged.append((row.number - 1, row.actual_columns > row.expected_columns))
        return "skip"

    # Several threads do not know the numbers of rows.
    reading = csv.ReadOptions(use_threads=False, encoding=layout.encoding)
    parsing = csv.ParseOptions(delimiter=layout.separator, invalid_row_handler=note)
    try:
        table = csv.read_csv(path, read_options=reading, parse_options=parsing)
    except (pa.ArrowInvalid, UnicodeError):
        return "it is damaged or not a table; write it again"
    have = "has" if len(ragged) == 1 else "have"
    first = min(ragged, default=(1, False))[0]
    remedy = "write it again"
    if table.num_rows == 0 and all(more for _, more in ragged):
        remedy = "is a title above the header? remove it"
        if table.num_columns > 1:
            remedy = "are decimal commas not in quotes? separate cells by ';'"
    return f"{counted(len(ragged), 'row')} {have} more or fewer cells than the header, first row {first}; {remedy}"


def _is_text(path: Path, encoding: str) -> bool:
    import pyarrow as pa

    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with pa.input_stream(path) as stream:
            while chunk := stream.read(1 << 20):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True
