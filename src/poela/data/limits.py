"""What may not be done: actions forbidden by a condition on the columns, and a column of the actions that are open.

A feature for each limited action says so beside the other features of a context: 1 where it is forbidden, ½ where a
condition is not known, so that it may be, else 0. What is not 0 is barred by every rule of eligible actions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.typed import one_of, refuse_problems
from poela.data.conditions import Condition
from poela.data.words import quoted

FORBIDDEN, UNKNOWN = 1.0, 0.5
IF, ENDING = " if ", " forbidden"  # of the features' names, after that of the action
HOW = "write an action and a condition: --forbid \"penicillin if allergy == 'yes'\""
ColumnKind = Annotated[str, one_of("number", "text", "time", "flag")]


@dataclass(frozen=True)
class AskedColumn:
    """A column that a condition asks about, and how it is read."""

    name: str
    kind: ColumnKind

    def __post_init__(self) -> None:
        refuse_problems(self)


@dataclass(frozen=True)
class Forbidden:
    """Actions that are forbidden where a condition holds.

    >>> Forbidden.of("penicillin, amoxicillin if allergy == 'yes'").actions
    ('penicillin', 'amoxicillin')
    """

    actions: tuple[str, ...]
    when: str

    def __post_init__(self) -> None:
        refuse_problems(self)
        _ = self.condition

    @classmethod
    def of(cls, text: str, names: Sequence[str] = ()) -> "Forbidden":
        """What a text says; `names` are those of all actions, as text, where they are known."""
        places = [place for place in range(len(text)) if text.startswith(IF, place)] if isinstance(text, str) else []
        known = [place for place in places if set(_several(text[:place], names)) <= set(names)]
        if not places or not text[: places[0]].strip():
            raise InputError(f"{quoted(str(text))} says no condition: {HOW}")
        place = (known or places)[0]
        return cls(_several(text[:place], names), text[place + len(IF) :].strip())

    @cached_property
    def condition(self) -> Condition:
        """Where they are."""
        return Condition(self.when)

    def __str__(self) -> str:
        return f"{', '.join(self.actions)}{IF}{self.when}"


def _several(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """The actions that a text names, one or several with commas; an action may have a comma in its name."""
    whole = text.strip()
    return (whole,) if whole in names else tuple(part.strip() for part in whole.split(","))


@dataclass(frozen=True)
class Limits:
    """What may not be done, by the columns of a table; kept with its schema.

    >>> forbidden, allergy = Forbidden.of("penicillin if allergy == 'yes'"), AskedColumn("allergy", "text")
    >>> limits = Limits(("wait", "penicillin"), (forbidden,), asked=(allergy,))
    >>> limits.features
    ('penicillin forbidden',)
    """

    actions: tuple[str, ...]  # all that there are, as text
    forbidden: tuple[Forbidden, ...] = ()
    allowed: str | None = None  # the column of the actions that are open
    asked: tuple[AskedColumn, ...] = ()

    def __post_init__(self) -> None:
        refuse_problems(self)
        if strangers := [name for one in self.forbidden for name in one.actions if name not in self.actions]:
            raise InputError(f"{quoted(strangers)} is no action of these logs: they have {quoted(self.actions)}")
        if {name for one in self.forbidden for name in one.condition.columns} != {one.name for one in self.asked}:
            raise InputError("the columns of limits are not those of their conditions")

    @cached_property
    def limited(self) -> tuple[str, ...]:
        """The actions that may be forbidden, in the order of all."""
        named = {name for one in self.forbidden for name in one.actions}
        return tuple(name for name in self.actions if self.allowed is not None or name in named)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The features that say where."""
        return tuple(f"{name}{ENDING}" for name in self.limited)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*(one.name for one in self.asked), *(() if self.allowed is None else (self.allowed,)))

    @property
    def said(self) -> tuple[str | None, tuple[str, ...]]:
        """What a layout says of it."""
        return self.allowed, tuple(map(str, self.forbidden))

    def why(self, action: str) -> str:
        """Why an action may be forbidden, in words."""
        reasons = [one.when for one in self.forbidden if action in one.actions]
        return " or ".join([*reasons, *([] if self.allowed is None else [f"not in {self.allowed}"])])

    def __str__(self) -> str:
        reasons = [f"{', '.join(one.actions)} is forbidden if {one.when}" for one in self.forbidden]
        own = [] if self.allowed is None else [f"only actions in column {self.allowed} are allowed"]
        return "; ".join([*reasons, *own])


