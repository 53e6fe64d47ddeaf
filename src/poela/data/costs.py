"""What decisions cost: a column of the log, or so much for each action; and how many cases may get an action."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from poela.core.errors import InputError
from poela.core.options import names_in
from poela.data.words import quoted

if TYPE_CHECKING:  # the command line's help is made of what imports this
    from poela.core.arrays import FloatArray
    from poela.data.trajectories import Trajectories

COST = "write the column that holds costs, or what each action costs: large=3,small=1"
CAPACITY = "write how many cases may get an action: large=100 (of those that there are) or large=100/1000 (per 1,000)"


@dataclass(frozen=True)
class Costs:
    """What a decision costs: `by_action` (actions that are not named cost nothing), or else a column or a formula.

    >>> Costs.of("large=3, small=1").by_action, Costs.of("price").column
    (mappingproxy({'large': 3.0, 'small': 1.0}), 'price')
    >>> Costs.of("large=3").of_actions(["none", "large"])
    array([0., 3.])
    """

    text: str
    by_action: Mapping[str, float] | None = None

    @classmethod
    def of(cls, text: str) -> "Costs":
        """From "large=3,small=1", or the name of a column."""
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"costs cannot be read: {COST}")
        if "=" not in text:
            return cls(text.strip())
        pairs = _pairs(text, COST)
        amounts = {name: _number(amount, COST) for name, amount in pairs}
        return cls(text, MappingProxyType(amounts))

    @property
    def column(self) -> str | None:
        """The column or formula that holds costs."""
        return self.text if self.by_action is None else None

    @property
    def amounts(self) -> str | dict[str, float]:
        """What is the same for equal costs, however they are spelled.

        >>> Costs.of("large=3, small=1").amounts == Costs.of("small=1.0,large=3").amounts
        True
        """
        return self.text if self.by_action is None else {name: cost for name, cost in self.by_action.items() if cost}

    @property
    def only(self) -> str | None:
        """The action that is counted, where one action alone costs 1."""
        amounts = self.by_action or {}
        return next(iter(amounts)) if list(amounts.values()) == [1.0] else None

    def of_actions(self, names: Sequence[object]) -> "FloatArray | None":
        """What each of these actions costs [A]; None where that differs from case to case."""
        import numpy as np

        if self.by_action is None:
            return None
        known = list(map(str, names))
        if unknown := [name for name in self.by_action if name not in known]:
            raise InputError(f"there is no action {quoted(unknown)}: choose from {quoted(known)}")
        return np.array([self.by_action.get(name, 0.0) for name in known])

    def of_steps(self, logs: "Trajectories") -> "FloatArray":
        """What each logged decision cost [N]."""
        if self.by_action is None:
            return logs.outcome(self.text)
        from poela.data.action_space import Finite

        logs.action_space.must_be(
            Finite, "costs by action need a finite set of actions, and these are real numbers: name a column"
        )
        amounts = self.of_actions(logs.action_names)
        assert amounts is not None
        costs: FloatArray = amounts[logs.actions]
        return costs


@dataclass(frozen=True)
class Capacity:
    """How many cases may get an action: of so many cases, or (None) of those that there are."""

    action: str
    count: int
    per: int | None = None

    def among(self, cases: int) -> int:
        """How many that is of so many cases.

        >>> Capacity("large", 100).among(250), Capacity("large", 100, 1000).among(259)
        (100, 25)
        """
        return self.count if self.per is None else self.count * cases // self.per

    def share(self, cases: int) -> float:
        """The share of cases that may get it, where there are so many; at most all."""
        return min(self.count / (cases if self.per is None else self.per), 1.0)

    def per_case(self, cases: int) -> "Capacity":
        """The same with the number of cases that it is of."""
        return self if self.per is not None else Capacity(self.action, self.count, cases)

    def __str__(self) -> str:
        return f"{self.action}={self.count}" + ("" if self.per is None else f"/{self.per}")


def capacities_in(text: str) -> tuple[Capacity, ...]:
    """The capacities that a text spells.

    >>> list(map(str, capacities_in("large=100/1000, small=20")))
    ['large=100/1000', 'small=20']
    """
    if not isinstance(text, str):
        raise InputError(f"a capacity cannot be read: {CAPACITY}")
    found = []
    for name, amount in _pairs(text, CAPACITY):
        count, slash, per = amount.partition("/")
        whole = [_number(part, CAPACITY) for part in ((count, per) if slash else (count,))]
        if not all(number.is_integer() for number in whole) or (slash and whole[1] < 1):
            raise InputError(f"a capacity is a whole number of cases: {CAPACITY}")
        found.append(Capacity(name, int(whole[0]), int(whole[1]) if slash else None))
    return tuple(found)


def _pairs(text: str, how: str) -> list[tuple[str, str]]:
    pairs = [tuple(part.strip() for part in one.rpartition("=")[::2]) for one in names_in(text)]
    names = [name for name, _ in pairs]
    if not pairs or not all(name and amount for name, amount in pairs) or len(set(names)) < len(names):
        raise InputError(f"{quoted(text)} cannot be read: {how}")
    return [(name, amount) for name, amount in pairs]


def _number(text: str, how: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise InputError(f"{quoted(text)} is no number from 0 on: {how}")
    return number
