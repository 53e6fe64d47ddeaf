"""Policies that people can say and carry out: *always*, *never*, *instead of* in cases like these, else as before."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps, along_once, as_policy
from poela.core.readable import escaped, share_in_words
from poela.core.storage import Stored
from poela.core.typed import Range, Share, Whole, from_plain, one_of, refuse_problems, to_plain
from poela.core.validation import expect_contents
from poela.data.action_space import ActionName
from poela.data.schema import TableSchema, Variable
from poela.eligibility.fitted import Eligible
from poela.policies.network import NAMES, common_fields
from poela.policies.practice import PracticePolicy, stored_behavior
from poela.policies.ruled import followed
from poela.policies.valued import priced

# What a plain policy says: in cases like these, do so; otherwise as before.

MOST_CASES, MOST_CONDITIONS = 64, 8
Doing = Annotated[str, one_of("always", "never", "instead", "odds")]


@dataclass(frozen=True)
class Condition:
    """A feature is above a threshold, or (`above=False`) at most there."""

    feature: str
    threshold: float
    above: bool = True

    def __post_init__(self) -> None:
        refuse_problems(self)
        # Contexts are float32: a threshold that is one, too, means the same in every runtime.
        if float(np.float32(self.threshold)) != self.threshold:
            raise InputError(f"threshold is {self.threshold!r}: it must be a number of single precision")

    def holds(self, values: Float32Array) -> BoolArray:
        """Where it holds, of the feature's values [N]."""
        above: BoolArray = np.asarray(values > np.float32(self.threshold))
        return above if self.above else ~above


@dataclass(frozen=True)
class Case:
    """Where all conditions hold: *always* an action, *never* it, it *instead* of another, or its *odds* multiplied."""

    do: Doing
    action: Whole
    other: Whole | None = None  # the one that is replaced
    odds: Annotated[float, Range(above=0)] = 1.0
    where: tuple[Condition, ...] = ()  # none: in every case
    share: Share = 1.0  # of the training decisions

    def __post_init__(self) -> None:
        refuse_problems(self)
        if (self.do == "instead") != (self.other is not None) or self.other == self.action:
            raise InputError(f"a case of a rule says {self.do!r}, and names the wrong number of actions")
        if (self.do == "odds") != (self.odds != 1):
            raise InputError(f"a case of a rule says {self.do!r}, and multiplies odds by {self.odds:g}")
        if len(self.where) > MOST_CONDITIONS:
            raise InputError(f"a case of a rule has {len(self.where)} conditions: at most {MOST_CONDITIONS} can be")

    def holds(self, contexts: Float32Array, feature_names: tuple[str, ...]) -> BoolArray:
        """In which rows it is the case [N]."""
        holds = np.ones(len(contexts), np.bool_)
        for condition in self.where:
            holds &= condition.holds(contexts[:, feature_names.index(condition.feature)])
        return holds

    def acted(self, practice: FloatArray, free: BoolArray) -> FloatArray:
        """What becomes of practice [N, A] in such cases; `free` [N, A]: what may be done in place of something else.

        >>> practice, free = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), np.ones((2, 3), bool)
        >>> Case("never", 0).acted(practice, free)  # where nothing else is done: as before
        array([[0. , 0.6, 0.4],
               [1. , 0. , 0. ]])
        >>> Case("always", 1).acted(practice, free)
        array([[0., 1., 0.],
               [1., 0., 0.]])
        >>> Case("instead", 1, other=0).acted(practice, free)
        array([[0. , 0.8, 0.2],
               [1. , 0. , 0. ]])
        >>> Case("odds", 0, odds=3.0).acted(practice, free)
        array([[0.75, 0.15, 0.1 ],
               [1.  , 0.  , 0.  ]])
        """
        changed = np.array(practice)
        if self.do in ("never", "odds"):
            changed[:, self.action] *= self.odds if self.do == "odds" else 0.0
            totals = changed.sum(axis=1, keepdims=True)
            return np.where(totals > 0, changed / np.where(totals > 0, totals, 1.0), practice)
        possible = (practice[:, self.action] > 0) & free[:, self.action]
        if self.do == "always":
            changed[possible] = np.eye(practice.shape[1])[self.action]
        else:
            changed[possible, self.action] += practice[possible, self.other]
            changed[possible, self.other] = 0.0
        return changed

    def barred(self, practice: FloatArray) -> BoolArray:
        """What must no longer be done in such cases [N, A], by a case that says *never*."""
        barred = np.zeros(practice.shape, np.bool_)
        if self.do == "never":
            others = practice.sum(axis=1) - practice[:, self.action]
            barred[:, self.action] = (practice[:, self.action] > 0) & (others > 0)
        return barred


# A plain policy in the words of the log: its columns, categories and units.

AS_BEFORE = "As before."


