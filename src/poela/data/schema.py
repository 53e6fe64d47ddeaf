"""How the columns of a table become the features of contexts, learned once from a log and kept with the policy."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from poela.core.errors import InputError
from poela.core.typed import from_plain, one_of, refuse_problems, to_plain
from poela.data.limits import Limits

Kind = Annotated[str, one_of("number", "category", "ordinal", "time", "duration")]
MOST_CATEGORIES = 100  # of one column; more are names or free text


@dataclass(frozen=True)
class Variable:
    """A column of the table and the features that it becomes.

    A number (truth values are 0 and 1) is a feature as it is, a category one feature 0/1 for each value of the log, an
    ordinal its place in the given order, a time or a duration a number of days. Where the log had gaps, `fill` (the
    median) stands for them, and a further feature 0/1 says so.

    >>> Variable("ward", "category", categories=("ICU", "surgery"), indicated=True).features
    ('ward=ICU', 'ward=surgery', 'ward missing')
    """

    name: str
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    indicated: bool = False  # a feature of its own says where the value is missing
    fill: float = 0.0
    carried: bool = False  # a gap takes the last value of its episode, if there is one

    def __post_init__(self) -> None:
        refuse_problems(self)
        if len(set(self.categories)) < len(self.categories):
            raise InputError("categories of a variable repeat")
        if bool(self.categories) != (self.kind in ("category", "ordinal")):
            raise InputError(f"a variable of kind {self.kind} has {len(self.categories)} categories")

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        missing = (f"{self.name} missing",) if self.indicated else ()
        if self.kind == "category":
            return (*(f"{self.name}={category}" for category in self.categories), *missing)
        return (f"{self.name} days" if self.kind in ("time", "duration") else self.name, *missing)

    @property
    def is_plain(self) -> bool:
        """Whether it is a number that is taken as it is, without gaps."""
        return self.kind == "number" and not self.indicated and not self.carried


@dataclass(frozen=True)
class TableSchema:
    """The variables of a log, and what its other columns are called; later tables are read by it.

    Times count from the first of their episode or, with an `origin` (such as 2020-01-01), from there.

    >>> schema = TableSchema((Variable("age"), Variable("ward", "category", ("ICU", "surgery"))), episode="stay")
    >>> schema.feature_names
    ('age', 'ward=ICU', 'ward=surgery')
    >>> TableSchema.from_json(schema.to_json()) == schema
    True
    """

    variables: tuple[Variable, ...]
    episode: str | None = None
    step: str | None = None
    action: str = "action"
    origin: str | None = None
    pace: tuple[float, float] | None = None  # the first step of every episode and the distance to the next, if regular
    limits: Limits | None = None  # actions that are forbidden in some rows, with a feature for each after the others

    def __post_init__(self) -> None:
        refuse_problems(self)
        repeated = [name for name, n in Counter(self.feature_names).items() if n > 1]
        if repeated:
            columns = [variable.name for variable in self.variables if set(variable.features) & set(repeated)]
            raise InputError(f"columns {', '.join(map(repr, columns[:3]))} give features of one name: rename one")

    @classmethod
    def plain(cls, feature_names: tuple[str, ...]) -> "TableSchema":
        """Of features that are numbers, each in a column of its name."""
        return cls(tuple(map(Variable, feature_names)), episode="episode", step="step")

    @cached_property
    def context(self) -> tuple[str, ...]:
        """The columns of the context."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read: those of the context, and what limits ask about."""
        return tuple(dict.fromkeys((*self.context, *(() if self.limits is None else self.limits.columns))))

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The features, in the order of the columns; those of limits come last."""
        limited = () if self.limits is None else self.limits.features
        return (*(name for variable in self.variables for name in variable.features), *limited)

    @property
    def asked(self) -> tuple[Variable, ...]:
        """What must be known of a case: the variables, and the columns that limits alone ask about."""
        if self.limits is None:
            return self.variables
        own = {variable.name for variable in self.variables}
        kinds = {"text": "category", "flag": "category", "time": "time", "number": "number"}
        columns = [(one.name, kinds[one.kind]) for one in self.limits.asked if one.name not in own]
        examples = {name: texts for rule in self.limits.forbidden for name, texts in rule.condition.texts.items()}
        if self.limits.allowed is not None:
            columns.append((self.limits.allowed, "category"))
            examples[self.limits.allowed] = (";".join(self.limits.actions),)
        return (*self.variables, *(_asked(name, kind, examples.get(name, ("yes", "no"))) for name, kind in columns))

    @property
    def is_plain(self) -> bool:
        """Whether contexts are the columns as they are."""
        return self.limits is None and all(variable.is_plain for variable in self.variables)

    @property
    def follows_episodes(self) -> bool:
        """Whether a row's features depend on earlier rows of its episode."""
        times = self.origin is None and any(variable.kind == "time" for variable in self.variables)
        return times or any(variable.carried for variable in self.variables)

    def without(self, columns: set[str]) -> "TableSchema":
        """The same without some columns."""
        return replace(self, variables=tuple(v for v in self.variables if v.name not in columns))

    def to_json(self) -> dict[str, Any]:
        """The schema as a JSON object; what is as usual is left out of variables."""
        return {
            "variables": [
                {key: to_plain(value) for key, value in vars(variable).items() if _is_said(key, value)}
                for variable in self.variables
            ],
            **{name: getattr(self, name) for name in ("episode", "step", "action", "origin")},
            **({} if self.pace is None else {"pace": list(self.pace)}),  # which older files do not have
            **({} if self.limits is None else {"limits": to_plain(self.limits)}),
        }

    @classmethod
    def from_json(cls, document: Any) -> "TableSchema":
        """The schema in a JSON object, checked."""
        return _Document.schema(document)


def _asked(name: str, kind: str, examples: tuple[str, ...]) -> Variable:
    """A column that a case may leave empty."""
    return Variable(name, kind, tuple(dict.fromkeys(examples)) if kind == "category" else (), indicated=True)


def _is_said(key: str, value: Any) -> bool:
    """Whether a field of a variable differs from the usual; what is worked out from fields is none."""
    return key in Variable.__dataclass_fields__ and value != Variable.__dataclass_fields__[key].default


@dataclass(frozen=True)
class _Document:
    """The same fields as a plain dataclass, so that `from_plain` checks them without asking `from_json` again."""

    variables: tuple[Variable, ...]
    episode: str | None = None
    step: str | None = None
    action: str = "action"
    origin: str | None = None
    pace: tuple[float, float] | None = None
    limits: Limits | None = None

    @staticmethod
    def schema(document: Any) -> TableSchema:
        return TableSchema(**vars(from_plain(_Document, document, "the schema")))
