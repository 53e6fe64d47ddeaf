"""A plain policy in the words of the log: its columns, categories and units."""

from collections.abc import Iterable, Sequence

import numpy as np

from poela.core.readable import escaped, share_in_words
from poela.data.action_space import ActionName
from poela.data.schema import TableSchema, Variable
from poela.policies.cases import Case, Condition

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
