"""Types that carry a range or a choice of names, and what is wrong with a value that should be of such a type.

`Count = Annotated[int, Range(least=1)]` is a whole number, at least 1; `problem_of(Count, 0)` says so.
"""

import math
import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, is_dataclass
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from poela.core.references import is_reference

SHOWN = 60  # characters of a wrong value


@dataclass(frozen=True)
class Range:
    """What a number must keep to, beside being finite."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the value lies within.

        >>> Range(above=0).holds(0), Range(least=0, most=1).holds(0.5)
        (False, True)
        """
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return " and ".join(f"{word} {_limit(limit)}" for word, limit in words.items() if limit is not None)


def _limit(limit: float) -> str:
    return "2^63" if limit == 2**63 else f"{limit:g}"


@dataclass(frozen=True)
class Check:
    """Another demand, in place of the type's own: a function that says what is wrong, or nothing."""

    problem: Callable[[Any], str | None]


def one_of(*names: str) -> Check:
    """Text that must be one of these names.

    >>> one_of("max", "soft").problem("hard")
    "choose 'max' or 'soft'"
    """
    return named_in(names)


def named_in(table: Collection[str], *others: str) -> Check:
    """Text that names something in a table, or is one of the others; the table is read when a value is checked.

    >>> table = {"knn": 1}
    >>> check = named_in(table, "auto")
    >>> table["clone"] = 2  # from now on
    >>> check.problem("mlp"), check.problem("clone")
    ("choose 'auto', 'knn' or 'clone'", None)
    """

    def problem(value: Any) -> str | None:
        if isinstance(value, str) and (value in others or value in table or is_reference(value)):
            return None
        *most, last = map(repr, (*others, *table))
        return f"choose {' or '.join(filter(None, [', '.join(most), last]))}"

    return Check(problem)


class Unknown:
    """Marks a float that is NaN where it is not known; files hold null there."""


Count = Annotated[int, Range(least=1)]
Whole = Annotated[int, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(least=0, most=1)]
Discount = Annotated[float, Range(above=0, most=1)]
Level = Annotated[float, Range(above=0, below=1)]
Seed = Annotated[int, Range(least=0, below=2**63)]
Unknowable = Annotated[float, Unknown()]


def shown(value: Any) -> str:
    """A value as an error message quotes it, cut short.

    >>> shown("x" * 100) == "'" + "x" * 58 + "…"
    True
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def problem_of(kind: Any, value: Any) -> str | None:
    """What is wrong with a value that should be of this kind; None where nothing is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated_problem(arguments[0], arguments[1:], value)
    if origin in (Union, types.UnionType):
        problems = {option: problem_of(option, value) for option in arguments}
        sentences = [str(problem) for option, problem in problems.items() if option is not type(None)]
        return None if None in problems.values() else ", or ".join(dict.fromkeys(sentences))
    if origin is tuple:
        return _items_problem(arguments, value)
    if origin is Literal:
        choices = " or ".join(map(repr, arguments))
        return None if any(value == one and type(value) is type(one) for one in arguments) else f"choose {choices}"
    test = _TESTS.get(kind)
    if test is not None:
        return None if test[0](value) else f"it must be {test[1]}"
    if is_dataclass(kind) and isinstance(kind, type):
        return None if isinstance(value, kind) else f"it must be made by {kind.__name__}(...)"
    return None  # other classes check themselves


def _annotated_problem(kind: Any, demands: Sequence[Any], value: Any) -> str | None:
    if any(isinstance(demand, Unknown) for demand in demands) and isinstance(value, float) and math.isnan(value):
        return None
    for demand in demands:
        if isinstance(demand, Check):
            return demand.problem(value)
    problem = problem_of(kind, value)
    for demand in demands:
        if isinstance(demand, Range) and (problem is not None or not demand.holds(value)):
            return f"{problem or f'it must be {_TESTS[kind][1]}'}, {demand}"
    return problem


def _items_problem(kinds: tuple[Any, ...], value: Any) -> str | None:
    if not isinstance(value, tuple):
        return "it must be a list"
    if kinds[-1] is not Ellipsis:
        if len(value) != len(kinds):
            return f"it must hold {len(kinds)} values"
        pairs = list(zip(kinds, value, strict=True))
    else:
        pairs = [(kinds[0], item) for item in value]
    problems = [problem for kind, item in pairs if (problem := problem_of(kind, item)) is not None]
    return problems[0].replace("it must", "each must", 1) if problems else None


def _is_whole(value: Any) -> bool:
    is_truth: bool = isinstance(value, bool)  # which Python counts among the numbers, as NumPy its own
    return not is_truth and isinstance(value, Integral) and _fits(value)


def _fits(value: Any) -> bool:
    return bool(-(2**63) <= value < 2**63)


def _is_text(value: Any) -> bool:
    # Half of a pair of surrogates can be neither printed nor written.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_number(value: Any) -> bool:
    """Whether the value is a finite number: Python's or NumPy's, but no truth value."""
    is_truth: bool = isinstance(value, bool)
    return not is_truth and isinstance(value, Real) and _is_finite(value)


def _is_finite(value: Any) -> bool:
    return bool(-1e308 < value < 1e308)  # false for NaN, infinity and integers beyond any float


_TESTS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_whole, "a whole number"),
    float: (is_number, "a number"),
    str: (_is_text, "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    type(None): (lambda value: value is None, "nothing"),
}
