"""Time budgets in the words that people use."""

import re

from poela.core.errors import InputError


def seconds_of(budget: float | str | None) -> float | None:
    """A time budget in seconds.

    >>> seconds_of("10m"), seconds_of("1.5h"), seconds_of(30), seconds_of(None)
    (600.0, 5400.0, 30.0, None)
    """
    if budget is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?", str(budget).strip())
    if not match or float(match[1]) <= 0:
        raise InputError(f"the budget {budget!r} is no time: write 90s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]
