"""Which column of a log plays which part."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.paths import place, regular_file
from poela.data.action_space import DENSITY as DENSITY
from poela.data.action_space import PREFIX as PREFIX
from poela.data.action_space import PROPENSITY, ActionName, ActionSpace, said_space
from poela.data.decided import not_context
from poela.data.header import is_header, spelling
from poela.data.layout_problems import (
    clashes,
    format_problems,
    missing_columns,
    parts_of,
    schema_problems,
    type_problems,
    unrecognised,
)
from poela.data.limits import Forbidden
from poela.data.propensity_columns import refuse_contradiction, refuse_unpaired
from poela.data.rewards import RewardFormula, columns_paid_in, reward_formula
from poela.data.schema import TableSchema
from poela.data.words import quoted

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

# Values of a layout as people and files give them, in one form.


def toml_problem(error: Exception) -> str:
    """What keeps a file from being TOML, and where, without any of its words."""
    if not isinstance(error, tomllib.TOMLDecodeError):
        return "it is no text in UTF-8"
    found = re.search(r"line \d+, column \d+", str(error))
    where = found.group() if found else "its last line"
    twice = re.match("Cannot overwrite|Cannot declare|Cannot mutate|Duplicate", str(error))
    return f"{where} gives a key a second time" if twice else f"{where} is not as it should be"


def plain_tuple(values: Any) -> tuple[Any, ...] | None:
    """One name or several as a tuple of Python's own text and numbers, rather than NumPy's."""
    if values is None:
        return None
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    return tuple(value.item() if hasattr(value, "item") else value for value in several)


def pairs_of(orders: Any) -> Any:
    """A mapping from names to orders as pairs, which can be compared and hashed."""
    if not isinstance(orders, Mapping):
        return orders
    return tuple((name, plain_tuple(order)) for name, order in orders.items())


CENSORED = "censored"
EPISODE, STEP, ROWS = "episode", "step", "rows"
# Fields that files of earlier versions do not have; they are written only where something is said.
LATER = (
    *("missing", "category", "ordinal", "origin", "schema", "log_density", "side_outcomes"),
    *("censored", "end", "horizon", "wide", "allowed", "forbid"),
)


@dataclass(frozen=True)
class LogLayout:
    """The parts that columns play in a log; what is None is found by the default names.

    `propensity` is one column (the probability of the logged action), or a column for each action, found by its name
    (p_<action>, or what else is the same for all), or a mapping from action to column, or columns whose names do not
    tell and `actions` in the same order. Columns called propensity_<action> declare their actions.
    `cluster` is the column of what episodes belong to, such as a patient with several stays; None: no clusters.
    Several `action` columns, or one with a `log_density`, are real numbers, such as doses.
    `separator`, `decimal` and `encoding` say how a CSV file is written; other files know it themselves.

    Without an `episode` every row is an episode; the step "rows" takes rows as they stand. `reward` is a column, or a
    formula such as "survived - 0.01*cost". `missing` says what becomes of gaps in the context: "indicator" (the median,
    and a feature that says so), "carry-forward" (the last value of the episode; else the same) or "refuse". `category`
    names number columns that are codes, `ordinal` gives the order of text: {"severity": ["low", "high"]}. Times count
    from the first of their episode, or from `origin` (a date). `schema` holds what a log has taught about its columns.
    `side_outcomes` are columns (or formulas) with further outcomes beside the reward, such as harms.

    `censored` is the column that says which records broke off before their outcome was seen; with "censored" in
    `missing` ("censored", or "carry-forward,censored") an outcome that is missing at the end says so too. `end` is the
    column that says where an episode ended: rows after that are left out, and so are those after the `horizon`, a step
    or, of dates, so many days after the first. `wide` are columns by visit of a table with one row for each case:
    ("dose_{visit}", "pressure_{visit}"). `allowed` is the column of the actions that are open to a case ("wait;treat"),
    `forbid` says where an action is forbidden: ("penicillin if allergy == 'yes'",).

    >>> LogLayout(episode="stay").resolve(["stay", "step", "age", "action", "reward", "propensity"]).context
    ('age',)
    """

    episode: str | None = EPISODE  # column of what a decision belongs to; None: each row is an episode
    step: str | None = STEP  # column of their order; "rows": as they stand
    action: str | tuple[str, ...] = "action"  # column of what was done; several: real numbers
    reward: str = "reward"  # column of what came of it, or a formula
    context: tuple[str, ...] | None = None  # columns of what was known; None: all that play no other part
    propensity: str | tuple[str, ...] | None = None  # column, or one for each action; None: not logged
    actions: tuple[ActionName, ...] | None = None  # names, in the order of `propensity`; None: as found
    cluster: str | None = None  # column of what episodes belong to
    separator: str = ","  # of a CSV file
    decimal: str = "."  # mark of a CSV file
    encoding: str = "utf-8"  # of a CSV file
    missing: str = "indicator"  # gaps: "indicator", "carry-forward", "refuse", "censored"
    category: tuple[str, ...] = ()  # number columns that are codes
    ordinal: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the order of text columns
    origin: str | None = None  # date that times count from; None: the first of the episode
    schema: TableSchema | None = None  # what an earlier log taught about its columns
    log_density: str | None = None  # column of the logged action's log density
    side_outcomes: tuple[str, ...] = ()  # columns or formulas beside the reward, such as harms
    censored: str | None = None  # column that says which records broke off
    end: str | None = None  # column that says where an episode ended
    horizon: float | None = None  # last step (or days) that counts
    wide: tuple[str, ...] = ()  # columns by visit of a wide table, such as "dose_{visit}"
    allowed: str | None = None  # column of the actions open to a case
    forbid: tuple[str, ...] = ()  # such as "penicillin if allergy == 'yes'"

    def __post_init__(self) -> None:
        propensity: Any = self.propensity
        action: Any = self.action
        if not isinstance(action, str) or self.log_density is not None:
            object.__setattr__(self, "action", plain_tuple(action) or ())
        actions = plain_tuple(self.actions)
        if isinstance(propensity, Mapping):
            actions = plain_tuple(propensity) if actions is None else actions
            if set(actions or ()) != set(propensity):
                raise InputError("propensity and actions name different actions: give a column for each action")
            propensity = [propensity[name] for name in actions or ()]
            refuse_contradiction(list(map(str, propensity)), actions or ())
        checked = {
            "context": plain_tuple(self.context),
            "propensity": propensity if isinstance(propensity, str) else plain_tuple(propensity),
            "actions": actions,
            "category": plain_tuple(self.category) or (),
            "wide": plain_tuple(self.wide) or (),
            "forbid": plain_tuple(self.forbid) or (),
            "ordinal": pairs_of(self.ordinal),
            "side_outcomes": plain_tuple(self.side_outcomes) or (),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        schema: Any = self.schema
        if isinstance(schema, Mapping):
            object.__setattr__(self, "schema", TableSchema.from_json(schema))
        if problems := type_problems(self) + format_problems(self) + schema_problems(self):
            raise InputError(problems)

    @cached_property
    def formula(self) -> RewardFormula | None:
        """The formula that the reward is, unless it is the name of a column."""
        return reward_formula(self.reward)

    def reward_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that the reward is made of, in a table with these columns."""
        return columns_paid_in(self.reward, columns)

    def outcome_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that further outcomes are made of."""
        return tuple(dict.fromkeys(name for text in self.side_outcomes for name in columns_paid_in(text, columns)))

    @cached_property
    def forbid_columns(self) -> tuple[str, ...]:
        """The columns that conditions of `forbid` ask about."""
        return tuple(dict.fromkeys(name for text in self.forbid for name in Forbidden.of(text).condition.columns))

    @property
    def gaps(self) -> str:
        """What becomes of gaps in the context."""
        return next((part for part in self.missing.split(",") if part != CENSORED), "indicator")

    @property
    def loses_missing(self) -> bool:
        """Whether an outcome that is missing at the end was not seen, rather than wrong."""
        return CENSORED in self.missing.split(",")

    @property
    def action_space(self) -> ActionSpace:
        """What is said of actions: real numbers in named columns, or a finite set whose names a table may tell."""
        return said_space(self.action, self.actions or ())

    @property
    def action_columns(self) -> tuple[str, ...]:
        """The columns of the action: one, or several of real numbers."""
        return self.action if isinstance(self.action, tuple) else (self.action,)

    @property
    def keeps_row_order(self) -> bool:
        """Whether rows of an episode stand in its order."""
        return self.step is None or self.step == ROWS

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the episode and the step, where there are such."""
        step = None if self.keeps_row_order else self.step
        return tuple(name for name in (self.episode, step) if name is not None)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns whose values are names, however they look."""
        of_schema = [] if self.schema is None else [v.name for v in self.schema.asked if v.categories]
        labels = self.action_space.labels(self.action_columns)
        named = (self.episode, *labels, self.cluster, *self.category, *(name for name, _ in self.ordinal))
        return tuple(dict.fromkeys(name for name in (*named, *of_schema) if name is not None))

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The columns that may be times: the step, those that are known to be, and those that limits ask about."""
        known = [] if self.schema is None else [v.name for v in self.schema.variables if v.kind in ("time", "duration")]
        return tuple(name for name in (self.step, *known, *self.limiting_columns) if name is not None)

    @property
    def limiting_columns(self) -> tuple[str, ...]:
        """The columns that say what may not be done."""
        if self.schema is not None:
            return () if self.schema.limits is None else self.schema.limits.columns
        return (*self.forbid_columns, *(() if self.allowed is None else (self.allowed,)))

    def for_table(self, columns: Sequence[str]) -> "LogLayout":
        """The layout with episode and step as a table with these columns has them.

        Where neither is named or there, nor any column that is called almost so, every row is an episode.

        >>> LogLayout().for_table(["age", "action", "reward"]).key_columns
        ()
        """
        there = set(columns)
        if self.step == ROWS and ROWS in there:
            return self  # a column that is called so
        known = there & {*self.action_columns, *self.reward_columns(columns)}  # else it may have no header
        unnamed = (self.episode, self.step) == (EPISODE, STEP) and known
        alike = {EPISODE, "episodes", STEP, "steps"} & {spelling(name) for name in columns}
        one_step = self.episode is None or (unnamed and not alike)
        return replace(self, episode=None, step=None) if one_step and self.step is not None else self

    def resolve(self, columns: Sequence[str]) -> "LogLayout":
        """The layout with its context and propensity columns named, found in a table with these columns."""
        if (layout := self.for_table(columns)) is not self:
            return layout.resolve(columns)
        propensity = self.propensity
        if propensity is None:
            features = set(self.context or ())
            every = tuple(name for name in columns if name.startswith(PREFIX) and name not in features)
            if every and self.actions is not None:
                every = tuple(f"{PREFIX}{name}" for name in self.actions)
            propensity = every or (PROPENSITY if PROPENSITY in columns else None)
        density = self.log_density
        if density is None:
            density = self.action_space.density_in([name for name in columns if name not in (self.context or ())])
        acted = (*self.action_columns, *(() if density is None else (density,)))
        others = (self.censored, self.end, self.allowed, self.cluster)
        taken = {*self.key_columns, *acted, *self.reward_columns(columns), *others, PROPENSITY}
        taken |= {*self.outcome_columns(columns)}
        named = (propensity,) if isinstance(propensity, str) else propensity or ()
        taken |= {*named, *not_context(columns, self.action_columns)}
        rest = tuple(name for name in dict.fromkeys(columns) if name not in taken and not name.startswith(PREFIX))
        context = rest if self.context is None else self.context
        return replace(self, propensity=propensity, context=context, log_density=density)

    def names(self, column: str) -> bool:
        """Whether this column is given a part by name."""
        return any(column in names for _, names in parts_of(self))

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
        layout = self.for_table(columns)
        return is_header(columns, (*layout.key_columns, *layout.action_columns, *layout.reward_columns(columns)))

    def problems(self, columns: Sequence[str]) -> list[str]:
        """What keeps a table with these columns from being read, each as one sentence."""
        if not self.recognises(columns):
            return unrecognised(self, columns)
        repeated = [
            f"column {quoted(name)} occurs {n} times: rename it" for name, n in Counter(columns).items() if n > 1
        ]
        resolved = self.resolve(columns)
        by_action = self.propensity is None and self.actions is not None
        problems = repeated + missing_columns(resolved, columns, by_action=by_action) + clashes(resolved, columns)
        there, used = set(columns), resolved.propensity_columns()
        unused = there - set(used) - set(self.context or ())
        extra = [name for name in columns if name in unused and (name.startswith(PREFIX) or name == PROPENSITY)]
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
        plain = replace(TableSchema.plain(logs.feature_names), episode=self.episode, step=self.step)
        return self.fixed_by(logs.schema or plain, logs.action_space)

    def fixed_by(self, schema: TableSchema, actions: ActionSpace) -> "LogLayout":
        """The same by a schema and actions, such as those of a policy."""
        keys: dict[str, Any] = {"episode": schema.episode, "step": schema.step, **actions.as_layout()}
        return replace(self, **keys, context=schema.context, schema=schema)

    def over(self, own: "LogLayout") -> "LogLayout":
        """Another layout, in which what is said here takes the place of what was said there.

        >>> LogLayout(reward="alive").over(LogLayout(episode="stay")).episode
        'stay'
        """
        usual = LogLayout()
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.actions is None:  # those of the other were not said in the order of these columns
            refuse_unpaired(self.propensity, own.actions)
        return replace(own, **{name: value for name, value in said.items() if value != getattr(usual, name)})

    def to_json(self) -> dict[str, Any]:
        """The layout as a JSON object."""
        usual = LogLayout()
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        said = {name: value for name, value in plain.items() if name not in LATER or value != getattr(usual, name)}
        if self.schema is not None:
            said["schema"] = self.schema.to_json()
        if self.ordinal:
            said["ordinal"] = {name: list(order) for name, order in self.ordinal}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}

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
            raise InputError(
                f'{place(path)} cannot be read as TOML: {toml_problem(error)}; write lines like episode = "stay"'
            ) from None
        return cls.from_json(document)
