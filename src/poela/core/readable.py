"""What people read: numbers with as many decimals as their error leaves, and small pieces of HTML for notebooks."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, isfinite, log10

# Small pieces of HTML for notebooks. Everything is escaped: names come from other people's files.

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


MOST_DIGITS = 6  # of a number whose error is as good as nothing


def readable(value: float | None, error: float | None = None, *, signed: bool = False) -> str:
    """A number to two digits of its error; without an error, to three digits of its own.

    >>> readable(1263.4), readable(-0.0123456), readable(2.9604, error=0.42), readable(5.0, error=0.1, signed=True)
    ('1,263', '-0.0123', '2.96', '+5.00')
    >>> readable(1234567.0, error=3000.0), readable(0.0), readable(None), readable(float("nan"))
    ('1,234,567', '0', '-', '-')
    >>> readable(0.5, error=1e-15)
    '0.500000'
    """
    if value is None or not isfinite(value):
        return "-"
    digits, scale = (2, error) if error is not None and isfinite(error) and error > 0 else (3, abs(value))
    decimals = max(digits - 1 - floor(log10(scale)), 0) if scale else 0
    largest = max(abs(value), scale)
    decimals = min(decimals, max(MOST_DIGITS - 1 - floor(log10(largest)), 0), 12) if largest else 0
    rounded = round(value, decimals) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed else ''},.{decimals}f}"


def between(low: float | None, high: float | None, error: float | None = None) -> str:
    """An interval, to two digits of the error.

    >>> between(1.0, 2.5, error=0.4), between(None, None)
    ('[1.00, 2.50]', '-')
    """
    return "-" if low is None or high is None else f"[{readable(low, error)}, {readable(high, error)}]"


def effective(count: float | None) -> str:
    """An effective number of cases, without needless digits.

    >>> effective(1263.4), effective(3.14), effective(float("nan"))
    ('1,263', '3.1', '-')
    """
    return "-" if count is None or not isfinite(count) else f"{count:,.{1 if count < 10 else 0}f}"


def plain(number: float) -> str:
    """A setting to four digits, without needless zeros.

    >>> plain(2.5), plain(8.49331), plain(12345.6), plain(0.0000123456)
    ('2.5', '8.493', '12,350', '0.00001235')
    """
    rounded = float(f"{number:.4g}")
    if not isfinite(rounded) or "e" not in f"{rounded:.4g}":
        return f"{rounded:.4g}"
    return f"{rounded:,.0f}" if abs(rounded) > 1 else f"{rounded:.20f}".rstrip("0")


def share_in_words(share: float) -> str:
    """A share in percent, with a decimal where it is small.

    >>> [share_in_words(share) for share in (0.163, 0.0041, 0.0002, 0.0, 0.9996)]
    ['16%', '0.4%', 'less than 0.1%', '0%', 'almost 100%']
    """
    if 0 < share < 0.0005:
        return "less than 0.1%"
    if 0.995 <= share < 1:
        return "almost 100%"
    return f"{share:.{1 if 0 < share < 0.0095 else 0}%}"


def about(count: float) -> str:
    """Two digits of a large count.

    >>> about(4321.0), about(87.4)
    ('4,300', '87')
    """
    digits = max(len(f"{count:.0f}") - 2, 0)
    return f"{round(count, -digits):,.0f}"


def escaped(text: str) -> str:
    r"""A line as a terminal or a page may be given it: control characters and halves of letters as their numbers.

    >>> print(escaped("nope\x1b[31m"))
    nope\x1b[31m
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def factor_in_words(factor: float) -> str:
    """How often as large: two decimals where they matter.

    >>> factor_in_words(1.04), factor_in_words(3.2), factor_in_words(4123.0)
    ('1.04', '3.2', '4,123.0')
    """
    return f"{factor:,.{2 if factor < 2 else 1}f}"
