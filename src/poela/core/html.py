"""Small pieces of HTML for notebooks. Everything is escaped: names come from other people's files."""

from collections.abc import Mapping, Sequence
from html import escape

MOST_ROWS, MOST_CHARACTERS = 50, 300


def block(title: str, *paragraphs: str) -> str:
    """A title in bold and what follows it; empty paragraphs are left out.

    >>> block("Keep <b>", "why", "")
    '<div><p><b>Keep &lt;b&gt;</b></p><p>why</p></div>'
    """
    return f"<div><p><b>{_cell(title)}</b></p>{''.join(f'<p>{_cell(text)}</p>' for text in paragraphs if text)}</div>"


def facts(title: str, known: Mapping[str, str]) -> str:
    """A title, and names with what is known of them; what is empty is left out.

    >>> facts("Logs", {"episodes": "2", "clusters": ""})
    '<table><caption>Logs</caption><tr><th>episodes</th><td>2</td></tr></table>'
    """
    rows = "".join(f"<tr><th>{_cell(name)}</th><td>{_cell(text)}</td></tr>" for name, text in known.items() if text)
    return f"<table><caption>{_cell(title)}</caption>{rows}</table>"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; of a long one the first rows.

    >>> table(["action"], [["<script>"]])
    '<table><tr><th>action</th></tr><tr><td>&lt;script&gt;</td></tr></table>'
    """
    lines = ["".join(f"<td>{_cell(cell)}</td>" for cell in row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(f"<td>and {len(rows) - MOST_ROWS:,} more</td>")
    head = "".join(f"<th>{_cell(name)}</th>" for name in header)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(value: object) -> str:
    text = str(value)
    return escape(text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…")
