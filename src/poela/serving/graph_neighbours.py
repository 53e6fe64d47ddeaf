"""Nearest logged contexts in a graph: matrix products propose a few, whose distances are then taken in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.eligibility.foreign import OwnScale
from poela.neighbours.products import rounding
from poela.neighbours.scales import FeatureScale
from poela.neighbours.search import Neighbours
from poela.serving.graph import Graph

PROPOSED = 8  # beyond those wanted: so many may be so near each other that a product cannot tell them apart
PROPOSED_IN_ORDER = 32  # where it matters which of equally near contexts is taken
FLOAT32_ERROR = 1e-5  # of products of float32 numbers and their sums, relative to the largest squared size


SAMPLED = 500


@dataclass(frozen=True)
class NearestPoints:
    """The nearest logged contexts of each row, as names of tensors."""

    places: str  # [N, k] among the points
    squared: str  # [N, k], nearest first


def scaled_in(graph: Graph, scale: FeatureScale | OwnScale, contexts: str) -> str:
    """Contexts as distances see them, in float64: to the last bit as `FeatureScale` has them."""
    assert isinstance(scale, FeatureScale), "what no file can hold is refused before"
    values, factors = graph.cast(contexts, np.float64), graph.constant(scale.factors)
    if scale.knots is None:
        return graph.op("Mul", values, factors)
    passed = graph.op("GreaterOrEqual", graph.widened(values, 2), graph.constant(scale.knots))
    line = graph.op("ReduceSum", graph.cast(passed, np.int64), graph.constant([2], np.int64), keepdims=0)
    start, score, slope = (graph.op("GatherElements", graph.constant(part), line, axis=0) for part in scale.lines)
    way = graph.op("Mul", graph.op("Sub", values, start), slope)
    return graph.op("Mul", graph.op("Add", score, way), factors)


def nearest(
    graph: Graph, features: str, points: FloatArray, k: int, *, proposed: int, coarse: bool = False, barred: str = ""
) -> NearestPoints:
    """The k nearest points of each row of float64 features; of equally near ones, the first.

    `barred` [N, M] says which points do not count. With `coarse` the products are taken in float32.
    """
    dtype = np.float32 if coarse else np.float64
    centre = np.round(points.mean(axis=0))  # whole, so that whole numbers stay so and products of them exact
    centred = points - centre
    moved = graph.cast(graph.op("Sub", features, graph.constant(centre)), dtype)
    products = graph.op("MatMul", moved, graph.constant(-2 * centred.T, dtype))
    scores = graph.op("Add", products, graph.constant([np.einsum("ij,ij->i", centred, centred)], dtype))
    if barred:
        scores = graph.op("Where", barred, graph.constant(np.inf, dtype), scores)
    wanted = graph.constant([min(k + proposed, len(points))], np.int64)
    _, candidates = graph.ops("TopK", scores, wanted, outputs=2, axis=1, largest=0, sorted=0)
    in_order, _ = graph.ops("TopK", candidates, wanted, outputs=2, axis=1, largest=0, sorted=1)
    if len(points) == 1:  # two columns at least: a single column of features would be summed in another order
        in_order = graph.op("Concat", in_order, in_order, axis=1)
    squared = _squared(graph, features, points, in_order)
    if barred:
        left_out = graph.op("GatherElements", barred, in_order, axis=1)
        squared = graph.op("Where", left_out, graph.constant(np.inf), squared)
    if graph.deciding and len(points) > k + proposed:
        _all_proposed(graph, (moved, scores, candidates), squared, centred, k, dtype)
    count = graph.constant([k], np.int64)
    exact, places = graph.ops("TopK", squared, count, outputs=2, axis=1, largest=0, sorted=1)
    return NearestPoints(graph.op("GatherElements", in_order, places, axis=1), exact)


def _all_proposed(
    graph: Graph, found: tuple[str, str, str], squared: str, centred: FloatArray, k: int, dtype: Any
) -> None:
    """Note where a point that was not proposed may be as near as the k-th, or one of equals."""
    moved, scores, candidates = found
    last = graph.along("ReduceMax", graph.op("GatherElements", scores, candidates, axis=1))
    own = graph.cast(graph.along("ReduceSumSquare", moved), np.float64)
    g = rounding(centred.shape[1], dtype)
    largest = float(np.einsum("ij,ij->i", centred, centred).max())
    room = graph.op("Mul", graph.op("Add", own, graph.constant(2 * largest)), graph.constant(4 * g))
    least = graph.op("Sub", graph.op("Add", graph.cast(last, np.float64), own), room)
    count = graph.constant([k], np.int64)
    wanted, _ = graph.ops("TopK", squared, count, outputs=2, axis=1, largest=0, sorted=1)
    graph.doubts.sure.append(graph.op("Greater", least, graph.along("ReduceMax", wanted)))


def _squared(graph: Graph, features: str, points: FloatArray, places: str) -> str:
    """Squared distances [N, K] of features [N, d] to some of the points, summed in the order of the features.

    With features first, runtimes add whole rows one after the other, as `Neighbours` does: to the last bit.
    """
    chosen = graph.op("Gather", graph.constant(points.T), places, axis=1)  # [d, N, K]
    differences = graph.op("Sub", graph.widened(graph.op("Transpose", features), 2), chosen)
    return graph.op("ReduceSum", graph.op("Mul", differences, differences), graph.constant([0], np.int64), keepdims=0)


def counted_within(graph: Graph, features: str, points: FloatArray, squared_radius: float, barred: str = "") -> str:
    """How many points lie within the radius of each row, [N, 1] in float64."""
    centre = np.round(points.mean(axis=0))
    centred = points - centre
    norms = np.einsum("ij,ij->i", centred, centred)
    moved = graph.op("Sub", features, graph.constant(centre))
    own = graph.along("ReduceSumSquare", moved)
    products = graph.op("MatMul", moved, graph.constant(-2 * centred.T))
    squared = graph.op("Add", graph.op("Add", products, graph.constant([norms])), own)
    # Rounding of products grows with the sizes of what is multiplied: within it, contexts count as at the radius.
    room = graph.op("Add", graph.op("Mul", own, graph.constant(1e-15)), graph.constant(1e-15 * norms.max()))
    limit = graph.op("Add", room, graph.constant(squared_radius))
    within = graph.op("LessOrEqual", squared, limit)
    if barred:
        within = graph.op("And", within, graph.op("Not", barred))
    return graph.along("ReduceSum", graph.cast(within, np.float64))


def in_order_of_ties(features: FloatArray) -> IntArray:
    """The rows in the order in which `Neighbours` takes equally near ones."""
    return Neighbours(features).order


def coarse_is_enough(points: FloatArray, squared_radius: float) -> bool:
    """Whether float32 products tell contexts apart on the scale of this radius.

    >>> coarse_is_enough(np.eye(2), 0.1), coarse_is_enough(1e6 * np.eye(2), 0.1)
    (True, False)
    """
    return _float32_error(points) < 0.01 * squared_radius


def coarse_tells_apart(points: FloatArray, k: int, proposed: int) -> bool:
    """Whether float32 products find the k nearest among so many more; not where many contexts are equally near.

    >>> coarse_tells_apart(np.random.default_rng(0).normal(size=(500, 2)), 1, 8)
    True
    >>> coarse_tells_apart(np.zeros((500, 2)), 1, 8)
    False
    """
    if len(points) <= k + proposed:
        return True
    sample = points[:: max(len(points) // SAMPLED, 1)]
    _, squared = Neighbours(points).k_nearest(sample, k + proposed)
    return _float32_error(points) < 0.1 * float((squared[:, -1] - squared[:, k - 1]).min())


def _float32_error(points: FloatArray) -> float:
    centred = points - points.mean(axis=0)
    return FLOAT32_ERROR * float(np.square(centred).sum(axis=1).max(initial=0.0))
