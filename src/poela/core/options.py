"""Settings that people give by name: each field of a dataclass says once what it is, in words and how text is read.

The same fields are the keywords of a library call, the flags of a command and the settings in a document. Nothing here
imports more than Python: the command line's help is made of it.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from poela.core.errors import InputError

# Settings by name, as scikit-learn's tools ask for them: `sklearn.base.clone` and grids of parameters work.

S = TypeVar("S", bound="HasParams")


class HasParams:
    """Gives `get_params`, `set_params` and a short `repr` to classes whose settings are what they are made with.

    >>> class Power(HasParams):
    ...     def __init__(self, power=2.0):
    ...         self.power = power
    >>> Power().set_params(power=3.0)
    Power(power=3.0)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by its name; with `deep`, those of settings that have settings too, as `rule__radius`."""
        params = {name: getattr(self, name) for name in _names(type(self))}
        if deep:
            inner = [(name, value) for name, value in params.items() if _has_params(value)]
            for name, value in inner:
                params |= {f"{name}__{key}": own for key, own in value.get_params().items()}
        return params

    def set_params(self: S, **params: Any) -> S:
        """With other settings: a frozen object stays as it is, so use what is returned."""
        own = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in own:
                raise InputError(f"{type(self).__name__} has no setting {name!r}: it has {', '.join(sorted(own))}")
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                own[name] = value
        for name, settings in inner.items():
            if not _has_params(own[name]):
                raise InputError(f"{name} of {type(self).__name__} has no settings of its own")
            own[name] = own[name].set_params(**settings)
        return type(self)(**own)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(type(self)) if _differs(self, name))
        return f"{type(self).__name__}({said})"


def _has_params(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _names(kind: Any) -> list[str]:
    if is_dataclass(kind):
        return [item.name for item in fields(kind) if item.init]
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _differs(thing: Any, name: str) -> bool:
    """Whether a setting is another than its default, so that it is worth saying."""
    default = inspect.signature(type(thing)).parameters[name].default
    value = getattr(thing, name, default)
    return value is not default and not (type(value) is type(default) and repr(value) == repr(default))


F = TypeVar("F", bound=Callable[..., Any])

# Sections of the help of `poela learn`.
EPISODES, TRYING, CHOOSING, RUNNING = "Validation", "Learning", "Choosing the policy", "Running"
REPORTING = "Reporting"


@dataclass(frozen=True)
class Option:
    """What people read about a setting: a sentence, and the section of the help that it stands in.

    `name` is for those who give it, where the field has another, and `flag` what a command line calls it, where that is
    not its name; `read` makes a value of what a command line gives; `kind` is what the command line asks for, where
    that is not text to be read or the field's own type; `takes` is what the library takes, where that is more, as its
    signature says it. An option that is `open` has no default of its own: what stands for it depends on other settings.
    """

    help: str
    section: str | None = None
    name: str | None = None
    read: Callable[[str], Any] | None = None
    kind: Any = None
    open: bool = False
    flag: str | None = None
    takes: str | None = None


@dataclass(frozen=True)
class OptionSpec:
    """An option as it is offered: its name, the field behind it, what the command line asks for, and its default."""

    name: str
    field: str
    option: Option
    kind: Any
    default: Any


def options_of(settings: Any) -> dict[str, OptionSpec]:
    """The options among the fields of a dataclass, by name; an instance says what their defaults are.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     steps: Annotated[int, Option("How often.")] = 5
    ...     secret: int = 0
    >>> [(one.name, one.kind, one.default) for one in options_of(Settings(steps=9)).values()]
    [('steps', <class 'int'>, 9)]
    """
    owner = settings if isinstance(settings, type) else type(settings)
    hints = get_type_hints(owner, include_extras=True)
    offered = {}
    for field in fields(owner):
        option = next((item for item in _metadata(hints[field.name]) if isinstance(item, Option)), None)
        if option is not None:
            default = field.default if settings is owner else getattr(settings, field.name)
            default = None if option.open or default is MISSING else default
            kind = option.kind or (str if option.read else _plain(hints[field.name]))
            name = option.name or field.name
            offered[name] = OptionSpec(name, field.name, option, kind if default is not None else kind | None, default)
    return offered


def apply_options(settings: Any, values: dict[str, Any]) -> Any:
    """The same settings with those that are given by name, which are taken out of `values`.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     steps: Annotated[int, Option("How often.")] = 5
    >>> apply_options(Settings(), {"steps": 9})
    Settings(steps=9)
    """
    offered = options_of(settings)
    return replace(settings, **{offered[name].field: values.pop(name) for name in offered if name in values})


def read_from_text(groups: Sequence[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What a command line gave for the options of these groups; what was not said is left out.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     sizes: Annotated[tuple[str, ...], Option("Which.", read=names_in)] = ()
    >>> read_from_text([Settings()], {"sizes": "a,b", "steps": None})
    {'sizes': ('a', 'b')}
    """
    readers = {name: offer.option.read for group in groups for name, offer in options_of(group).items()}
    said = {name: value for name, value in values.items() if value is not None}
    return {name: reader(value) if (reader := readers.get(name)) else value for name, value in said.items()}


