"""What is wrong with a layout, in itself or for a table with certain columns; each problem is one sentence."""

import codecs
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.data.formulas import day_of
from poela.data.limits import Forbidden
from poela.data.rewards import FORMULA_LIKE, NO_FORMULA
from poela.data.schema import TableSchema
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    from poela.data.layout import LogLayout

# Encodings of single names or of Python's source, which no file of text is written in.
NO_FILES = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
MANY_COLUMNS, LONG_COLUMN = 1000, 100  # beyond these, a search for similar names takes too long
BY_NUMBER = re.compile(r".*?(\d+)")
MISSING = ("refuse", "indicator", "carry-forward")


def type_problems(layout: "LogLayout") -> list[str]:
    """Fields that are not of their type."""
    optional = tuple(
        name
        for name in ("episode", "step", "cluster", "censored", "end", "allowed")
        if getattr(layout, name) is not None
    )
    single = ("reward", *optional, *(() if layout.log_density is None else ("log_density",)))
    problems = [f"{name}= must name a column" for name in single if not isinstance(getattr(layout, name), str)]
    if not layout.action_columns or len(set(layout.action_columns)) < len(layout.action_columns):
        problems.append("action= must name a column, or several different ones")
    problems += layout.action_space.layout_problems(layout)
    for name in ("action", "context", "propensity", "category", "side_outcomes", "wide", "forbid"):
        value = getattr(layout, name)
        if isinstance(value, tuple) and not all(isinstance(item, str) for item in value):
            problems.append(f"{name}= must {'hold texts' if name == 'forbid' else 'name columns'}")
    if layout.end is not None and layout.end == layout.censored:
        problems.append("end= and censored= name the same column: a record ended, or broke off before it was seen")
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


def schema_problems(layout: "LogLayout") -> list[str]:
    """What is said wrongly about the contents of context columns."""
    problems = []
    told = layout.missing.split(",") if isinstance(layout.missing, str) else [""]
    if not set(told) <= {*MISSING, "censored"} or len(told) > 1 + ("censored" in told):
        problems.append(
            f"missing= must be {', '.join(MISSING[:-1])} or {MISSING[-1]}, of gaps in the context; or censored, of "
            "outcomes; or both with a comma"
        )
    horizon: Any = layout.horizon
    if horizon is not None and not (isinstance(horizon, int | float) and 0 <= horizon < float("inf")):
        problems.append("horizon= must be a number: the last step, or the last day, whose outcome counts")
    ordinal: Any = layout.ordinal
    sound = isinstance(ordinal, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], tuple) for pair in ordinal
    )
    if not sound or not all(isinstance(text, str) for name, order in ordinal for text in (name, *order)):
        problems.append("ordinal= must give columns and their values, the lowest first: {'severity': ['low', 'high']}")
    elif any(len(set(order)) < max(len(order), 2) for _, order in ordinal):
        problems.append("ordinal= must give at least two different values for each column")
    if layout.origin is not None:
        try:
            day_of(layout.origin)
        except InputError:
            problems.append("origin= must be a date, such as 2020-01-01")
    schema: Any = layout.schema
    if schema is not None and not isinstance(schema, TableSchema):
        problems.append("schema= must be a TableSchema: take that of logs or of a policy")
    elif schema is not None and layout.context not in (None, schema.context):
        problems.append("context= names other columns than those that were learned from: leave it out")
    elif schema is not None and (layout.allowed, layout.forbid) != (None, ()):
        own = (None, ()) if schema.limits is None else schema.limits.said
        if own != (layout.allowed, tuple(str(Forbidden.of(text)) for text in layout.forbid)):
            problems.append(
                "allowed= and forbid= are not those that were learned with, which are part of the policy: leave them "
                "out, or learn again with them"
            )
    return problems


def format_problems(layout: "LogLayout") -> list[str]:
    """What is said wrongly about how a CSV file is written."""
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


