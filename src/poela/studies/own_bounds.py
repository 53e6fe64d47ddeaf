"""What each policy shows on its own, as if no other had been tried: by which one is found that is worth a trial."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

from scipy.special import ndtri

from poela.evaluation.bounds import in_clusters
from poela.evaluation.contributions import Contributions, standard_error
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.verdict import WORDS, TrustThresholds
from poela.studies.selection import Point


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
    """Whether the estimate of a policy can be believed at all, and what it does was done before in like cases.

    >>> may_be_tried(Point("a", 0, True, {"outside": 0.001}, "caution"))
    True
    >>> may_be_tried(Point("a", 0, True, {}, "do not trust")), may_be_tried(Point("a", 0, True, {"outside": 0.02}))
    (False, False)
    """
    outside = point.metrics.get("outside") or 0.0
    return point.verdict in WORDS[:2] and outside <= TrustThresholds().outside_share[0]


def paired_error(evidence: Evidence) -> float:
    """The standard error of the gain by weights, in which what both policies share cancels."""
    clusters = evidence.logs.clusters
    of_value = in_clusters(sntis(evidence), clusters)
    return standard_error(of_value.less(in_clusters(Contributions.mean(evidence.returns), clusters)))


def fold_factor(point: Point, folds: int) -> float:
    """By how much folds that teach each other add to the error: as far as that is known, else the worst case.

    >>> fold_factor(Point("a", 0, True, {"folds_factor": 1.1}), folds=5), fold_factor(Point("a", 0, True, {}), folds=1)
    (1.1, 1.0)
    """
    known = point.metrics.get("folds_factor")
    return known if known is not None else sqrt(2.0) if folds > 1 else 1.0


def at_most(point: Point, mean: float, confidence: float, folds: int) -> float | None:
    """What a point's own bound cannot be above: that of a normal error, where `mean` is what was achieved before.

    >>> round(at_most(Point("a", 0, True, {"sntis": 3.0, "own_error": 0.5}), mean=1.0, confidence=0.95, folds=1), 3)
    1.178
    """
    value, error = point.metrics.get("sntis"), point.metrics.get("own_error")
    if value is None or error is None:
        return None
    return value - mean - fold_factor(point, folds) * float(ndtri(confidence)) * error


def with_own_bounds(
    points: Sequence[Point], limit: Callable[[Point], float | None], own: Callable[[Point], float | None]
) -> tuple[list[Point], Point | None]:
    """Points with their own bounds, as far as the highest of them has to be known, and the one closest to a trial.

    An interval takes time, so that `own` is asked in the order of what it cannot be above (`limit`), until no other
    can be higher. The closest is the first in that order, worth a trial or not: its bound is always known.

    >>> points = [Point(name, 0, True, {"most": most}, "caution") for name, most in (("a", 1.0), ("b", 3.0))]
    >>> found, closest = with_own_bounds(points, lambda point: point.metrics["most"], lambda point: 2.0)
    >>> [point.metrics["own"] for point in found], closest.path_id
    ([None, 2.0], 'b')
    """
    limits = {place: limit(point) for place, point in enumerate(points) if may_be_tried(point)}
    known = {place: most for place, most in limits.items() if most is not None}
    order = sorted(known, key=lambda place: -known[place])
    bounds: dict[int, float] = {}
    for place in order:
        if place != order[0] and known[place] <= max([0.0, *bounds.values()]):
            break
        bound = own(points[place])
        if bound is not None:
            bounds[place] = bound
    found = [replace(point, metrics={**point.metrics, "own": bounds.get(place)}) for place, point in enumerate(points)]
    return found, found[order[0]] if order else None
