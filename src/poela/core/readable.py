"""Numbers as people read them: as many decimals as their error leaves, and never a power of ten."""

from math import floor, isfinite, log10


def readable(value: float | None, error: float | None = None, *, signed: bool = False) -> str:
    """A number to two digits of its error; without an error, to three digits of its own.

    >>> readable(1263.4), readable(-0.0123456), readable(2.9604, error=0.42), readable(5.0, error=0.1, signed=True)
    ('1,263', '-0.0123', '2.96', '+5.00')
    >>> readable(1234567.0, error=3000.0), readable(0.0), readable(None), readable(float("nan"))
    ('1,234,567', '0', '-', '-')
    """
    if value is None or not isfinite(value):
        return "-"
    digits, scale = (2, error) if error is not None and isfinite(error) and error > 0 else (3, abs(value))
    decimals = min(max(digits - 1 - floor(log10(scale)), 0), 12) if scale else 0
    rounded = round(value, decimals) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if signed else ''},.{decimals}f}"


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
