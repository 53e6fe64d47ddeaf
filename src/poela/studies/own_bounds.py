"""What each policy shows on its own, as if no other had been tried: by which one is found that is worth a trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

from scipy.special import ndtri

from poela.stats.verdict import WORDS, TrustThresholds
from poela.studies.guards import harms
from poela.studies.plainness import is_sayable, needs_no_lots
from poela.studies.selection import Point

NO_ERROR = 1e-6  # of the spread of returns


def promising(points: Sequence[Point]) -> Point | None:
    """The policy that is worth a trial: the highest bound of its own that is above zero, of those that may be tried.

    The bound is that of the gain by weights (`own`), as if no other policy had been tried: for one that is tried in the
    world, where its worth is seen, that is enough.

    >>> bold, mild, lost = ({"own": bound} for bound in (0.5, 0.2, -0.1))
    >>> points = [Point("a", 0, True, bold, "do not trust"), Point("b", 0, True, mild, "caution")]
    >>> promising(points).path_id, promising([Point("c", 0, True, lost, "trust")])
    ('b', None)
    """
    bounds = [(own, item) for item in points if may_be_tried(item) and (own := item.metrics.get("own")) is not None]
    own, best = max(bounds, key=lambda pair: pair[0], default=(0.0, None))
    return best if own > 0 else None


def may_be_tried(point: Point) -> bool:
    """Whether the estimate of a policy can be believed, it harms nothing, and what it does was done in like cases.

    >>> may_be_tried(Point("a", 0, True, {"outside": 0.001}, "caution"))
    True
    >>> may_be_tried(Point("a", 0, True, {}, "do not trust")), may_be_tried(Point("a", 0, True, {"outside": 0.02}))
    (False, False)
    """
    outside = point.metrics.get("outside") or 0.0
    return point.verdict in WORDS[:2] and outside <= TrustThresholds().outside_share[0] and not harms(point.metrics)


def fold_factor(point: Point, folds: int) -> float:
    """By how much folds that teach each other add to the error by weights: if that is known, else the worst case.

    >>> fold_factor(Point("a", 0, True, {"folds_factor": 1.1}), folds=5), fold_factor(Point("a", 0, True, {}), folds=1)
    (1.1, 1.0)
    """
    known = point.metrics.get("folds_factor") if point.metrics.get("controlled") is None else None
    return known if known is not None else sqrt(2.0) if folds > 1 else 1.0


@dataclass(frozen=True)
class Yardstick:
    """By what points are ranked before their own bounds are known: normal errors, and what was achieved before."""

    mean: float  # of the returns of episodes that judge
    spread: float  # their standard deviation
    confidence: float
    folds: int

    def errors_above(self, point: Point) -> float | None:
        """How many standard errors the gain (less what Γ takes) is above zero; None: unknown, or nothing changes.

        >>> Yardstick(1.0, 2.0, 0.95, folds=1).errors_above(Point("a", 0, True, {"sntis": 3.0, "own_error": 0.5}))
        4.0
        """
        value, error = point.metrics.get("sntis"), self._error(point)
        lost = point.metrics.get("own_lost") or 0.0
        return None if value is None or error is None else (value - self.mean - lost) / error

    def at_most(self, point: Point) -> float | None:
        """What its own bound cannot be above, since no interval is narrower than that of a normal error.

        >>> yardstick, point = Yardstick(1.0, 2.0, 0.95, folds=1), Point("a", 0, True, {"sntis": 3.0, "own_error": 0.5})
        >>> round(yardstick.at_most(point), 3)
        1.178
        """
        above, error = self.errors_above(point), self._error(point)
        return None if above is None or error is None else (above - float(ndtri(self.confidence))) * error

    def nearness(self, point: Point) -> float:
        """The higher, the closer to being worth a trial; below zero where there is no gain."""
        above, most = self.errors_above(point), self.at_most(point)
        return -inf if above is None or most is None else above if above > 0 else most

    def _error(self, point: Point) -> float | None:
        error = point.metrics.get("own_error")
        # Without an error the policy is what is done now, up to rounding.
        return None if error is None or error <= NO_ERROR * self.spread else fold_factor(point, self.folds) * error


def _or_least(bound: float | None) -> float:
    return -inf if bound is None else bound


def with_own_bounds(
    points: Sequence[Point], yardstick: Yardstick, own: Callable[[Point], float | None]
) -> tuple[list[Point], Point | None]:
    """Points with their own bounds, as far as the highest of them has to be known, and the one closest to a trial.

    An interval takes time, so that `own` is asked in the order of what it cannot be above, until no other can be
    higher: among all, among those that can be said, and among those that people can carry out. The closest is the one
    whose gain is most standard errors above zero, or the one that shows most among all, if its own bound is higher;
    worth a trial or not. Its bound is always known.

    >>> metrics = [{"sntis": gain, "own_error": 1.0} for gain in (2.0, 4.0)]
    >>> points = [Point(str(place), 0, True, known, "caution") for place, known in enumerate(metrics)]
    >>> found, closest = with_own_bounds(points, Yardstick(0.0, 1.0, 0.95, folds=1), lambda point: 2.2)
    >>> [point.metrics["own"] for point in found], closest.path_id
    ([None, 2.2], '1')
    """
    limits = {
        place: limit
        for place, point in enumerate(points)
        if may_be_tried(point) and (limit := yardstick.at_most(point)) is not None
    }
    bounds: dict[int, float | None] = {}
    for wanted in (lambda point: True, is_sayable, needs_no_lots):
        some = {place: limit for place, limit in limits.items() if wanted(points[place])}
        best = max([0.0, *(bound for place in some if (bound := bounds.get(place)) is not None)])
        for place in sorted(some, key=lambda place: -limits[place]):
            if limits[place] <= best:
                break
            if place not in bounds:
                bounds[place] = own(points[place])
            best = max(best, bounds[place] or 0.0)
    # An error of few effective cases may be too small, which only the interval knows: the higher bound counts.
    shown = [place for place in limits if points[place].metrics.get("shown") is not None]
    near = [max(limits, key=lambda place: yardstick.nearness(points[place]))] if limits else []
    near += [max(shown, key=lambda place: points[place].metrics["shown"] or 0.0)] if shown else []
    for place in near:
        if place not in bounds:
            bounds[place] = own(points[place])
    closest = max(near, key=lambda place: _or_least(bounds[place]), default=None)
    found = [replace(point, metrics={**point.metrics, "own": bounds.get(place)}) for place, point in enumerate(points)]
    return found, None if closest is None else found[closest]
