"""What a return is called and measured in: for the sentences and tables that people read."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.readable import escaped, readable
from poela.core.typed import Range, refuse_problems

LONGEST = 60  # letters of a name or a unit
PERCENT = "%"


@dataclass(frozen=True)
class Outcome:
    """The name and unit of the return; numbers are multiplied by `scale` before they are shown.

    >>> survival = Outcome.of("survival, %", np.array([0.0, 1.0, 1.0]))
    >>> survival.amount(0.0213, error=0.004), Outcome().amount(2.1, error=0.4)
    ('+2.13 percentage points in survival', '+2.10')
    >>> Outcome.of("cost, EUR", np.array([12.0, 500.0])).title
    'cost, EUR'
    """

    name: str = ""
    unit: str = ""
    scale: Annotated[float, Range(above=0)] = 1.0

    def __post_init__(self) -> None:
        refuse_problems(self)
        if max(len(self.name), len(self.unit)) > LONGEST:
            raise InputError(f"an outcome has a name and a unit of at most {LONGEST} letters each")

    @classmethod
    def of(cls, text: str, returns: FloatArray) -> "Outcome":
        """From "name, unit" and the returns: outcomes that are 0 or 1 are shown in percent, if that is the unit."""
        name, _, unit = (part.strip() for part in text.rpartition(","))
        if "," not in text:
            name, unit = text.strip(), ""
        if not name and not unit:
            raise InputError('an outcome is its name, and its unit after a comma: "survival, %"')
        yes_or_no = bool(np.isin(returns, (0.0, 1.0)).all())
        return cls(name, unit, 100.0 if unit == PERCENT and yes_or_no else 1.0)

    @property
    def title(self) -> str:
        """For the heading of a table; empty where nothing was said."""
        return escaped(", ".join(filter(None, (self.name, self.unit))))

    def amount(self, value: float | None, error: float | None = None) -> str:
        """A gain with its sign, unit and name."""
        whose = f"in {escaped(self.name)}" if self.name else ""
        return " ".join(filter(None, (self.number(value, error, signed=True), self.gain_unit, whose)))

    @property
    def gain_unit(self) -> str:
        """The unit of gains: the difference of two percentages is in percentage points.

        >>> Outcome("survival", "%").gain_unit, Outcome("cost", "EUR").gain_unit
        ('percentage points', 'EUR')
        """
        return "percentage points" if self.unit == PERCENT else escaped(self.unit)

    @property
    def gain_title(self) -> str:
        """For the heading of a table of gains; empty where nothing was said."""
        return ", ".join(filter(None, (escaped(self.name), self.gain_unit)))

    def number(self, value: float | None, error: float | None = None, *, signed: bool = False) -> str:
        """A number alone, in the unit."""
        scaled = [None if one is None else self.scale * one for one in (value, error)]
        return readable(scaled[0], scaled[1], signed=signed)

    def between(self, low: float | None, high: float | None, error: float | None = None) -> str:
        """An interval, in the unit."""
        return "-" if low is None or high is None else f"[{self.number(low, error)}, {self.number(high, error)}]"
