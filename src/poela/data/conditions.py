"""Conditions over the columns of a table, such as allergy == 'yes' and age >= 65; missing values make them unknown."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.formulas import DEEPEST, LONGEST, day_of, is_arithmetic, parsed, worked_out
from poela.data.words import quoted

COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
MISSING = "missing"
KEYWORDS = frozenset({"and", "or", "not", "in", MISSING})
TOKEN = re.compile(
    r" *(?:`(?P<name>[^`]+)`|(?P<text>'[^']*'|\"[^\"]*\")|"
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|"
    r"(?P<sign>==|!=|<=|>=|[-+*/()<>=,])|(?P<word>[^-+*/()<>=!,'\"` ]+)) *"
)
NO_CONDITION = (
    "is no condition: write something like allergy == 'yes' and age >= 65 (columns; numbers, or text in quotes; "
    "== != < <= > >= in; and, or, not, missing(column); + - * / and brackets; `a name of several words` in backquotes; "
    f"at most {LONGEST} characters)"
)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: codes [N] (−1: missing) of names."""

    codes: IntArray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Days:
    """A column of dates or times, in days since 1970; NaN where there is none."""

    days: FloatArray


@dataclass(frozen=True, eq=False)
class Flags:
    """A column of yes and no."""

    yes: BoolArray
    known: BoolArray


Values = FloatArray | Texts | Days | Flags


@dataclass(frozen=True, eq=False)
class Truth:
    """Where a condition holds, and where it does not; elsewhere that is not known."""

    yes: BoolArray
    no: BoolArray

    def __and__(self, other: "Truth") -> "Truth":
        return Truth(self.yes & other.yes, self.no | other.no)

    def __or__(self, other: "Truth") -> "Truth":
        return Truth(self.yes | other.yes, self.no & other.no)

    def __invert__(self) -> "Truth":
        return Truth(self.no, self.yes)

    @classmethod
    def where(cls, holds: Any, known: Any) -> "Truth":
        """Where it holds, of the rows where that is known."""
        return cls(np.asarray(holds & known, np.bool_), np.asarray(~holds & known, np.bool_))


