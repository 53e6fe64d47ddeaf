"""How plainly a policy can be said: from a few words to not at all."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from poela.learners.plainness import BY_LOT
from poela.studies.guards import keeps_guards

if TYPE_CHECKING:
    from poela.studies.selection import Point

HARDLY_SAID = 4.0  # the plainness of policies that cannot be said in words; those of at most SAYABLE can
SAYABLE = BY_LOT


def plainness_of(point: "Point") -> float:
    """How plainly a policy can be said; higher is less plain.

    >>> from poela.studies.selection import Point
    >>> plainness_of(Point("a", 0, True, {})), plainness_of(Point("a", 0, True, {"plainness": 1.0}))
    (4.0, 1.0)
    """
    known = point.metrics.get("plainness")
    return HARDLY_SAID if known is None else known


def is_sayable(point: "Point") -> bool:
    """Whether it can be said in words."""
    return plainness_of(point) <= SAYABLE


def needs_no_lots(point: "Point") -> bool:
    """Whether people can carry it out as it was judged: a rule without odds, or a ban whatever else is done.

    >>> from poela.studies.selection import Point
    >>> [needs_no_lots(Point("a", 0, True, {"plainness": plain})) for plain in (1.0, 2.5, 3.0, None)]
    [True, False, True, False]
    """
    return plainness_of(point) not in (BY_LOT, HARDLY_SAID)


def best_of(points: "Sequence[Point]", chosen: "Point | None", wanted: "Callable[[Point], bool]") -> "Point | None":
    """The chosen policy if it is as wanted, else the one of those with the highest bound above zero.

    That is the bound for all policies together or, where none is chosen, the one of its own.
    """
    if chosen is not None and wanted(chosen):
        return chosen

    def bound(point: "Point") -> float:
        return point.metrics.get("own" if chosen is None else "shown") or 0.0

    known = [point for point in points if wanted(point) and bound(point) > 0]
    if chosen is not None:  # a trial may settle what a guardrail leaves open; what harms has no bound of its own
        known = [point for point in known if keeps_guards(point.metrics)]
    return max(known, key=bound, default=None)