def cases_in_words(cases: Sequence[Case], schema: TableSchema, action_names: Sequence[ActionName]) -> str:
    """All cases, and what holds otherwise.

    >>> schema = TableSchema((Variable("lactate"), Variable("ward", "category", ("ICU", "surgery"))))
    >>> high, there = Condition("lactate", float(np.float32(2.1))), Condition("ward=ICU", 0.5)
    >>> cases_in_words([Case("never", 0, where=(high, there), share=0.12)], schema, ("wait", "treat"))
    'If lactate > 2.1 and ward is ICU: never wait (12% of decisions). Otherwise as before.'
    >>> [cases_in_words(cases, schema, ("wait", "treat")) for cases in ([Case("always", 1)], [])]
    ['Always treat.', 'As before.']
    >>> cases_in_words([Case("instead", 1, other=0)], schema, ("wait", "treat"))
    'In every case: treat instead of wait.'
    """
    return " ".join(sentences_of(cases, schema, action_names))


def sentences_of(cases: Sequence[Case], schema: TableSchema, action_names: Sequence[ActionName]) -> tuple[str, ...]:
    """The same, a sentence for each case and one for the rest.

    >>> cases = [Case("never", 0, where=(Condition("lactate", 2.0),), share=0.12)]
    >>> sentences_of(cases, TableSchema((Variable("lactate"),)), ("wait", "treat"))
    ('If lactate > 2: never wait (12% of decisions).', 'Otherwise as before.')
    """
    sentences: list[str] = []
    for case in cases:
        act = instruction_in_words(case, action_names)
        if not case.where and case.do in ("always", "never") and not sentences:
            return (f"{act[:1].upper()}{act[1:]}.",)
        if not case.where:
            return (*sentences, f"Otherwise {act}." if sentences else f"In every case: {act}.")
        share = f"{share_in_words(case.share)} of decisions"
        sentences.append(f"If {conditions_in_words(case.where, schema)}: {act} ({share}).")
    return (*sentences, "Otherwise as before.") if sentences else (AS_BEFORE,)


def instruction_in_words(case: Case, action_names: Sequence[ActionName]) -> str:
    """What is done in a case.

    >>> instruction_in_words(Case("instead", 1, other=0), ("wait", "treat"))
    'treat instead of wait'
    >>> instruction_in_words(Case("odds", 1, odds=3.0), ("wait", "treat"))
    'treat more often (3 times the odds: 50% becomes 75%)'
    """
    action = action_name(action_names[case.action])
    if case.do == "instead":
        assert case.other is not None
        return f"{action} instead of {action_name(action_names[case.other])}"
    if case.do == "odds":
        more, times = ("more", case.odds) if case.odds > 1 else ("less", 1 / case.odds)
        odds = f"{times:.3g} times the odds" if more == "more" else f"the odds divided by {times:.3g}"
        return f"{action} {more} often ({odds}: 50% becomes {case.odds / (1 + case.odds):.0%})"
    return f"{case.do} {action}"


def action_name(name: ActionName) -> str:
    """What an action is called in a sentence.

    >>> action_name("wait"), action_name(3)
    ('wait', 'action 3')
    """
    return escaped(name) if isinstance(name, str) else f"action {name}"


def conditions_in_words(where: Sequence[Condition], schema: TableSchema) -> str:
    """What must be so, column by column.

    >>> ward = Variable("ward", "category", ("ICU", "surgery", "other"))
    >>> schema = TableSchema((Variable("age"), ward, Variable("pain", "ordinal", ("none", "some", "much"))))
    >>> conditions_in_words([Condition("age", 50.0), Condition("age", 64.0, above=False)], schema)
    '50 < age ≤ 64'
    >>> conditions_in_words([Condition("ward=ICU", 0.5, above=False), Condition("ward=other", 0.5)], schema)
    'ward is other'
    >>> conditions_in_words([Condition("pain", 0.0), Condition("ward=ICU", 0.5, above=False)], schema)
    'pain is some or more and ward is not ICU'
    """
    owners = {name: variable for variable in schema.variables for name in variable.features}
    parts = []
    for variable in dict.fromkeys(owners[condition.feature] for condition in where):
        parts += _of_variable(variable, [condition for condition in where if owners[condition.feature] is variable])
    return " and ".join(escaped(part) for part in parts)


def _of_variable(variable: Variable, where: Sequence[Condition]) -> list[str]:
    missing = [condition for condition in where if variable.indicated and condition.feature == variable.features[-1]]
    rest = [condition for condition in where if condition not in missing]
    said = [f"{variable.name} is {'missing' if condition.above else 'known'}" for condition in missing]
    if variable.kind == "category":
        return [*_categories(variable, rest), *said]
    if not rest:
        return said
    low = max((condition.threshold for condition in rest if condition.above), default=None)
    high = min((condition.threshold for condition in rest if not condition.above), default=None)
    between = _places if variable.kind == "ordinal" else _numbers
    return [between(variable, low, high), *said]


def _categories(variable: Variable, where: Iterable[Condition]) -> list[str]:
    names = dict(zip(variable.features, variable.categories, strict=False))
    among = [names[condition.feature] for condition in where if condition.above]
    if among:  # which says all about the other categories
        return [f"{variable.name} is {name}" for name in dict.fromkeys(among)]
    return [f"{variable.name} is not {name}" for name in dict.fromkeys(names[one.feature] for one in where)]


