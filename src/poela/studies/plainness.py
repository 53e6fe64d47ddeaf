"""How plainly a policy can be said: from a few words to not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from poela.studies.guards import keeps_guards

if TYPE_CHECKING:
    from poela.studies.selection import Point

HARDLY_SAID = 4.0  # the plainness of policies that cannot be said in words; those of at most SAYABLE can
SAYABLE = 2.0


def plainness_of(point: "Point") -> float:
    """How plainly a policy can be said; higher is less plain.

    >>> from poela.studies.selection import Point
    >>> plainness_of(Point("a", 0, True, {})), plainness_of(Point("a", 0, True, {"plainness": 1.0}))
    (4.0, 1.0)
    """
    known = point.metrics.get("plainness")
    return HARDLY_SAID if known is None else known


def best_in_words(points: "Sequence[Point]", chosen: "Point | None") -> "Point | None":
    """The chosen policy if it can be said in words, else the one of those that is shown to gain most."""
    if chosen is not None and plainness_of(chosen) <= SAYABLE:
        return chosen
    sayable = [point for point in points if plainness_of(point) <= SAYABLE and (point.metrics.get("shown") or 0.0) > 0]
    sayable = [point for point in sayable if keeps_guards(point.metrics)]
    return max(sayable, key=lambda point: point.metrics.get("shown") or 0.0, default=None)
