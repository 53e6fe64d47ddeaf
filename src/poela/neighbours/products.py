"""Squared distances bounded by matrix products, with room for their rounding errors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray, IntArray

# Squared distances to the last bit, and the nearest by them.


def squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Summed in the order of the features, without fused operations: the same bits on every machine and runtime.

    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([25.,  1.])
    """
    squares = left - right
    squares *= squares
    total = np.zeros(squares.shape[:-1])
    for feature in range(squares.shape[-1]):
        total += squares[..., feature]
    return total


def nearest_first(candidates: IntArray, squared: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """The k nearest candidates of each row, and their squared distances; of equally near ones the smaller numbers.

    >>> nearest_first(np.array([[7, 8, 9], [4, 3, 2]]), np.array([[2.0, 0.0, 1.0], [5.0, 5.0, 5.0]]), 2)
    (array([[8, 9],
           [2, 3]]), array([[0., 1.],
           [5., 5.]]))
    """
    order = np.argsort(squared, axis=1)  # quick, but blind to the numbers
    ordered = np.take_along_axis(squared, order[:, : k + 1], axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    order[tied] = np.lexsort((candidates[tied], squared[tied]), axis=1)
    return np.take_along_axis(candidates, order[:, :k], axis=1), ordered[:, :k]


BLOCK = 4096  # logged contexts in one matrix product
GROUPS = 4  # of scores for each wanted neighbour
FAR_OUTSIDE = 100.0  # times the extent of the logged contexts


class Products:
    """Bounds on squared distances from matrix products.

    With ŝ the computed |y|²(1 − 2g) − 2x·y, every squared distance satisfies
    ŝ + |x|²(1 − g) ≤ |x − y|² ≤ ŝ + |x|²(1 − g) + 2g(|x|² + 2|y|²), where g = 2(d + 8)ε bounds the rounding of centred
    inputs, products and sums, and of the distance itself (Higham 2002, section 3.1). |y|² ≤ 2|x|² + 2|x − y|² frees
    the upper bound of y.
    """

    def __init__(self, points: FloatArray, dtype: type[np.float32] | type[np.float64]) -> None:
        self.dtype = dtype
        self.g = rounding(points.shape[1], dtype)
        factors = factors_of(points, self.g).astype(dtype)
        self.largest = float(np.einsum("ij,ij->i", points, points).max())
        starts = range(0, len(points), BLOCK)
        self.blocks: list[NDArray[Any]] = [np.ascontiguousarray(factors[start : start + BLOCK].T) for start in starts]
        self._underflow = underflow(points.shape[1], dtype)

    def candidates(self, contexts: FloatArray, k: int, at_most: float = np.inf) -> tuple[IntArray, IntArray]:
        """Pairs (row, point) that hold the k nearest points of every row; none if that takes more than `at_most`."""
        left: NDArray[Any] = np.concatenate([contexts, np.ones((len(contexts), 1))], axis=1).astype(self.dtype)
        norms = np.einsum("ij,ij->i", contexts, contexts)
        smallest: NDArray[Any] = np.full((len(contexts), k), np.inf, self.dtype)
        blocks: list[tuple[IntArray, IntArray, NDArray[Any]]] = []
        count = 0
        for block, factors in enumerate(self.blocks):
            scores: NDArray[Any] = np.matmul(left, factors)
            smallest = _k_smallest(smallest, scores)
            flat = np.flatnonzero(scores <= self.limit(smallest[:, -1], norms)[:, None])
            rows, columns = np.divmod(flat, scores.shape[1])
            blocks.append((rows, columns + block * BLOCK, scores.ravel()[flat]))
            count += len(flat)
            if count > at_most * (block + 1):
                return rows[:0], rows[:0]
        rows, points, of_pairs = (np.concatenate(column) for column in zip(*blocks, strict=True))
        within = of_pairs <= self.limit(smallest[:, -1], norms)[rows]
        within &= within.sum() <= at_most
        return rows[within], points[within]

    def counts(
        self, contexts: FloatArray, squared: float, copies: IntArray | None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """How many points are surely within [n], and the pairs (row, point) of which that is not sure."""
        left: NDArray[Any] = np.concatenate([contexts, np.ones((len(contexts), 1))], axis=1).astype(self.dtype)
        norms = np.einsum("ij,ij->i", contexts, contexts)
        slack = 2 * self.g * (norms + 2 * self.largest) + self._underflow
        reach = squared - norms * (1 - self.g)
        surely = np.nextafter((reach - slack).astype(self.dtype), self.dtype(-np.inf))[:, None]
        perhaps = np.nextafter((reach + self._underflow).astype(self.dtype), self.dtype(np.inf))[:, None]
        counts = np.zeros(len(contexts), np.int64)
        unclear: list[tuple[IntArray, IntArray]] = []
        for block, factors in enumerate(self.blocks):
            scores: NDArray[Any] = np.matmul(left, factors)
            within = scores <= surely
            here = None if copies is None else copies[block * BLOCK : block * BLOCK + scores.shape[1]]
            counts += np.count_nonzero(within, axis=1) if here is None else within @ here
            rows, columns = np.divmod(np.flatnonzero((scores <= perhaps) != within), scores.shape[1])
            unclear.append((rows, columns + block * BLOCK))
        rows, points = (np.concatenate(column) for column in zip(*unclear, strict=True))
        return counts, rows, points

    def limit(self, kth: NDArray[Any], norms: FloatArray) -> NDArray[Any]:
        """No pair with a score above this is among the nearest, if so many have scores of at most `kth`."""
        limit = limit_of(kth.astype(np.float64), norms, self.g) + self._underflow
        return np.asarray(np.nextafter(limit.astype(self.dtype), self.dtype(np.inf)))


def rounding(n_features: int, dtype: Any) -> float:
    """The g of the bounds."""
    return 2 * (n_features + 8) * float(np.finfo(dtype).eps)


def underflow(n_features: int, dtype: Any) -> float:
    """What products of numbers near 0 may lose."""
    return float(np.finfo(dtype).tiny) * 10 * FAR_OUTSIDE * (n_features + 1)


def factors_of(points: FloatArray, g: float) -> FloatArray:
    """What contexts, with a 1 at their end, are multiplied by [n, d + 1]."""
    norms = np.einsum("ij,ij->i", points, points)
    return np.concatenate([-2 * points, norms[:, None] * (1 - 2 * g)], axis=1)


def limit_of(kth: Any, norms: Any, g: float) -> Any:
    """No pair with a score above this is among the k nearest, if k pairs have scores of at most `kth`."""
    return (kth + norms * (1 + 9 * g)) / (1 - 8 * g) - norms * (1 - g)


def _k_smallest(smallest: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
    """In each row, k numbers that k different scores do not exceed, the largest last; near the k smallest."""
    k = smallest.shape[1]
    if k == 1:
        return np.asarray(np.minimum(smallest, scores.min(axis=1, keepdims=True)))
    # Minima of disjoint groups of scores will do, and are much quicker to sort; few groups would let too many pass.
    n = scores.shape[1]
    per_group = max(1, min(32, n // (GROUPS * k)))
    groups = n // per_group
    minima = scores[:, : groups * per_group].reshape(len(scores), per_group, groups).min(axis=1)
    return np.partition(np.concatenate([smallest, minima], axis=1), k - 1, axis=1)[:, :k]
