"""The nearest point of each of several groups, for a few contexts: one product with all points, not one a group.

A server asks about one case, or a few. Asked group by group, most of the time would go to what surrounds each product.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray, IntArray
from poela.neighbours.distances import squared_distances
from poela.neighbours.products import FAR_OUTSIDE, Products, factors_of

FEW = 16  # contexts at once, for which one product is the quicker way
MOST_CANDIDATES = 32  # per context and group: more says that float32 cannot tell these points apart


class NearestOfGroups:
    """Points in groups, none of them empty, ready to be searched by a few contexts.

    >>> search = NearestOfGroups([np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([[0.0, 3.0]])])
    >>> search.squared(np.array([[0.0, 1.0], [4.0, 3.0]]))
    array([[ 1.,  4.],
           [ 9., 16.]])
    """

    def __init__(self, groups: Sequence[FloatArray]) -> None:
        self._groups = tuple(groups)
        sizes = np.array([len(points) for points in groups])
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._sizes = sizes
        low = np.min([points.min(axis=0) for points in groups], axis=0)
        high = np.max([points.max(axis=0) for points in groups], axis=0)
        self._centre = (low + high) / 2
        self._size = float((high - self._centre).max()) or 1.0
        self._bounds = Products(np.zeros((1, len(low))), np.float32)
        g = self._bounds.g
        # Rows of points, and not columns: so each product reads them once, from beginning to end.
        self._factors: NDArray[np.float32] = np.concatenate(
            [factors_of((points - self._centre) / self._size, g).astype(np.float32) for points in groups]
        )

    def squared(self, contexts: FloatArray) -> FloatArray | None:
        """Squared distances [N, groups] to the last bit; None where float32 cannot tell the points apart."""
        centred = (contexts - self._centre) / self._size
        if self._bounds.g >= 0.01 or np.abs(centred).max(initial=0.0) >= FAR_OUTSIDE:
            return None
        norms = np.einsum("ij,ij->i", centred, centred)
        left = np.concatenate([centred, np.ones((len(centred), 1))], axis=1).astype(np.float32)
        scores = self._factors @ left.T  # [M, N]
        smallest = np.minimum.reduceat(scores, self._starts, axis=0)
        limits = self._bounds.limit(smallest, norms)
        within = np.flatnonzero(scores <= np.repeat(limits, self._sizes, axis=0))
        if len(within) > MOST_CANDIDATES * limits.size:
            return None
        return self._smallest(contexts, *np.divmod(within, len(contexts)))

    def _smallest(self, contexts: FloatArray, places: IntArray, rows: IntArray) -> FloatArray:
        """The smallest distance of each context and group, among these pairs of a point and a context."""
        groups = np.searchsorted(self._starts, places, side="right") - 1
        points = np.empty((len(places), contexts.shape[1]))
        edges = np.searchsorted(places, np.append(self._starts, len(self._factors)))
        for group, (start, end) in enumerate(pairwise(edges)):
            points[start:end] = self._groups[group][places[start:end] - self._starts[group]]
        result = np.full((len(contexts), len(self._groups)), np.inf)
        np.minimum.at(result, (rows, groups), squared_distances(contexts[rows], points))
        return result