def parts_of(layout: "LogLayout", columns: Sequence[str] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """Each part with the columns that play it."""
    return [
        ("episode", () if layout.episode is None else (layout.episode,)),
        ("step", () if layout.step is None or layout.keeps_row_order else (layout.step,)),
        ("action", layout.action_columns),
        ("reward", layout.reward_columns(columns)),
        ("cluster", () if layout.cluster is None else (layout.cluster,)),
        ("censored", () if layout.censored is None else (layout.censored,)),
        ("end", () if layout.end is None else (layout.end,)),
        ("propensity", layout.propensity_columns()),
        ("log_density", () if layout.log_density is None else (layout.log_density,)),
        ("side_outcomes", layout.outcome_columns(columns)),
        ("allowed", () if layout.allowed is None else (layout.allowed,)),
        ("forbid", tuple(name for name in layout.limiting_columns if name != layout.allowed)),
        ("context", layout.context or ()),
        ("category", layout.category),
        ("ordinal", tuple(name for name, _ in layout.ordinal)),
    ]


def unrecognised(layout: "LogLayout", columns: Sequence[str]) -> list[str]:
    """What is missing where the columns may be data, so that none of them is quoted."""
    parts = (*layout.key_columns, *layout.action_columns, *layout.reward_columns(columns))
    if set(columns).isdisjoint(parts):
        wide = looks_wide(columns, (), unnamed=True)  # whose names may be cells of a table without a header
        rows = "; if there is one row for each case, with columns by visit, say --wide 'NAME_{visit}, …' too"
        return [
            f"none of the columns {quoted(parts)} is there: name the columns that play these parts with episode=, "
            f"step=, action= and reward=, or add a header row if there is none{rows * bool(wide)}"
        ]
    return missing_columns(layout, columns, similar=False)


def missing_columns(
    layout: "LogLayout", columns: Sequence[str], similar: bool = True, by_action: bool = False
) -> list[str]:
    """A sentence for each part whose columns are not there; `by_action`: propensity columns are called by actions."""
    there = set(columns)
    candidates = [name for name in columns if len(name) < LONG_COLUMN][:MANY_COLUMNS] if similar else []
    problems = []
    for part, names in parts_of(layout, columns):
        missing = [name for name in names if name not in there]
        if missing and part == "propensity" and by_action:  # the actions may be cells of another log
            share = f"{len(missing)} of {counted(len(names), 'action')}"
            problems.append(
                f"columns propensity_<action> are missing for {share}: add them, or name others with {part}="
            )
        elif missing and part == "reward" and layout.formula is None and FORMULA_LIKE.search(layout.reward):
            problems.append(NO_FORMULA)
        elif missing:
            rows = (
                ", or say step='rows' (--step rows) if rows stand in the order of decisions, or each is an episode of "
                "its own"
                if part == "step"
                else ""
            )
            rows += looks_wide(columns, missing, unnamed=part == "action") if part in ("action", "reward") else ""
            problems.append(f"{absent(missing, candidates)}: add it, or name another with {part}={rows}")
    return problems


def looks_wide(columns: Sequence[str], wanted: Sequence[str], unnamed: bool = False) -> str:
    """The columns by visit that a part which is missing may be, as a word of advice; empty where nothing looks so.

    >>> looks_wide(["id", "dose_1", "dose_2", "bp_1", "bp_2"], ["dose"])
    "; the table seems to have one row for each case, with columns by visit: say --wide 'dose_{visit}, bp_{visit}'"

    Where it is `unnamed`, columns that share their visits are enough.
    """
    stems: dict[str, set[str]] = {}
    for name in columns:
        if match := BY_NUMBER.fullmatch(name):
            stems.setdefault(name[: len(name) - len(match[1])], set()).add(match[1])
    often = [stem for stem, visits in stems.items() if len(visits) > 1]
    if not any(stem.rstrip(" _.-") in wanted for stem in often) and not (unnamed and _share_visits(stems, often)):
        return ""
    patterns = ", ".join(f"{stem}{{visit}}" for stem in often[:4])
    return f"; the table seems to have one row for each case, with columns by visit: say --wide '{patterns}'"


def _share_visits(stems: Mapping[str, set[str]], often: Sequence[str]) -> bool:
    """Whether several columns are there for the same visits."""
    return len(often) > 1 and len(often) > len({frozenset(stems[stem]) for stem in often})


def absent(missing: Sequence[str], columns: Sequence[str]) -> str:
    """Which columns are missing, and what the first may be called among these columns.

    >>> absent(["age"], ["Age", "ward"])
    "column 'age' is missing (did you mean 'Age'?)"
    """
    near = difflib.get_close_matches(missing[0], columns, n=1)
    hint = f" (did you mean {quoted(near)}?)" if near else ""
    subject = f"column {quoted(missing)} is" if len(missing) == 1 else f"columns {quoted(missing)} are"
    return f"{subject} missing{hint}"


def clashes(layout: "LogLayout", columns: Sequence[str]) -> list[str]:
    """Columns with two parts; only the step may also be a feature, since it is known before the action."""
    parts: dict[str, list[str]] = {}
    for part, names in parts_of(layout, columns):
        for name in names if part not in ("category", "ordinal", "censored", "end", "forbid") else ():
            parts.setdefault(name, []).append(part)
    later = {*layout.action_columns, *layout.reward_columns(columns), *layout.outcome_columns(columns)}
    unknown = [name for name in dict.fromkeys(layout.limiting_columns) if name in later and name != layout.allowed]
    told = (
        [f"forbid= asks about column {quoted(unknown)}, not known before the decision: leave it out"] if unknown else []
    )
    return told + [
        f"column {quoted(name)} is named as {' and as '.join(named[:3])}: name it once"
        for name, named in parts.items()
        if len(named) > 1 and named not in (["step", "context"], ["reward", "side_outcomes"])
    ]
