"""Plain values checked against the types that dataclasses declare: settings as people type them, records from files.

A type may carry a range: `Count = Annotated[int, Range(least=1)]`. `problems_in(settings)` lists what is wrong with a
dataclass's values, `from_plain` builds a dataclass from what JSON or TOML hold, and `to_plain` is its inverse.
"""

import math
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from poela.core.errors import InputError
from poela.core.kinds import Check as Check
from poela.core.kinds import Count as Count
from poela.core.kinds import Discount as Discount
from poela.core.kinds import Level as Level
from poela.core.kinds import NonNegative as NonNegative
from poela.core.kinds import Positive as Positive
from poela.core.kinds import Range as Range
from poela.core.kinds import Seed as Seed
from poela.core.kinds import Share as Share
from poela.core.kinds import Unknowable as Unknowable
from poela.core.kinds import Unknown, is_number, problem_of
from poela.core.kinds import Whole as Whole
from poela.core.kinds import named_in as named_in
from poela.core.kinds import one_of as one_of
from poela.core.kinds import shown as shown

T = TypeVar("T")
DEEPEST = 30  # dataclasses within dataclasses
LONGEST = 200_000  # entries of a list


def problems_in(settings: Any) -> list[str]:
    """One sentence for each field of a dataclass whose value does not fit its type.

    >>> from dataclasses import dataclass
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
        if (problem := problem_of(kind, getattr(settings, name))) is not None
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


def from_plain(kind: type[T], plain: Any, where: str) -> T:
    """The dataclass that a JSON object describes; what does not fit is named, `where` first.

    Fields may be missing where they have a default; unknown fields are refused.

    >>> from dataclasses import dataclass
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
    readings = [value]
    if isinstance(value, str):
        readings += [{"true": True, "false": False, "none": None}.get(value.strip().lower(), value)]
        for number in (int, float):
            with suppress(ValueError):
                readings.append(number(value))
    fitting = [one for one in readings if problem_of(kind, one) is None]
    if not fitting:
        raise InputError(f"{name} is {shown(value)}: {problem_of(kind, value)}")
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


def _build(kind: Any, plain: Any, depth: int) -> Any:
    """The value of this kind that plain JSON stands for."""
    if depth > DEEPEST:
        raise _Unfit("it is nested too deeply")
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return plain
    if origin is Annotated and not any(isinstance(demand, Check | Range | Unknown) for demand in arguments[1:]):
        return _build(arguments[0], plain, depth)  # what is annotated is for people
    if hasattr(kind, "from_json"):
        return kind.from_json(plain)  # a class that checks for itself
    if is_dataclass(kind) and isinstance(kind, type):
        return _build_dataclass(kind, plain, depth)
    if origin in (Union, types.UnionType):
        return _build_union(arguments, plain, depth)
    if origin in (tuple, dict, Mapping) or _is_array(origin):
        return _build_several(origin, arguments, plain, depth)
    if origin is Annotated and plain is None and any(isinstance(demand, Unknown) for demand in arguments[1:]):
        return math.nan
    problem = problem_of(kind, plain)
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

    if not isinstance(plain, list) or not all(value is None or is_number(value) for value in plain):
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