@dataclass(frozen=True, eq=False)
class LimitsInContexts:
    """Limits as contexts tell them: which feature speaks of which action.

    They are known by the features' names alone, so that whatever is made of a log, such as features of its history,
    keeps them; and so that arrays can have them.
    """

    places: tuple[tuple[int, int], ...]  # feature, action
    n_actions: int

    @classmethod
    def of(cls, feature_names: Sequence[str], action_names: Sequence[Any]) -> "LimitsInContexts | None":
        """Those of contexts with these features; None where nothing is limited.

        >>> found = LimitsInContexts.of(("x", "b forbidden"), ("a", "b"))
        >>> found.allowed(np.array([[2.0, 1.0], [0.0, 0.0]]))
        array([[ True, False],
               [ True,  True]])
        """
        feature = {name: place for place, name in enumerate(feature_names) if name.endswith(ENDING)}
        named = {} if not feature else {f"{name}{ENDING}": place for place, name in enumerate(action_names)}
        places = tuple((feature[name], action) for name, action in named.items() if name in feature)
        return cls(places, len(action_names)) if places else None

    def allowed(self, contexts: Float32Array) -> BoolArray:
        """Which actions [N, A] are surely not forbidden."""
        return self._where(contexts, lambda values: values < UNKNOWN)

    def done_at_all(self, contexts: Float32Array) -> BoolArray:
        """Which actions [N, A] those who keep to the limits may take: what is not known to be forbidden."""
        return self._where(contexts, lambda values: values < FORBIDDEN)

    def _where(self, contexts: Float32Array, holds: Any) -> BoolArray:
        mask = np.ones((len(contexts), self.n_actions), np.bool_)
        for feature, action in self.places:
            mask[:, action] = holds(contexts[:, feature])
        return mask


def within(probabilities: FloatArray, mask: BoolArray) -> FloatArray:
    """Probabilities [N, A] of what a mask leaves: alike where they give it nothing, as they are where it is empty.

    >>> within(np.array([[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]), np.array([[1, 0], [0, 1], [0, 0]]) > 0)
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    shares = np.where(mask, probabilities, 0.0)
    shares = np.where((shares > 0).any(axis=1, keepdims=True), shares, mask)
    shares = np.where(mask.any(axis=1, keepdims=True), shares, probabilities)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def limits_said(allowed: str | None, forbid: Sequence[str], names: Sequence[Any]) -> Limits | None:
    """The limits that a layout says, of these actions; None where it says nothing. Columns are not looked at yet."""
    texts = tuple(map(str, names))
    forbidden = tuple(Forbidden.of(text, texts) for text in forbid)
    if strangers := [name for one in forbidden for name in one.actions if name not in texts]:
        raise InputError(
            f"forbid= names {quoted(strangers)}, which is no action of these logs: they have {quoted(texts)}"
        )
    columns = dict.fromkeys(name for one in forbidden for name in one.condition.columns)
    asked = tuple(AskedColumn(name, "number") for name in columns)
    return Limits(texts, forbidden, allowed, asked) if forbidden or allowed is not None else None


def with_kinds(limits: Limits, kinds: Sequence[str]) -> Limits:
    """The limits with the kinds of the columns that they ask about."""
    return replace(
        limits, asked=tuple(AskedColumn(one.name, kind) for one, kind in zip(limits.asked, kinds, strict=True))
    )