def with_options(
    *groups: Any, annotate: Callable[[OptionSpec], Any] | None = None, only: Collection[str] | None = None
) -> Callable[[F], F]:
    """A function that takes `**settings`, with the options of these groups (or some of them) in their place.

    A parameter that the function names itself stays as it is.
    """

    def decorated(function: F) -> F:
        named = inspect.signature(function).parameters
        offered = [one for group in groups for name, one in options_of(group).items() if name not in named]
        offered = [one for one in offered if only is None or one.name in only]
        if annotate is None:  # for those who read `help`; a command line has a help of its own
            function.__doc__ = described(function.__doc__ or "", offered)
        return with_keywords(
            function,
            {one.name: (annotate(one) if annotate else one.option.takes or one.kind, one.default) for one in offered},
        )

    return decorated


def described(text: str, offered: Sequence[OptionSpec]) -> str:
    """A docstring whose `Args` say what these options are; without `Args` it stays as it is.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     steps: Annotated[int, Option("How often, see --time.")] = 5
    >>> text = "Learn.\\n\\nArgs:\\n    logs: What was done.\\n\\nAnd so on."
    >>> print(described(text, [*options_of(Settings).values()]))
    Learn.
    <BLANKLINE>
    Args:
        logs: What was done.
        steps: How often, see `time`. Default: 5.
    <BLANKLINE>
    And so on.
    """
    block = re.search(r"(?ms)^( *)Args:\n.+?\n(?=\n|\Z)", text)
    if block is None:
        return text
    margin = block[1] + " " * 4
    fill = partial(textwrap.fill, width=118, initial_indent=margin, subsequent_indent=margin + " " * 4)
    told = (f"{one.name}: {in_python(one.option.help)}{_default_words(one)}" for one in offered)
    lines = "".join(f"{fill(one, break_on_hyphens=False)}\n" for one in told)
    return text[: block.end()] + lines + text[block.end() :]


def in_python(text: str) -> str:
    """Help of a command line with names as the library has them.

    >>> in_python("As with --min-ess.")
    'As with `min_ess`.'
    """
    return re.sub(r"`?--([a-z][a-z-]*[a-z])`?", lambda flag: f"`{flag[1].replace('-', '_')}`", " ".join(text.split()))


def _default_words(one: OptionSpec) -> str:
    said = one.default is None or one.default in ((), "") or "default" in one.option.help.lower()
    return "" if said else f" Default: {one.default!r}."


def with_fields(*kinds: type, **takes: str) -> Callable[[F], F]:
    """A function that takes `**settings`, with the fields of these dataclasses in their place.

    `takes` are the types of those of which more is taken than the field holds.

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     steps: int = 5
    >>> @with_fields(Settings)
    ... def made(name: str, **settings: Any) -> str: ...
    >>> inspect.signature(made)
    <Signature (name: str, *, steps: int = 5) -> str>
    """

    def decorated(function: F) -> F:
        named = inspect.signature(function).parameters
        every = [(field, get_type_hints(kind)[field.name]) for kind in kinds for field in fields(kind) if field.init]
        known = {field.name: (_taken(hint), _default(field)) for field, hint in every if field.name not in named}
        return with_keywords(function, known | {name: (kind, known[name][1]) for name, kind in takes.items()})

    return decorated


def _taken(hint: Any) -> Any:
    """What the library takes for a field of this type."""
    options = [item for item in _metadata(hint) if isinstance(item, Option)]
    return options[0].takes if options and options[0].takes else hint


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def with_keywords(function: F, keywords: Mapping[str, tuple[Any, Any]]) -> F:
    """A function that takes `**settings`, with these keywords (annotation, default) in its signature instead."""
    signature = inspect.signature(function)
    own = [item for item in signature.parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in keywords.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return function


def refuse_unknown(values: Mapping[str, Any], known: Collection[str]) -> None:
    """One sentence for names that nothing takes."""
    if values:
        names = ", ".join(map(repr, values))
        raise InputError(f"there is no setting {names}: choose from {', '.join(sorted(known))}")


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas.

    >>> names_in("age, sofa")
    ('age', 'sofa')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_in(flag: str, text: str) -> tuple[float, ...]:
    """The numbers in a list with commas.

    >>> numbers_in("--shares", "0.5, 0.3,0.2")
    (0.5, 0.3, 0.2)
    """
    try:
        return tuple(map(float, names_in(text)))
    except ValueError:
        raise InputError(f"{flag} {text} must be numbers separated by commas") from None


def _metadata(kind: Any) -> tuple[Any, ...]:
    """What is annotated, also within `X | None`."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[1:]
    return tuple(item for option in get_args(kind) for item in _metadata(option))


def _plain(kind: Any) -> Any:
    """The type without what is annotated and without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    options = [_plain(option) for option in get_args(kind) if option is not type(None)]
    return options[0] if options else kind
