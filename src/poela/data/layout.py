"""Which column of a log plays which part."""

import difflib
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError

if TYPE_CHECKING:
    from poela.data.trajectories import ActionName, Trajectories

PREFIX = "propensity_"


@dataclass(frozen=True)
class LogLayout:
    """The parts that columns play in a log; what is None is found by the default names.

    `propensity` is one column (the probability of the logged action), or a column for each action, in the order of
    `actions`, or a mapping from action to column. Columns called propensity_<action> declare their actions.

    >>> LogLayout(episode="stay").resolve(["stay", "step", "age", "action", "reward", "propensity"]).context
    ('age',)
    """

    episode: str = "episode"
    step: str = "step"
    action: str = "action"
    reward: str = "reward"
    context: tuple[str, ...] | None = None
    propensity: str | tuple[str, ...] | None = None
    actions: "tuple[ActionName, ...] | None" = None

    def __post_init__(self) -> None:
        propensity: Any = self.propensity
        actions = _plain(self.actions)
        if isinstance(propensity, Mapping):
            actions = _plain(propensity) if actions is None else actions
            if set(actions or ()) != set(propensity):
                raise InputError("propensity and actions name different actions: give a column for each action")
            propensity = [propensity[name] for name in actions or ()]
        kept = {
            "context": _plain(self.context),
            "propensity": propensity if isinstance(propensity, str) else _plain(propensity),
            "actions": actions,
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        problems = _type_problems(self)
        if problems:
            raise InputError(problems)

    def resolve(self, columns: Sequence[str]) -> "LogLayout":
        """The layout with its context and propensity columns named, found in a table with these columns."""
        propensity = self.propensity
        if propensity is None:
            every = tuple(name for name in columns if name.startswith(PREFIX) and name not in (self.context or ()))
            if every and self.actions is not None:
                every = tuple(f"{PREFIX}{name}" for name in self.actions)
            propensity = every or ("propensity" if "propensity" in columns else None)
        taken = {self.episode, self.step, self.action, self.reward, "propensity"}
        taken |= set((propensity,) if isinstance(propensity, str) else propensity or ())
        rest = tuple(name for name in dict.fromkeys(columns) if name not in taken and not name.startswith(PREFIX))
        return replace(self, propensity=propensity, context=rest if self.context is None else self.context)

    def propensity_columns(self) -> tuple[str, ...]:
        """The propensity columns, none, one or many."""
        return (self.propensity,) if isinstance(self.propensity, str) else self.propensity or ()

    def labels_of_propensities(self) -> tuple[str, ...] | None:
        """The actions, as text, that columns called propensity_<action> declare."""
        columns = self.propensity
        if not isinstance(columns, tuple) or not all(name.startswith(PREFIX) for name in columns):
            return None
        return tuple(name.removeprefix(PREFIX) for name in columns)

    def problems(self, columns: Sequence[str]) -> list[str]:
        """What keeps a table with these columns from being read, each as one sentence."""
        repeated = [f"column {name!r} occurs {n} times: rename it" for name, n in Counter(columns).items() if n > 1]
        resolved = self.resolve(columns)
        problems = repeated + _missing(resolved, columns) + _clashes(resolved)
        unused = set(columns) - set(resolved.propensity_columns()) - set(self.context or ())
        extra = [name for name in columns if name in unused and (name.startswith(PREFIX) or name == "propensity")]
        if self.propensity is None and extra:
            problems.append(
                f"{quoted(extra)} could be propensities too, beside {quoted(resolved.propensity_columns())}: "
                "say with propensity= which to use, or declare those actions"
            )
        if self.context is None and "" in columns:
            problems.append("a column has no name (a saved index?): drop it, or name the context columns")
        return problems

    def fixed(self, logs: "Trajectories") -> "LogLayout":
        """The layout with the context order and actions of these logs, to read other logs into the same shape.

        >>> from poela.data.trajectories import Trajectories
        >>> LogLayout().fixed(Trajectories([[0.5]], [1], [0], [0, 1], action_names=["a", "b"])).actions
        ('a', 'b')
        """
        return replace(self, context=logs.feature_names, actions=logs.action_names)

    def to_json(self) -> dict[str, Any]:
        """The layout as a JSON object."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, document: Any) -> "LogLayout":
        """The layout in a JSON object, checked.

        >>> LogLayout.from_json({"episode": "stay", "context": ["age"]}).context
        ('age',)
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(document, Mapping):
            raise InputError(f"a layout must be an object with some of the fields {', '.join(known)}")
        unknown = [str(name) for name in document if name not in known]
        if unknown:
            raise InputError(f"a layout has no field {quoted(unknown)}: its fields are {', '.join(known)}")
        return cls(**document)

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "LogLayout":
        """The layout in a small TOML file, whose keys are the fields of this class."""
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: check the path") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as TOML: {error}") from None
        return cls.from_json(document)


def quoted(names: Sequence[object]) -> str:
    """Columns or actions in words.

    >>> quoted(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _plain(values: Any) -> tuple[Any, ...] | None:
    """One name or several as a tuple of Python's own text and numbers, rather than NumPy's."""
    if values is None:
        return None
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in several)


def _type_problems(layout: LogLayout) -> list[str]:
    single = ("episode", "step", "action", "reward")
    problems = [f"{name}= must name a column" for name in single if not isinstance(getattr(layout, name), str)]
    for name in ("context", "propensity"):
        value = getattr(layout, name)
        if isinstance(value, tuple) and not all(isinstance(item, str) for item in value):
            problems.append(f"{name}= must name columns")
    actions = layout.actions or ()
    if not all(isinstance(item, str | int) for item in actions):
        problems.append("actions= must hold text, whole numbers or booleans")
    elif len(set(actions)) != len(actions):
        problems.append("actions= names an action twice: name each once")
    if layout.actions is not None and isinstance(layout.propensity, tuple) and len(layout.propensity) != len(actions):
        problems.append(
            f"{len(layout.propensity)} propensity columns stand for {len(actions)} actions: give one for each"
        )
    return problems


def _parts(layout: LogLayout) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("episode", (layout.episode,)),
        ("step", (layout.step,)),
        ("action", (layout.action,)),
        ("reward", (layout.reward,)),
        ("propensity", layout.propensity_columns()),
        ("context", layout.context or ()),
    ]


def _missing(layout: LogLayout, columns: Sequence[str]) -> list[str]:
    problems = []
    for part, names in _parts(layout):
        missing = [name for name in names if name not in columns]
        if missing:
            near = difflib.get_close_matches(missing[0], columns, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            subject = f"column {missing[0]!r} is" if len(missing) == 1 else f"columns {quoted(missing)} are"
            problems.append(f"{subject} missing{hint}: add it, or name another with {part}=")
    return problems


def _clashes(layout: LogLayout) -> list[str]:
    """Columns with two parts; only the step may also be a feature, since it is known before the action."""
    parts: dict[str, list[str]] = {}
    for part, names in _parts(layout):
        for name in names:
            parts.setdefault(name, []).append(part)
    return [
        f"column {name!r} is named as {' and as '.join(named)}: name it once"
        for name, named in parts.items()
        if len(named) > 1 and named != ["step", "context"]
    ]