@dataclass(frozen=True)
class Condition:
    """Comparisons of columns with numbers, quoted text and dates, joined by *and*, *or*, *not* and brackets.

    What is missing makes a comparison unknown, unless the rest decides: "unknown and false" is false. `missing(x)` asks
    for it. So does a text that differs by capitals or blanks alone. A column alone stands for one of yes and no.

    >>> condition = Condition("allergy == 'yes' and not missing(age)")
    >>> condition.columns
    ('allergy', 'age')
    >>> allergy = Texts(np.array([1, 0, -1, -1]), ("no", "yes"))
    >>> truth = condition.of({"allergy": allergy, "age": np.array([50.0, 50.0, 50.0, np.nan])})
    >>> truth.yes, truth.no
    (array([ True, False, False, False]), array([False,  True, False,  True]))
    """

    text: str

    def __post_init__(self) -> None:
        _ = self._parsed  # which refuses what is no condition

    @cached_property
    def _parsed(self) -> tuple[ast.expr, dict[str, str]]:
        names: dict[str, str] = {}
        try:
            tree = parsed(self.text, names, token=TOKEN, keywords=KEYWORDS)
        except ValueError:
            raise InputError(f"{quoted(self.text)} {NO_CONDITION}") from None
        if not _is_truth(tree) or not names:
            raise InputError(f"{quoted(self.text)} {NO_CONDITION}")
        return tree, {alias: name for name, alias in names.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it asks about."""
        return tuple(self._parsed[1].values())

    @cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """The quoted texts that each column is compared with."""
        found: dict[str, tuple[str, ...]] = {}
        for node in ast.walk(self._parsed[0]):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                texts = tuple(text for side in sides for text in _texts(side))
                for side in sides if texts else ():
                    name = self._parsed[1][side.id] if isinstance(side, ast.Name) else ""
                    found |= {name: (*found.get(name, ()), *texts)} if name else {}
        return found

    @cached_property
    def flags(self) -> frozenset[str]:
        """The columns of yes and no that stand alone."""
        tree, names = self._parsed
        return frozenset(names[alias] for alias in _alone(tree))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The columns that it computes with, or compares with numbers."""
        of_numbers = set()
        for node in ast.walk(self._parsed[0]):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if sides and not any(_texts(side) for side in sides):
                of_numbers |= {one.id for side in sides for one in ast.walk(side) if isinstance(one, ast.Name)}
        return frozenset(self._parsed[1][alias] for alias in of_numbers)

    def orders(self, name: str) -> bool:
        """Whether it asks if this column is less or more than a text."""
        tree, names = self._parsed
        comparisons = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
        return any(
            isinstance(side, ast.Name) and names.get(side.id) == name
            for node in comparisons
            if any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
            and any(_texts(one) for one in (node.left, *node.comparators))
            for side in (node.left, *node.comparators)
        )

    def of(self, columns: Mapping[str, Values]) -> Truth:
        """Where it holds, row by row."""
        tree, names = self._parsed
        with np.errstate(all="ignore"):
            return _truth(tree, {alias: columns[name] for alias, name in names.items()})


def _alone(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BoolOp):
        return [alias for one in node.values for alias in _alone(one)]
    if isinstance(node, ast.UnaryOp):
        return _alone(node.operand)
    return [node.id] if isinstance(node, ast.Name) else []


def _texts(node: ast.AST) -> tuple[str, ...]:
    """The quoted texts of one side of a comparison."""
    elements = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(one.value for one in elements if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _is_truth(node: ast.AST, depth: int = 0) -> bool:
    """Whether a tree is a condition, and holds only what is allowed."""
    if depth > DEEPEST:
        return False
    if isinstance(node, ast.BoolOp):
        return all(_is_truth(one, depth + 1) for one in node.values)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and _is_truth(node.operand, depth + 1)
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id == MISSING and not node.keywords
        return named and len(node.args) == 1 and _is_column(node.args[0])
    if isinstance(node, ast.Compare):
        return _is_comparison(node)
    return _is_column(node)


def _is_column(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id != MISSING


def _is_comparison(node: ast.Compare) -> bool:
    if any(isinstance(one, ast.Name) and one.id == MISSING for one in ast.walk(node)):
        return False
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        several = node.comparators[0]
        one = isinstance(several, ast.Constant)  # brackets around a single value make no list
        elements = [several] if one else several.elts if isinstance(several, ast.Tuple) else []
        sound = bool(elements) and all(isinstance(one, ast.Constant) for one in elements)
        same = len({isinstance(one.value, str) for one in elements if isinstance(one, ast.Constant)}) == 1
        return len(node.ops) == 1 and sound and same and _is_column(node.left)
    sides = [node.left, *node.comparators]
    if not all(type(op) in COMPARISONS for op in node.ops):
        return False
    if any(_texts(side) for side in sides):  # a column beside texts, and nothing else
        return len([side for side in sides if _is_column(side)]) == 1 and all(
            _is_column(side) or (isinstance(side, ast.Constant) and isinstance(side.value, str)) for side in sides
        )
    return all(is_arithmetic(side) for side in sides)


def _truth(node: ast.AST, columns: Mapping[str, Values]) -> Truth:
    if isinstance(node, ast.BoolOp):
        first, *others = (_truth(one, columns) for one in node.values)
        for other in others:
            first = first & other if isinstance(node.op, ast.And) else first | other
        return first
    if isinstance(node, ast.UnaryOp):
        return ~_truth(node.operand, columns)
    if isinstance(node, ast.Call):
        assert isinstance(node.args[0], ast.Name)
        known = _known(columns[node.args[0].id])
        return Truth(~known, known)
    if isinstance(node, ast.Name):
        return _flag(columns[node.id])
    assert isinstance(node, ast.Compare)
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        several = node.comparators[0]
        truths = [_compared(node.left, ast.Eq(), one, columns) for one in getattr(several, "elts", [several])]
        whole = Truth(np.any([one.yes for one in truths], axis=0), np.all([one.no for one in truths], axis=0))
        return whole if isinstance(node.ops[0], ast.In) else ~whole
    sides = [node.left, *node.comparators]
    parts = [_compared(one, op, other, columns) for one, op, other in zip(sides, node.ops, sides[1:], strict=False)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


def _known(values: Values) -> BoolArray:
    if isinstance(values, Texts):
        return np.asarray(values.codes >= 0)
    if isinstance(values, Flags):
        return values.known
    return ~np.isnan(values.days if isinstance(values, Days) else values)


def _flag(values: Values) -> Truth:
    assert isinstance(values, Flags)
    return Truth.where(values.yes, values.known)


def _compared(one: ast.expr, op: ast.cmpop, other: ast.expr, columns: Mapping[str, Values]) -> Truth:
    compare = COMPARISONS[type(op)]
    for text, column, flipped in ((one, other, True), (other, one, False)):
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            assert isinstance(column, ast.Name)
            return _beside_text(columns[column.id], compare, text.value, flipped)
    sides = [worked_out(side, lambda alias: _numbers(columns[alias])) for side in (one, other)]
    return Truth.where(np.asarray(compare(*sides)), np.isfinite(sides[0]) & np.isfinite(sides[1]))


def _beside_text(values: Values, compare: Callable[..., Any], text: str, flipped: bool) -> Truth:
    """A column compared with a text: a name, a date, or what spells yes or no."""
    if isinstance(values, Texts):
        same = values.codes == (values.names.index(text) if text in values.names else -2)
        alike = [code for code, name in enumerate(values.names) if name != text and _plain(name) == _plain(text)]
        known = (values.codes >= 0) & ~np.isin(values.codes, alike)
        return Truth.where(same if compare is operator.eq else ~same, known)
    if isinstance(values, Flags):
        return Truth.where(compare(values.yes, text.strip().lower() in YES), values.known)
    number = day_of(text) if isinstance(values, Days) else float(text)
    own = values.days if isinstance(values, Days) else values
    sides = (number, own) if flipped else (own, number)
    return Truth.where(compare(*sides), np.isfinite(own))


def _plain(text: str) -> str:
    """A text without what a slip may change: what differs by that alone may be the same, or not."""
    return text.strip().casefold()


def _numbers(values: Values) -> FloatArray:
    if isinstance(values, Flags):
        return np.where(values.known, values.yes * 1.0, np.nan)
    assert isinstance(values, np.ndarray)
    return values


YES = frozenset({"1", "true", "yes", "y", "t"})
NO = frozenset({"0", "false", "no", "n", "f"})
