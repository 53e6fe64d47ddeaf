"""Texts that stand for objects of a Python session in plain records, as "Ridge(alpha=2.0) [live 5f2c9a01be440177]"."""

import re
from typing import Any

_REFERENCE = re.compile(r"(?P<what>.*) \[live (?P<token>[0-9a-f]{16})\]", re.DOTALL)


def is_reference(value: Any) -> bool:
    """Whether a text stands for an object.

    >>> is_reference("knn"), is_reference("Ridge() [live 5f2c9a01be440177]")
    (False, True)
    """
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def described(text: str) -> str:
    """A reference, or any other text, as people read it.

    >>> described("Ridge() [live 5f2c9a01be440177]"), described("knn")
    ('Ridge()', 'knn')
    """
    match = _REFERENCE.fullmatch(text)
    return match["what"] if match else text
