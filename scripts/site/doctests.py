"""Examples inside docstrings become code blocks on the pages of the reference."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).*)*")


def fenced(text: str) -> str:
    """The text with each doctest between fences.

    >>> print(fenced("Add.\\n\\n>>> 1 + 1\\n2"))
    Add.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)


class FencedDoctests(griffe.Extension):
    """Does so for every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """One object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
