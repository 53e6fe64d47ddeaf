"""Plain values checked against the types that dataclasses declare: settings as people type them, records from files.

A type may carry a range: `Count = Annotated[int, Range(least=1)]`. `problems_in(settings)` lists what is wrong with a
dataclass's values, `from_plain` builds a dataclass from what JSON or TOML hold, and `to_plain` is its inverse.
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from poela.core.errors import InputError

T = TypeVar("T")
DEEPEST = 30  # dataclasses within dataclasses
LONGEST = 200_000  # entries of a list
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
    choices = " or ".join(filter(None, [", ".join(map(repr, names[:-1])), repr(names[-1])]))
    return Check(lambda value: None if isinstance(value, str) and value in names else f"choose {choices}")


class _Unknown:
    """Marks a float that is NaN where it is not known; files hold null there."""


Count = Annotated[int, Range(least=1)]
Whole = Annotated[int, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(least=0, most=1)]
Discount = Annotated[float, Range(above=0, most=1)]
Level = Annotated[float, Range(above=0, below=1)]
Seed = Annotated[int, Range(least=0, below=2**63)]
Unknowable = Annotated[float, _Unknown()]


def problems_in(settings: Any) -> list[str]:
    """One sentence for each field of a dataclass whose value does not fit its type.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     steps: Count = 5
    ...     hidden: tuple[Count, ...] = (8,)
    >>> problems_in(Settings(steps=0, hidden=(8, -1)))
    ['steps is 0: it must be a whole number, at least 1', 'hidden is (8, -1): each must be a whole number, at least 1']
    """
    return [
        f"{name} is {shown(getattr(settings, name))}: {problem}"
        for name, kind in _kinds(_class_of(settings)).items()
        if (problem := _problem(kind, getattr(settings, name))) is not None
    ]


def refuse_problems(settings: Any) -> None:
    """Raise one `InputError` with everything that is wrong; for `__post_init__`. Lists become tuples before that."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, list):
            object.__setattr__(settings, field.name, _frozen(value))
    problems = problems_in(settings)
    if problems:
        raise InputError(problems)


def shown(value: Any) -> str:
    """A value as an error message quotes it, cut short.

    >>> shown("x" * 100) == "'" + "x" * 58 + "…"
    True
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def from_plain(kind: type[T], plain: Any, where: str) -> T:
    """The dataclass that a JSON object describes; what does not fit is named, `where` first.

    Fields may be missing where they have a default; unknown fields are refused.

    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> from_plain(Point, {"x": 1, "names": ["a"]}, "here")
    Point(x=1, names=('a',))
    >>> from_plain(Point, {"x": "1"}, "point.json")
    Traceback (most recent call last):
    poela.core.errors.InputError: point.json: x: it must be a number
    """
    try:
        built: T = _build(kind, plain, 0)
    except _Unfit as unfit:
        raise InputError(": ".join([where, *unfit.path, unfit.reason])) from None
    except InputError as error:
        raise InputError(f"{where}: {'; '.join(error.problems)}") from None
    return built


def parsed(name: str, kind: Any, value: Any) -> Any:
    """A setting of this kind; text, such as a command line gives, is read as the number or truth that it stands for.

    >>> parsed("epsilon", Share, "0.2"), parsed("markov", bool, "true")
    (0.2, True)
    >>> parsed("epsilon", Share, "often")
    Traceback (most recent call last):
    poela.core.errors.InputError: epsilon is 'often': it must be a number, at least 0 and at most 1
    """
    found = [value]
    if isinstance(value, str):
        found += [{"true": True, "false": False, "none": None}.get(value.strip().lower(), value)]
        for number in (int, float):
            with suppress(ValueError):
                found.append(number(value))
    fitting = [one for one in found if _problem(kind, one) is None]
    if not fitting:
        raise InputError(f"{name} is {shown(value)}: {_problem(kind, value)}")
    return fitting[0]


def to_plain(value: Any) -> Any:
    """Dataclasses, tuples and NumPy's numbers as JSON can hold them; NaN and infinity become null.

    >>> to_plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Unfit(Exception):
    """A value that does not fit, and the way to it."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path


def _class_of(settings: Any) -> Any:
    return type(settings)


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _problem(kind: Any, value: Any) -> str | None:
    """What is wrong with a value that should be of this kind; None where nothing is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _problem_annotated(arguments[0], arguments[1:], value)
    if origin in (Union, types.UnionType):
        found = {option: _problem(option, value) for option in arguments}
        told = [str(problem) for option, problem in found.items() if option is not type(None)]
        return None if None in found.values() else ", or ".join(dict.fromkeys(told))
    if origin is tuple:
        return _problem_of_items(arguments, value)
    if origin is Literal:
        choices = " or ".join(map(repr, arguments))
        return None if any(value == one and type(value) is type(one) for one in arguments) else f"choose {choices}"
    test = _TESTS.get(kind)
    if test is not None:
        return None if test[0](value) else f"it must be {test[1]}"
    return None  # other classes check themselves


def _problem_annotated(kind: Any, demands: Sequence[Any], value: Any) -> str | None:
    if any(isinstance(demand, _Unknown) for demand in demands) and isinstance(value, float) and math.isnan(value):
        return None
    for demand in demands:
        if isinstance(demand, Check):
            return demand.problem(value)
    found = _problem(kind, value)
    for demand in demands:
        if isinstance(demand, Range) and (found is not None or not demand.holds(value)):
            return f"{found or f'it must be {_TESTS[kind][1]}'}, {demand}"
    return found


