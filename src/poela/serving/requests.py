"""What the server is asked: JSON documents, checked by the schema of a policy, as a table of rows.

A case has an id, by which its action is drawn, the features of its current step and, where the policy looks back, those
of earlier steps with what was done.
Messages name columns, and never what stands in them.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from poela.core.draws import Key, text_of
from poela.core.errors import InputError
from poela.core.typed import shown
from poela.data.action_space import ActionName
from poela.data.decision_rows import RowRequirements
from poela.data.schema import TableSchema, Variable

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CASES = 100  # in one request
MOST_EARLIER = 1000  # steps before, of one case
LARGEST_NUMBER = 1e15
LONGEST_TEXT = 100
MOST_PROBLEMS = 10
MOST_SEED = 2**32 - 1
# One letter or sign that can be seen, by whatever engine the expression is understood: blank text is a missing value.
VISIBLE = "[^\\x00-\\x20\\x7f-\\xa0\\u1680\\u2000-\\u200f\\u2028\\u2029\\u202f\\u205f\\u3000]"
# A date and time that exist, without a zone: times of a log have none that is kept, and one here would shift a case.
TIME = (
    "^((1[7-9]|2[01])[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))|((1[7-9]|2[01])(0[48]|[2468][048]|[13579][26])|2000)-02-29)"
    "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$"
)


@dataclass(frozen=True)
class DecisionRequest:
    """One request: the cases, and a seed that takes the place of the policy's own."""

    cases: tuple["Case", ...]
    seed: int | None = None

    @property
    def steps(self) -> int:
        """How many steps it tells, which is how much work it is."""
        return sum(len(case.steps) for case in self.cases)


@dataclass(frozen=True)
class Case:
    """The features of each step so far, the current one last, and what was done at the earlier ones.

    `id` names it and `step` counts the steps before the current one, whether or not these are told.
    """

    steps: tuple[Mapping[str, Any], ...]
    actions: tuple[ActionName, ...]
    id: str = ""
    step: int = 0


@dataclass(frozen=True)
class Form:
    """What a policy needs to know of a case."""

    schema: TableSchema
    action_names: tuple[ActionName, ...]
    needs: str  # "context", "step" or "history"
    real_valued: bool = False  # whether actions are amounts: earlier ones are looked at by no policy

    @cached_property
    def wants_history(self) -> bool:
        """Whether earlier steps are looked at."""
        return self._wanted.follows and (self.needs == "history" or self.schema.follows_episodes)

    @property
    def wants_step(self) -> bool:
        """Whether the number of earlier steps must be told: cases have steps, and each has a draw of its own."""
        return self.schema.episode is not None and not self.wants_history

    @property
    def reading(self) -> str:
        """How the table of cases is read: whole episodes, or rows that stand for themselves."""
        return self.needs if self.wants_history else "context"

    def key(self, case: Case) -> Key:
        """The case and its step, as `decide` knows them from columns."""
        first, distance = self.pace
        return case.id, text_of(float(first + distance * case.step))

    @property
    def pace(self) -> tuple[float, float]:
        """The number of the first step, and the distance to the next."""
        return (self.schema.pace if self.schema.step is not None else None) or (0, 1)

    @cached_property
    def _wanted(self) -> RowRequirements:
        return RowRequirements(self.schema, () if self.real_valued else self.action_names, self.needs)

    def parsed(self, body: bytes, *, drawing: bool = True) -> DecisionRequest:
        """The request in a JSON document, or all that is wrong with it; only who wants no draw may leave out ids."""
        document = _json(body)
        if not isinstance(document, dict) or not set(document) <= {"cases", "seed"}:
            raise InputError("the request must be an object with the list 'cases' and perhaps 'seed'")
        cases, seed = document.get("cases"), _whole(document.get("seed"))
        if not isinstance(cases, list) or not 1 <= len(cases) <= MOST_CASES:
            raise InputError(f"cases must be a list of 1 to {MOST_CASES} objects")
        if seed is not None and (not isinstance(seed, int) or not 0 <= seed <= MOST_SEED):
            raise InputError(f"seed must be a whole number from 0 to {MOST_SEED}, or null")
        problems: list[str] = []
        parsed = [self._case(case, f"case {number}", drawing, problems) for number, case in enumerate(cases)]
        if problems:
            raise InputError(problems[:MOST_PROBLEMS])
        return DecisionRequest(tuple(case for case in parsed if case is not None), seed)

    def _case(self, case: Any, where: str, drawing: bool, problems: list[str]) -> Case | None:
        more = ["id", *(["history"] if self.wants_history else []), *(["step"] if self.wants_step else [])]
        if not isinstance(case, dict) or "features" not in case or not set(case) <= {"features", *more}:
            problems.append(f"{where} must be an object with features, {', '.join(more)} and nothing else")
            return None
        if drawing and "id" not in case:
            problems.append(f"{where}: id is missing: name the case, since its action is drawn by its name")
            return None
        if self.wants_step and "step" not in case:
            problems.append(f"{where}: step is missing: say how many steps of its episode came before")
            return None
        name = _whole(case.get("id", ""))
        if not ((isinstance(name, int) and abs(name) <= LARGEST_NUMBER) or "id" not in case or _is_text(name)):
            problems.append(f"{where}: id must be a whole number, or text of 1 to {LONGEST_TEXT} characters")
        features = self._features(case["features"], where, problems)
        step, history = _whole(case.get("step", 0)), case.get("history", [])
        if not isinstance(step, int) or not 0 <= step <= MOST_EARLIER:
            problems.append(f"{where}: step must be a whole number from 0 to {MOST_EARLIER}")
            return None
        if not isinstance(history, list) or len(history) > MOST_EARLIER:
            problems.append(f"{where}: history must be a list of at most {MOST_EARLIER} earlier steps")
            return None
        earlier = [self._earlier(one, f"{where}, step {place}", problems) for place, one in enumerate(history)]
        steps = (*(one[0] for one in earlier), features)
        return Case(steps, tuple(one[1] for one in earlier), str(name), step + len(history))

    def _earlier(self, one: Any, where: str, problems: list[str]) -> tuple[Mapping[str, Any], ActionName]:
        if self.real_valued:
            if not isinstance(one, dict) or set(one) != {"features"}:
                problems.append(f"{where} must be an object with features, and nothing else")
                return {}, self.action_names[0]
            return self._features(one["features"], where, problems), self.action_names[0]
        if not isinstance(one, dict) or set(one) != {"features", "action"}:
            problems.append(f"{where} must be an object with features and action, and nothing else")
            return {}, self.action_names[0]
        action = _whole(one["action"])
        if not isinstance(action, str | int) or action not in self.action_names:
            problems.append(f"{where}: action is none of those that the policy knows")
        return self._features(one["features"], where, problems), action

    def _features(self, features: Any, where: str, problems: list[str]) -> Mapping[str, Any]:
        if not isinstance(features, dict):
            problems.append(f"{where}: features must be an object")
            return {}
        variables = self._variables
        missing = [name for name in variables if name not in features]
        unknown = [name for name in features if name not in variables]
        if missing:
            problems.append(f"{where}: {len(missing)} features are missing, first {shown(missing[0])}")
        if unknown:
            problems.append(f"{where}: {len(unknown)} features are not known, first {shown(unknown[0][:LONGEST_TEXT])}")
        if missing or unknown:
            return {}
        for name, variable in variables.items():
            problem = value_problem(variable, features[name])
            if problem:
                problems.append(f"{where}: {shown(name)} must be {problem}")
        return features

    @cached_property
    def _variables(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.schema.asked}

    def table(self, cases: Sequence[Case]) -> "pa.Table":
        """The steps of all cases as rows; where episodes are followed, each case is one."""
        import pyarrow as pa

        rows = [step for case in cases for step in case.steps]
        columns: dict[str, Any] = {
            variable.name: _column(variable, [row[variable.name] for row in rows]) for variable in self.schema.asked
        }
        if self.wants_history and self.schema.episode is not None:
            columns[self.schema.episode] = [number for number, case in enumerate(cases) for _ in case.steps]
            if self.schema.step is not None:
                first, distance = self.schema.pace or (0, 1)
                places = (place for case in cases for place in range(len(case.steps)))
                columns[self.schema.step] = [first + distance * place for place in places]
            if self.needs == "history":
                columns[self.schema.action] = [action for case in cases for action in (*case.actions, None)]
        return pa.table(columns)


