"""Limits of time in the words that people use."""

import re
import time
from dataclasses import dataclass

from poela.core.errors import InputError

TO_LEARN = 0.8  # of a limit of time; the rest is for leaving two folds out of what is claimed


@dataclass(frozen=True)
class Deadlines:
    """Until when candidates are tried, and until when anything is fitted; None: no limit."""

    learning: float | None = None
    everything: float | None = None

    @classmethod
    def of(cls, seconds: float | None) -> "Deadlines":
        """From now on.

        >>> Deadlines.of(None)
        Deadlines(learning=None, everything=None)
        """
        if seconds is None:
            return cls()
        now = time.monotonic()
        return cls(now + TO_LEARN * seconds, now + seconds)


def seconds_of(time: float | str | None) -> float | None:
    """A limit of time in seconds.

    >>> seconds_of("10m"), seconds_of("1.5h"), seconds_of(30), seconds_of(None)
    (600.0, 5400.0, 30.0, None)
    """
    if time is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?", str(time).strip())
    if not match or float(match[1]) <= 0:
        raise InputError(f"{time!r} is no time: write 90s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]


def refuse_amount(budget: object) -> None:
    """Refuse `--budget 100`: without a unit it is more likely an amount to spend than a time.

    >>> refuse_amount("10m")
    """
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", str(budget)):
        raise InputError(
            f"--budget {str(budget).strip()} has no unit: to limit the time say --time 10m; what may be spent per case "
            "is --cost COLUMN (or --cost large=3,small=1) with --spend 0.5"
        )
