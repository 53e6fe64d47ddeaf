"""Settings of evaluation that people give by name; nothing heavy is imported, since help texts are made of them."""

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from poela.core.errors import InputError
from poela.core.options import CHOOSING, TRYING, Option, numbers_in
from poela.core.typed import Discount, Level

if TYPE_CHECKING:
    from poela.evaluation.bounds import Bounds


def bounds_in(returns: str) -> "Bounds":
    """The range of returns that `--returns 0,1` declares.

    >>> bounds_in("0,1")
    Bounds(lowest_return=0.0, highest_return=1.0, largest_weight=None)
    """
    from poela.evaluation.bounds import Bounds

    numbers = numbers_in("--returns", returns)
    if len(numbers) != 2 or not all(map(isfinite, numbers)) or numbers[0] > numbers[1]:
        raise InputError(f"--returns {returns} must be two numbers, the lowest and then the highest: --returns 0,1")
    return Bounds(*numbers)


RETURNS = Option("The lowest and highest possible return, e.g. 0,1.", CHOOSING, name="returns", read=bounds_in)


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Those settings of `Scoring` that the command line offers."""

    discount: Annotated[Discount, Option("What a reward counts one step later; 1: as much.", TRYING)] = 1.0
    bounds: Annotated[Any, RETURNS] = None
    level: Annotated[Level, Option("Confidence level of the interval around the final estimate.", CHOOSING)] = 0.95
