"""Numbers as a page shows them."""

from poela.core.readable import readable as plain


def readable(value: float | None, error: float | None = None, *, signed: bool = False) -> str:
    """As everywhere, with a true minus sign, and a dash where there is no number.

    >>> readable(-2.0), readable(None)
    ('−2.00', '–')
    """
    shown = plain(value, error, signed=signed)
    return "–" if shown == "-" else shown.replace("-", "−")