def _numbers(variable: Variable, low: float | None, high: float | None) -> str:
    unit = " days" if variable.kind in ("time", "duration") else ""
    ends = ["" if end is None else f"{number_in_words(end)}{unit}" for end in (low, high)]
    if low is not None and high is not None:
        return f"{ends[0]} < {variable.name} ≤ {ends[1]}"
    return f"{variable.name} > {ends[0]}" if high is None else f"{variable.name} ≤ {ends[1]}"


def _places(variable: Variable, low: float | None, high: float | None) -> str:
    """Places in an order, by the first and the last that are meant."""
    places = [place for place in range(len(variable.categories)) if _within(place, low, high)]
    if not places:
        return f"{variable.name} is none of its values"
    first, last = variable.categories[places[0]], variable.categories[places[-1]]
    if len(places) == 1:
        return f"{variable.name} is {first}"
    if high is None:
        return f"{variable.name} is {first} or more"
    return f"{variable.name} is {last} or less" if low is None else f"{variable.name} is {first} to {last}"


def _within(place: int, low: float | None, high: float | None) -> bool:
    return (low is None or place > low) and (high is None or place <= high)


def number_in_words(threshold: float) -> str:
    """A threshold with as many digits as it has.

    >>> number_in_words(float(np.float32(2.1))), number_in_words(1e6), number_in_words(-0.25)
    ('2.1', '1000000', '-0.25')
    """
    return np.format_float_positional(np.float32(threshold), trim="-")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainPolicy(PracticePolicy):
    """Practice, changed where a case of its rule holds (the first that does); under the rule of eligible actions.

    What a case asks for is done only where practice does it, too: probability goes nowhere new.
    """

    cases: tuple[Case, ...]

    @property
    def rule(self) -> str:
        """What it says, in the columns, categories and units of the log."""
        return cases_in_words(self.cases, self.table_schema, self.action_names)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same, a sentence for each case and one for the rest."""
        return sentences_of(self.cases, self.table_schema, self.action_names)

    def decided(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities [N, A] from contexts and μ."""
        practice = priced(behavior, eligible)
        decided = np.array(practice)
        for case, rows in self._by_case(contexts):
            decided[rows] = case.acted(practice[rows], eligible.free[rows])
        return followed(decided, eligible)

    def barred(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> BoolArray:
        """What must no longer be done [N, A]; the rest is left to those who decide."""
        rows = self.checked(contexts)
        numbers = None if steps is None else np.asarray(steps, np.int64)
        return self._barred(rows, as_policy(self.behavior).probabilities(rows), self.eligibility.resolve(rows, numbers))

    def barred_along(self, trajectories: LoggedSteps) -> BoolArray:
        """The same along logged episodes."""
        rows = self.checked(trajectories.contexts)
        return self._barred(rows, along_once(self.behavior, trajectories), self.eligibility.along(trajectories))

    def leaves_along(self, trajectories: LoggedSteps) -> BoolArray:
        """Where it says no more than *never* or *as before* [N]: the rest is for those who decide."""
        contexts = self.checked(trajectories.contexts)
        leaves = np.ones(len(contexts), np.bool_)
        for case, rows in self._by_case(contexts):
            leaves[rows] = case.do == "never"
        return leaves

    def _barred(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> BoolArray:
        practice = priced(behavior, eligible)
        barred = np.zeros(practice.shape, np.bool_)
        for case, rows in self._by_case(contexts):
            barred[rows] = case.barred(practice[rows])
        barred[eligible.stranded] = False
        return barred

    def _by_case(self, contexts: Float32Array) -> list[tuple[Case, BoolArray]]:
        """Each case, and the rows in which it is the first that holds."""
        left, found = np.ones(len(contexts), np.bool_), []
        for case in self.cases:
            rows = left & case.holds(contexts, self.feature_names)
            left &= ~rows
            found.append((case, rows))
        return found

    def stored(self) -> Stored:
        """The policy as plain settings, with the rule of eligible actions and the logging policy as parts."""
        return self.stored_as("plain_policy", {"cases": [to_plain(case) for case in self.cases]})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "PlainPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, (*NAMES, "cases"), parts=("eligibility", "behavior"))
        fields = common_fields(stored, load_part)
        listed = stored.settings["cases"]
        if not isinstance(listed, list) or len(listed) > MOST_CASES:
            raise InputError(f"cases must be a list of at most {MOST_CASES} cases")
        cases = tuple(from_plain(Case, one, f"case {place}") for place, one in enumerate(listed, start=1))
        n_actions, features = len(fields["action_names"]), set(fields["feature_names"])
        if any(max(case.action, case.other or 0) >= n_actions for case in cases):
            raise InputError(f"a case of the rule names an action beyond the {n_actions} that there are")
        if any(condition.feature not in features for case in cases for condition in case.where):
            raise InputError("a case of the rule has a condition on a feature that there is not")
        return cls(cases=cases, behavior=stored_behavior(stored, load_part, fields), **fields)
