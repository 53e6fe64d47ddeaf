"""Docstrings as the pages of the reference show them: examples are code blocks, and settings have a table."""

import dataclasses
import inspect
import re
from typing import Any

import griffe

import poela

EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).*)*")
REMARK = re.compile(r"(?m)^    (\w+): .*?  # (.+)$")


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


def settings_table(kind: type) -> str:
    """The fields of a dataclass, inherited ones too, with their defaults and what is remarked beside them.

    >>> print(settings_table(poela.KNNBehavior))
    | name | default | |
    |---|---|---|
    | `k` | `100` |  |
    """
    remarks: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        remarks |= REMARK.findall(inspect.getsource(base)) if dataclasses.is_dataclass(base) else []
    rows = ["| name | default | |", "|---|---|---|"]
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        default = "needed" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        rows.append(f"| `{name}` | {default} | {remarks.get(name, '')} |".replace("<factory>", "..."))
    return "\n".join(rows)


class Docstrings(griffe.Extension):
    """Does so for every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """One object."""
        if obj.docstring is None:
            return
        obj.docstring.value = fenced(obj.docstring.value)
        kind = getattr(poela, obj.name) if poela._HOME.get(obj.name) == obj.parent.path else None
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            obj.docstring.value += f"\n\n{settings_table(kind)}"