def _problem_of_items(kinds: tuple[Any, ...], value: Any) -> str | None:
    if not isinstance(value, tuple):
        return "it must be a list"
    if kinds[-1] is not Ellipsis:
        if len(value) != len(kinds):
            return f"it must hold {len(kinds)} values"
        pairs = list(zip(kinds, value, strict=True))
    else:
        pairs = [(kinds[0], item) for item in value]
    found = [problem for kind, item in pairs if (problem := _problem(kind, item)) is not None]
    return found[0].replace("it must", "each must", 1) if found else None


def _is_whole(value: Any) -> bool:
    is_truth: bool = isinstance(value, bool)  # which Python counts among the numbers, as NumPy its own
    return not is_truth and isinstance(value, Integral) and _fits(value)


def _fits(value: Any) -> bool:
    return bool(-(2**63) <= value < 2**63)


def _is_text(value: Any) -> bool:
    # Half of a pair of surrogates can be neither printed nor written.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_number(value: Any) -> bool:
    is_truth: bool = isinstance(value, bool)
    return not is_truth and isinstance(value, Real) and _is_finite(value)


def _is_finite(value: Any) -> bool:
    return bool(-1e308 < value < 1e308)  # false for NaN, infinity and integers beyond any float


_TESTS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_whole, "a whole number"),
    float: (_is_number, "a number"),
    str: (_is_text, "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    type(None): (lambda value: value is None, "nothing"),
}


def _build(kind: Any, plain: Any, depth: int) -> Any:
    """The value of this kind that plain JSON stands for."""
    if depth > DEEPEST:
        raise _Unfit("it is nested too deeply")
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return plain
    if hasattr(kind, "from_json"):
        return kind.from_json(plain)  # a class that checks for itself
    if is_dataclass(kind) and isinstance(kind, type):
        return _build_dataclass(kind, plain, depth)
    if origin in (Union, types.UnionType):
        return _build_union(arguments, plain, depth)
    if origin in (tuple, dict, Mapping) or _is_array(origin):
        return _build_several(origin, arguments, plain, depth)
    if origin is Annotated and plain is None and any(isinstance(demand, _Unknown) for demand in arguments[1:]):
        return math.nan
    problem = _problem(kind, plain)
    if problem is not None:
        raise _Unfit(problem)
    return plain


def _build_several(origin: Any, arguments: tuple[Any, ...], plain: Any, depth: int) -> Any:
    if _is_array(origin):
        return _build_array(plain)
    if origin is not tuple:
        if not isinstance(plain, Mapping):
            raise _Unfit("it must be an object")
        return {str(key): _inside(str(key), arguments[1], item, depth) for key, item in plain.items()}
    if not isinstance(plain, list | tuple):
        raise _Unfit("it must be a list")
    if len(plain) > LONGEST:
        raise _Unfit(f"it has {len(plain)} entries: at most {LONGEST} are read")
    kinds = (arguments[0],) * len(plain) if arguments[-1] is Ellipsis else arguments
    if len(kinds) != len(plain):
        raise _Unfit(f"it must hold {len(kinds)} values")
    return tuple(_inside(str(place), *pair, depth) for place, pair in enumerate(zip(kinds, plain, strict=True)))


def _is_array(origin: Any) -> bool:
    return getattr(origin, "__name__", "") == "ndarray"


def _build_array(plain: Any) -> Any:
    """Numbers in a row; null is NaN."""
    import numpy as np  # the command line's help must do without

    if not isinstance(plain, list) or not all(value is None or _is_number(value) for value in plain):
        raise _Unfit("it must be a list of numbers")
    return np.array([math.nan if value is None else value for value in plain], np.float64)


def _build_union(options: tuple[Any, ...], plain: Any, depth: int) -> Any:
    if plain is None and type(None) in options:
        return None
    reasons: list[tuple[str, tuple[str, ...]]] = []
    for option in options:
        try:
            return _build(option, plain, depth)
        except _Unfit as unfit:
            if option is not type(None):
                reasons.append((unfit.reason, unfit.path))  # not the error itself, which would hold on to its callers
    # Where only one option is more than "nothing", its own words are the clearest.
    if len(reasons) == 1:
        raise _Unfit(*reasons[0])
    raise _Unfit(" or ".join(dict.fromkeys(reason for reason, _ in reasons)))


def _build_dataclass(kind: Any, plain: Any, depth: int) -> Any:
    if not isinstance(plain, Mapping):
        raise _Unfit("it must be an object")
    kinds = _kinds(kind)
    unknown = [str(name) for name in plain if name not in kinds]
    if unknown:
        raise _Unfit(f"it has no field {shown(unknown[0])}")
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in needed if name not in plain]
    if missing:
        raise _Unfit(f"{missing[0]!r} is missing")
    values = {name: _inside(name, kinds[name], value, depth) for name, value in plain.items()}
    return kind(**values)


def _inside(name: str, kind: Any, plain: Any, depth: int) -> Any:
    try:
        return _build(kind, plain, depth + 1)
    except _Unfit as unfit:
        raise _Unfit(unfit.reason, (name, *unfit.path)) from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
