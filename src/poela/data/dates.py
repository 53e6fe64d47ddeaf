"""Dates as people write them, as days."""

import re
from datetime import datetime, timedelta

from poela.core.errors import InputError


def day_of(origin: str) -> float:
    """The days from 1970 to a date, or to a time without a zone.

    >>> day_of("1970-01-02")
    1.0
    """
    try:
        time = datetime.fromisoformat(origin if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])", origin) else "")
        return (time - datetime(1970, 1, 1)) / timedelta(days=1)  # TypeError: it has a zone
    except (TypeError, ValueError):
        raise InputError("origin= must be a date, such as 2020-01-01") from None
