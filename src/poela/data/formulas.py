"""The small language of formulas and conditions over columns; what it spells is looked at, and never executed.

Numbers, columns, + − * / and brackets; conditions also compare, with numbers or quoted text, and join by and, or, not.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from poela.core.errors import InputError

# Dates as people write them, as days.


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


LONGEST = 500  # characters
DEEPEST = 50  # operations within operations
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
# A name between backquotes, a number, a sign, or a word; what is none of them is no formula.
TOKEN = re.compile(
    r" *(?:`(?P<name>[^`]+)`|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|"
    r"(?P<sign>[-+*/()])|(?P<word>[^-+*/()` ]+)) *"
)


def with_aliases(
    text: str, names: dict[str, str], token: re.Pattern[str] = TOKEN, keywords: Collection[str] = ()
) -> str:
    """A formula in which every column goes by an alias, noted in `names`; ValueError where it is none.

    Python would read names in a normal form of Unicode (the column µg as another μg), and comments away.
    """
    if len(text) > LONGEST or not text.isprintable():
        raise ValueError
    spelled, place = [], 0
    while place < len(text):
        match = token.match(text, place)
        if match is None or (match["word"] and not match["word"].isidentifier()):
            raise ValueError
        parts = match.groupdict()
        if parts["word"] in keywords:
            spelled.append(parts["word"])
        elif name := parts["name"] or parts["word"]:
            spelled.append(names.setdefault(name, f"column_{len(names)}_"))
        elif parts.get("text"):
            spelled.append(repr(parts["text"][1:-1]))
        else:
            spelled.append(parts["number"] or {"=": "=="}.get(parts["sign"], parts["sign"]))
        place = match.end()
    return " ".join(spelled)


def parsed(text: str, names: dict[str, str], **how: Any) -> ast.expr:
    """The tree of a formula, with aliases of columns noted in `names`; ValueError where it is none."""
    try:
        return ast.parse(with_aliases(text, names, **how), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError from None


def is_arithmetic(node: ast.AST, depth: int = 0) -> bool:
    """Whether a tree holds numbers, names and what is worked out of them, and nothing else."""
    if depth > DEEPEST:
        return False
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATORS and all(is_arithmetic(side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return type(node.op) in OPERATORS and is_arithmetic(node.operand, depth + 1)
    if isinstance(node, ast.Name):
        return True
    number: Any = node.value if isinstance(node, ast.Constant) else None
    return type(number) in (int, float) and abs(number) < 1e300


def worked_out(node: ast.AST, value_of: Callable[[str], Any]) -> Any:
    """What arithmetic comes to; `value_of` gives the column that an alias stands for."""
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](worked_out(node.left, value_of), worked_out(node.right, value_of))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](worked_out(node.operand, value_of))
    if isinstance(node, ast.Name):
        return value_of(node.id)
    assert isinstance(node, ast.Constant)
    return np.float64(node.value)  # type: ignore[arg-type]