def value_problem(variable: Variable, value: Any) -> str | None:
    """What the value of a feature must be, where it is not.

    >>> value_problem(Variable("age"), 5), value_problem(Variable("age"), "5")
    (None, 'a number')
    """
    if value is None:
        return None if is_optional(variable) else f"{_kind(variable)}: it may not be null"
    if variable.kind in ("number", "duration"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and abs(value) <= LARGEST_NUMBER else _kind(variable)
    text = _is_text(value)
    if text and variable.kind == "ordinal":
        text = value in variable.categories
    if text and variable.kind == "time":
        text = re.fullmatch(TIME[1:-1], value, re.ASCII) is not None
    return None if text else _kind(variable)


def is_optional(variable: Variable) -> bool:
    """Whether a value may be missing: where the log had gaps, too."""
    return variable.indicated or variable.carried


def _kind(variable: Variable) -> str:
    return {
        "number": "a number",
        "duration": "a number of seconds",
        "category": f"text of 1 to {LONGEST_TEXT} characters",
        "ordinal": "one of the texts that the log had",
        "time": "a date and time such as 2020-01-31T12:00:00",
    }[variable.kind]


def _is_text(value: Any) -> bool:
    """Whether this is text of which something can be seen, and not too much."""
    short = isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT
    return short and _is_sound(value) and re.search(VISIBLE, value) is not None


def _is_sound(text: str) -> bool:
    """Whether a text consists of whole letters: JSON can hold halves of them, tables cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column(variable: Variable, values: Sequence[Any]) -> "pa.Array":
    import pyarrow as pa

    if variable.kind == "number":
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if variable.kind == "time":
        return pa.array(
            [None if value is None else datetime.fromisoformat(value) for value in values], pa.timestamp("us")
        )
    if variable.kind == "duration":
        return pa.array([None if v is None else timedelta(seconds=float(v)) for v in values], pa.duration("us"))
    return pa.array(values, pa.string())


def _whole(value: Any) -> Any:
    """A whole number as one: JSON does not tell 10 from 10.0. True is no number there, though Python takes it for 1.

    >>> _whole(10.0), _whole(True), _whole("a")
    (10, nan, 'a')
    """
    if isinstance(value, bool):
        return math.nan
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json(body: bytes) -> Any:
    def refused(name: str) -> Any:
        raise ValueError(name)

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):  # of two values one would be ignored, and others may take the other one
            raise InputError("the request has an object in which a name occurs twice: leave one of them out")
        return read

    try:
        return json.loads(body, parse_constant=refused, object_pairs_hook=object_of)
    except (ValueError, RecursionError):  # also text that is not UTF-8, and numbers of thousands of digits
        raise InputError("the request is no JSON document") from None
