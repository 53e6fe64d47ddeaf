"""Rewards: a column, or a small sum of columns; blank before the end of an episode where they come only there."""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import episode_of_step

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
FORMULA_LIKE = re.compile(r"[^\w .]")  # rarely in the name of a column, nearly always in a formula
NO_FORMULA = (
    "reward= is no column and no formula of columns: write something like survived - 0.01*cost "
    f"(at most {LONGEST} characters; + - * / and brackets; `a name of several words` in backquotes)"
)


@dataclass(frozen=True, eq=False)
class RewardFormula:
    """Numbers, columns, + − * / and brackets; a name that is no word stands between backquotes.

    >>> formula = RewardFormula.of("survived - 0.01 * `cost in $`")
    >>> formula.columns
    ('survived', 'cost in $')
    >>> formula.value({"survived": np.array([1.0, 0.0]), "cost in $": np.array([10.0, 20.0])})
    array([ 0.9, -0.2])
    """

    columns: tuple[str, ...]
    _tree: ast.expr
    _names: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> "RewardFormula":
        """The formula that a text spells; one sentence where it spells none."""
        names: dict[str, str] = {}
        try:
            spelled = _with_aliases(text, names)
            tree = ast.parse(spelled, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(NO_FORMULA) from None
        if not _is_allowed(tree):
            raise InputError(NO_FORMULA)
        return cls(tuple(names), tree, {alias: name for name, alias in names.items()})

    def value(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """What it comes to, row by row; not finite where it divides by 0 or grows too large."""
        with np.errstate(all="ignore"):
            return np.asarray(self._value(self._tree, columns), np.float64)

    def _value(self, node: ast.AST, columns: Mapping[str, FloatArray]) -> Any:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self._value(node.left, columns), self._value(node.right, columns))
        if isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](self._value(node.operand, columns))
        if isinstance(node, ast.Name):
            return columns[self._names[node.id]]
        assert isinstance(node, ast.Constant)
        return np.float64(node.value)  # type: ignore[arg-type]


def _with_aliases(text: str, names: dict[str, str]) -> str:
    """A formula in which every column goes by an alias, noted in `names`; ValueError where it is none.

    Python would read names in a normal form of Unicode (the column µg as another μg), and comments away.
    """
    if len(text) > LONGEST or not text.isprintable():
        raise ValueError
    spelled, place = [], 0
    while place < len(text):
        token = TOKEN.match(text, place)
        if token is None or (token["word"] and not token["word"].isidentifier()):
            raise ValueError
        name = token["name"] or token["word"]
        spelled.append(names.setdefault(name, f"column_{len(names)}_") if name else token["number"] or token["sign"])
        place = token.end()
    return " ".join(spelled)


def _is_allowed(node: ast.AST, depth: int = 0) -> bool:
    """Whether a tree holds only what is allowed."""
    if depth > DEEPEST:
        return False
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATORS and all(_is_allowed(side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return type(node.op) in OPERATORS and _is_allowed(node.operand, depth + 1)
    if isinstance(node, ast.Name):
        return True
    number: Any = node.value if isinstance(node, ast.Constant) else None
    return type(number) in (int, float) and abs(number) < 1e300


def reward_formula(reward: str) -> RewardFormula | None:
    """The formula that a reward is; None where it is the name of a column.

    >>> reward_formula("days alive") is None, reward_formula("alive - cost").columns
    (True, ('alive', 'cost'))
    """
    try:
        formula = RewardFormula.of(reward)
    except InputError:
        return None
    return None if not formula.columns or formula.columns == (reward,) else formula


def columns_paid_in(reward: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a reward, or another outcome, is made of in a table with these columns.

    >>> columns_paid_in("alive - cost", ["alive", "cost"]), columns_paid_in("alive - cost", ["alive - cost"])
    (('alive', 'cost'), ('alive - cost',))
    """
    formula = None if reward in columns else reward_formula(reward)
    return (reward,) if formula is None else formula.columns


def only_at_the_end(values: FloatArray, offsets: IntArray) -> BoolArray:
    """Which blanks (NaN) of a column come before the only value of their episode, in its last row.

    >>> nan = np.nan
    >>> only_at_the_end(np.array([nan, nan, 1.0, 2.0, nan, 3.0, nan]), np.array([0, 3, 4, 6, 7]))
    array([ True,  True, False, False,  True, False, False])
    """
    blank = np.isnan(values)
    episode = episode_of_step(offsets)
    known = np.bincount(episode[~blank], minlength=len(offsets) - 1)
    last = offsets[1:] - 1
    late: BoolArray = (known == 1) & ~blank[last]
    return np.asarray(blank & late[episode])
