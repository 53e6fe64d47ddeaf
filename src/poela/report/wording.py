"""Numbers as a page shows them."""

from poela.core.readable import readable


def typeset(value: float | None, error: float | None = None, *, signed: bool = False) -> str:
    """As everywhere, with a true minus sign, and a dash where there is no number.

    >>> typeset(-2.0), typeset(None)
    ('−2.00', '–')
    """
    return with_signs(readable(value, error, signed=signed))


def with_signs(number: str) -> str:
    """A number as text, with a true minus sign, or a dash for none.

    >>> with_signs("-0.5"), with_signs("-")
    ('−0.5', '–')
    """
    return "–" if number == "-" else number.replace("-", "−")


def out_of(share: float) -> str:
    """A share as a count that people can picture.

    >>> [out_of(share) for share in (0.68, 0.0041, 0.0002, 0.0, 1.0, 0.996)]
    ['68 in 100', '4 in 1,000', 'fewer than 1 in 1,000', 'none', 'all', '996 in 1,000']
    """
    if share <= 0 or share >= 1:
        return "none" if share <= 0 else "all"
    if 0.0095 <= share < 0.995:
        return f"{round(100 * share)} in 100"
    thousandths = round(1000 * share)
    return f"{min(thousandths, 999)} in 1,000" if thousandths else "fewer than 1 in 1,000"


def capital(text: str) -> str:
    """With a capital first letter.

    >>> capital("the outcome")
    'The outcome'
    """
    return f"{text[:1].upper()}{text[1:]}"
