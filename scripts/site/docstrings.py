"""Docstrings as the pages of the reference show them: examples are code blocks, and settings have a table."""

import ast
import dataclasses
import inspect
import io
import json
import re
import textwrap
import tokenize
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import griffe

import poela
from poela.core.options import in_python, options_of

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


def settings_table(kind: type) -> str:
    """The fields of a dataclass, inherited ones too: type, default, what they are, and since which version.

    >>> print(settings_table(poela.KNNBehavior))
    | name | type | default | meaning | since |
    |---|---|---|---|---|
    | `k` | `int` | `100` | neighbours whose actions are counted | 0.1 |
    """
    rows = ["| name | type | default | meaning | since |", "|---|---|---|---|---|"]
    meanings, hints = meanings_of(kind), _hints(kind)
    for name, parameter in parameters_of(kind).items():
        default = "needed" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        meaning = meanings.get(name, "").replace("|", "\\|")
        since = since_of(kind.__name__, name)
        row = f"| `{name}` | `{type_words(hints[name])}` | {default} | {meaning} | {since} |"
        rows.append(row.replace("`<factory>`", "its own defaults"))
    return "\n".join(rows)


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """What may be given by name."""
    parameters = inspect.signature(kind).parameters
    return {name: one for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD}


def meanings_of(kind: type) -> dict[str, str]:
    """What each field is: the help of its option, else the comment beside it, else the one above it."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if dataclasses.is_dataclass(base):
            meanings |= _remarks(inspect.getsource(base))
            if "Option" in str(base.__annotations__):  # others may name types that only type checkers import
                meanings |= {one.field: in_python(one.option.help) for one in options_of(base).values()}
    return meanings


def _hints(kind: type) -> dict[str, Any]:
    """The types of fields, as they are written where only type checkers import them."""
    try:
        return get_type_hints(kind)
    except NameError:
        return {field.name: field.type for field in dataclasses.fields(kind)}


def _remarks(source: str) -> dict[str, str]:
    """The comments at the fields of one class.

    >>> _remarks("class A:\\n    # how often\\n    steps: int = 1\\n    size: int  # in rows")
    {'steps': 'how often', 'size': 'in rows'}
    """
    text = textwrap.dedent(source)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    lines, body = text.splitlines(), ast.parse(text).body[0].body  # type: ignore[attr-defined]
    remarks: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above = node.lineno - 1
            alone = above in comments and lines[above - 1].lstrip().startswith("#")
            places = [node.end_lineno, node.lineno, *([above] if alone else [])]
            told = next((comments[place] for place in places if place in comments), None)
            remarks |= {} if told is None else {node.target.id: told}
    return remarks


def type_words(kind: Any) -> str:
    """A type as people write it.

    >>> type_words(tuple[int, ...] | None)
    'tuple[int, ...] | None'
    """
    text = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", text.replace("NoneType", "None"))


@cache
def _first_seen() -> dict[str, dict[str, str]]:
    """Which settings each version had first, by what they belong to; those of no list are of this version."""
    return dict(json.loads(Path(__file__).with_name("since.json").read_text(encoding="utf-8")))


def since_of(owner: str, name: str) -> str:
    """The version that had a setting first.

    >>> since_of("POELA", "radius")
    '0.1'
    """
    seen = (version for version, owners in _first_seen().items() if name in owners.get(owner, "").split())
    return next(seen, poela.__version__.rpartition(".")[0])


def as_list(text: str) -> str:
    """A docstring whose arguments are a list: most of them are in no signature that can be read without running it."""
    block = re.search(r"(?m)^Args:\n((?: {4}.+\n?)+)", text)
    if block is None:
        return text
    items = re.sub(r"(?m)^ {8}", "  ", block[1])
    items = re.sub(r"(?m)^ {4}(\w+): ", r"- `\1`: ", items)
    return f"{text[: block.start()]}**Arguments**\n\n{items}{text[block.end() :]}"


class Docstrings(griffe.Extension):
    """Does so for every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """One object."""
        if obj.docstring is None:
            return
        kind = getattr(poela, obj.name) if poela._HOME.get(obj.name) == obj.parent.path else None
        if inspect.isfunction(kind):  # whose settings are described when it is imported
            obj.docstring.value = as_list(inspect.getdoc(kind) or "")
        obj.docstring.value = fenced(obj.docstring.value)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            obj.docstring.value += f"\n\n{settings_table(kind)}"
