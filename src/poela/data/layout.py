"""Which column of a log plays which part."""

import codecs
import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.paths import place, regular_file
from poela.data.header import is_header
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    from poela.data.trajectories import ActionName, Trajectories

PREFIX = "propensity_"
# Encodings of single names or of Python's source, which no file of text is written in.
NO_FILES = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
MANY_COLUMNS, LONG_COLUMN = 1000, 100  # beyond these, a search for similar names takes too long


@dataclass(frozen=True)
class LogLayout:
    """The parts that columns play in a log; what is None is found by the default names.

    `propensity` is one column (the probability of the logged action), or a column for each action, in the order of
    `actions`, or a mapping from action to column. Columns called propensity_<action> declare their actions.
    `cluster` is the column of what episodes belong to, such as a patient with several stays; None: no clusters.
    `separator`, `decimal` and `encoding` say how a CSV file is written; other files know it themselves.

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
    cluster: str | None = None
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

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
        problems = _type_problems(self) + _format_problems(self)
        if problems:
            raise InputError(problems)

    def resolve(self, columns: Sequence[str]) -> "LogLayout":
        """The layout with its context and propensity columns named, found in a table with these columns."""
        propensity = self.propensity
        if propensity is None:
            features = set(self.context or ())
            every = tuple(name for name in columns if name.startswith(PREFIX) and name not in features)
            if every and self.actions is not None:
                every = tuple(f"{PREFIX}{name}" for name in self.actions)
            propensity = every or ("propensity" if "propensity" in columns else None)
        taken = {self.episode, self.step, self.action, self.reward, self.cluster, "propensity"}
        taken |= set((propensity,) if isinstance(propensity, str) else propensity or ())
        rest = tuple(name for name in dict.fromkeys(columns) if name not in taken and not name.startswith(PREFIX))
        return replace(self, propensity=propensity, context=rest if self.context is None else self.context)

    def names(self, column: str) -> bool:
        """Whether this column is given a part by name."""
        return any(column in names for _, names in _parts(self))

    def propensity_columns(self) -> tuple[str, ...]:
        """The propensity columns, none, one or many."""
        return (self.propensity,) if isinstance(self.propensity, str) else self.propensity or ()

    def labels_of_propensities(self) -> tuple[str, ...] | None:
        """The actions, as text, that columns called propensity_<action> declare."""
        columns = self.propensity
        if not isinstance(columns, tuple) or not all(name.startswith(PREFIX) for name in columns):
            return None
        return tuple(name.removeprefix(PREFIX) for name in columns)

    def recognises(self, columns: Sequence[str]) -> bool:
        """Whether these are names of columns, and not the first row of a file without a header."""
        return is_header(columns, (self.episode, self.step, self.action, self.reward))

    def problems(self, columns: Sequence[str]) -> list[str]:
        """What keeps a table with these columns from being read, each as one sentence."""
        if not self.recognises(columns):
            return _unrecognised(self, columns)
        repeated = [
            f"column {quoted(name)} occurs {n} times: rename it" for name, n in Counter(columns).items() if n > 1
        ]
        resolved = self.resolve(columns)
        by_action = self.propensity is None and self.actions is not None
        problems = repeated + _missing(resolved, columns, by_action=by_action) + _clashes(resolved)
        there, used = set(columns), resolved.propensity_columns()
        unused = there - set(used) - set(self.context or ())
        extra = [name for name in columns if name in unused and (name.startswith(PREFIX) or name == "propensity")]
        if self.propensity is None and extra:
            named = [name for name in used if name in there]
            beside = f", beside {quoted(named)}" if named else ""
            problems.append(
                f"{quoted(extra)} could be propensities too{beside}: "
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
            document = tomllib.loads(regular_file(path).read_text(encoding="utf-8"))
        except PermissionError:
            raise InputError(f"{place(path)} may not be read: ask for permission") from None
        except (OSError, ValueError) as error:
            # The rest of the error may quote the file, which may be a log that was named by mistake.
            found = re.search(r"line \d+, column \d+", str(error))
            where = f": {found.group()} is not as it should be" if found else ": it is no text in UTF-8"
            raise InputError(
                f'{place(path)} cannot be read as TOML{where}; write lines like episode = "stay"'
            ) from None
        return cls.from_json(document)


def _plain(values: Any) -> tuple[Any, ...] | None:
    """One name or several as a tuple of Python's own text and numbers, rather than NumPy's."""
    if values is None:
        return None
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in several)


def _type_problems(layout: LogLayout) -> list[str]:
    single: tuple[str, ...] = ("episode", "step", "action", "reward")
    single += () if layout.cluster is None else ("cluster",)
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


def _format_problems(layout: LogLayout) -> list[str]:
    problems = []
    separator: Any = layout.separator
    if not isinstance(separator, str) or not re.fullmatch(r"[ -~\t]", separator) or re.match(r'[\w".+-]', separator):
        problems.append("separator= must be one character between cells, such as ';' or a tab")
    if layout.decimal not in (".", ","):
        problems.append("decimal= must be '.' or ','")
    try:
        "episode,1\n".encode(layout.encoding)
        codecs.getincrementaldecoder(layout.encoding)
        if codecs.lookup(layout.encoding).name in NO_FILES:
            raise LookupError
    except (LookupError, TypeError, ValueError):
        problems.append("encoding= must name an encoding of text, such as 'utf-8', 'latin-1' or 'utf-16'")
    return problems


def _parts(layout: LogLayout) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("episode", (layout.episode,)),
        ("step", (layout.step,)),
        ("action", (layout.action,)),
        ("reward", (layout.reward,)),
        ("cluster", () if layout.cluster is None else (layout.cluster,)),
        ("propensity", layout.propensity_columns()),
        ("context", layout.context or ()),
    ]


def _unrecognised(layout: LogLayout, columns: Sequence[str]) -> list[str]:
    """What is missing where the columns may be data, so that none of them is quoted."""
    parts = (layout.episode, layout.step, layout.action, layout.reward)
    if set(columns).isdisjoint(parts):
        return [
            f"none of the columns {quoted(parts)} is there: name the columns that play these parts with episode=, "
            "step=, action= and reward=, or add a header row if there is none"
        ]
    return _missing(layout, columns, similar=False)


def _missing(layout: LogLayout, columns: Sequence[str], similar: bool = True, by_action: bool = False) -> list[str]:
    """A sentence for each part whose columns are not there; `by_action`: propensity columns are called by actions."""
    there = set(columns)
    candidates = [name for name in columns if len(name) < LONG_COLUMN][:MANY_COLUMNS] if similar else []
    problems = []
    for part, names in _parts(layout):
        missing = [name for name in names if name not in there]
        if missing and part == "propensity" and by_action:  # the actions may be cells of another log
            share = f"{len(missing)} of {counted(len(names), 'action')}"
            problems.append(
                f"columns propensity_<action> are missing for {share}: add them, or name others with {part}="
            )
        elif missing:
            near = difflib.get_close_matches(missing[0], candidates, n=1)
            hint = f" (did you mean {quoted(near)}?)" if near else ""
            subject = f"column {quoted(missing)} is" if len(missing) == 1 else f"columns {quoted(missing)} are"
            problems.append(f"{subject} missing{hint}: add it, or name another with {part}=")
    return problems


def _clashes(layout: LogLayout) -> list[str]:
    """Columns with two parts; only the step may also be a feature, since it is known before the action."""
    parts: dict[str, list[str]] = {}
    for part, names in _parts(layout):
        for name in names:
            parts.setdefault(name, []).append(part)
    return [
        f"column {quoted(name)} is named as {' and as '.join(named[:3])}: name it once"
        for name, named in parts.items()
        if len(named) > 1 and named != ["step", "context"]
    ]
