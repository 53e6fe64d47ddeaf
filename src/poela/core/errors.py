"""The errors that users see: one clear sentence each, all problems at once."""

from collections.abc import Sequence
from typing import Any


class PoelaError(Exception):
    """Something could not be done; the command line turns it into exit code 1."""


class InputError(PoelaError):
    """Bad input or usage; the command line turns it into exit code 2.

    >>> error = InputError(["column 'age' is missing: name it", "3 rewards are NaN"])
    >>> error.problems
    ("column 'age' is missing: name it", '3 rewards are NaN')
    >>> print(error)
    column 'age' is missing: name it
    3 rewards are NaN
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class TrainingError(PoelaError):
    """Training broke down (NaN, divergence); `last_good` is the last policy before that, if there was one."""

    last_good: Any = None


class PoelaWarning(UserWarning):
    """Something the user should know before trusting a result."""
