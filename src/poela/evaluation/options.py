"""Settings of evaluation that people give by name; nothing heavy is imported, since help texts are made of them."""

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from poela.core.errors import InputError
from poela.core.options import CHOOSING, TRYING, Option, numbers_in
from poela.core.typed import Discount, Level

if TYPE_CHECKING:
    from poela.evaluation.cap import Cap
    from poela.stats.bounds import Bounds


def bounds_in(returns: str) -> "Bounds":
    """The range of returns that `--returns 0,1` declares.

    >>> bounds_in("0,1")
    Bounds(lowest_return=0.0, highest_return=1.0, largest_weight=None)
    """
    from poela.stats.bounds import Bounds

    numbers = numbers_in("--returns", returns)
    if len(numbers) != 2 or not all(map(isfinite, numbers)) or numbers[0] > numbers[1]:
        raise InputError(f"--returns {returns} must be two numbers, the lowest and then the highest: --returns 0,1")
    return Bounds(*numbers)


def cap_in(text: str) -> "Cap":
    """The cap that `--cap 0.99` or `--cap -50,0` asks for.

    >>> cap_in("0.99").share, cap_in("-50,0").lowest
    (0.99, -50.0)
    """
    from poela.evaluation.cap import WHAT, Cap

    numbers = numbers_in("--cap", text)
    try:
        cap = Cap.of(numbers[0] if len(numbers) == 1 else numbers)
    except InputError:
        cap = None
    if cap is None:
        raise InputError(f"--cap {text} must be {WHAT}: --cap=-50,0")
    return cap


BOUNDS = "tuple[float, float] | Bounds | None"
RETURNS = Option(
    "Lowest and highest possible return, e.g. 0,1.", CHOOSING, name="returns", read=bounds_in, takes=BOUNDS
)

CAP = Option(
    "Cap (winsorize) returns, for heavy tails: 0.99 clips them to the 1% and 99% quantiles of the log; or give the "
    "lowest and highest value, e.g. -50,0. All results are then about capped returns.",
    CHOOSING,
    read=cap_in,
    takes="float | tuple[float, float] | Cap | None",
)


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Those settings of `Scoring` that the command line offers."""

    discount: Annotated[Discount, Option("Discount factor (gamma) per step; 1: no discounting.", TRYING)] = 1.0
    bounds: Annotated[Any, RETURNS] = None
    cap: Annotated[Any, CAP] = None
    level: Annotated[Level, Option("Confidence level of the interval around the final estimate.", CHOOSING)] = 0.95
