"""The nearest point of each of several groups, for a few contexts: one product with all points, not one a group.

A server asks about one case, or a few. Asked group by group, most of the time would go to what surrounds each product.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.neighbours.products import FAR_OUTSIDE, Products, factors_of, squared_distances
from poela.neighbours.quantised import MOST_FEATURES, MakeProducts, Quantised
from poela.neighbours.quantised import Products as ByteProducts

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
        self._points: FloatArray | None = None  # of all groups together, where this is asked for often
        self._in_bytes: tuple[Quantised, ByteProducts] | None = None

    def in_bytes(self, make: MakeProducts) -> None:
        """From now on, look at points in eight bits a number first, by what multiplies them; answers stay the same."""
        points = np.concatenate(self._groups)
        if points.shape[1] <= MOST_FEATURES:
            self._points = points
            known, codes = Quantised.of(points)
            self._in_bytes = known, make(codes, known.halves(codes))

    @cached_property
    def _factors(self) -> NDArray[np.float32]:
        """Rows of points, and not columns: so each product reads them once, from beginning to end."""
        g = self._bounds.g
        return np.concatenate(
            [factors_of((points - self._centre) / self._size, g).astype(np.float32) for points in self._groups]
        )

    def squared(self, contexts: FloatArray) -> FloatArray | None:
        """Squared distances [N, groups] to the last bit; None where float32 cannot tell the points apart."""
        result = np.empty((len(contexts), len(self._groups)))
        left = np.arange(len(contexts)) if self._in_bytes is None else self._told_by_bytes(contexts, result)
        if len(left):
            candidates = self._candidates(contexts[left])
            if candidates is None:
                return None
            result[left] = self._smallest(contexts[left], *candidates)
        return result

    def _told_by_bytes(self, contexts: FloatArray, result: FloatArray) -> IntArray:
        """Write the distances of contexts into the result; the rows that bytes leave too many points for."""
        assert self._in_bytes is not None
        known, product = self._in_bytes
        codes, sizes, rests = known.of_contexts(contexts)
        scores = product(codes)  # [N, M]
        smallest = np.minimum.reduceat(scores, self._starts, axis=1)
        limits = known.nearest_limit(smallest, sizes[:, None], rests[:, None])
        within = scores <= np.repeat(limits, self._sizes, axis=1)
        told: BoolArray = np.count_nonzero(within, axis=1) <= MOST_CANDIDATES * len(self._groups)
        rows = np.flatnonzero(told)
        if len(rows):
            own = within if len(rows) == len(within) else within[rows]
            asked, places = np.divmod(np.flatnonzero(own), own.shape[1])
            asked = np.concatenate([asked, np.repeat(np.arange(len(rows)), len(known.odd))])
            places = np.concatenate([places, np.tile(known.odd, len(rows))])
            result[rows] = self._smallest(contexts[rows], places, asked)
        return np.flatnonzero(~told)

    def _candidates(self, contexts: FloatArray) -> tuple[IntArray, IntArray] | None:
        """Places of points and the rows of contexts that they may be nearest to, by products in float32."""
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
        places, rows = np.divmod(within, len(contexts))
        return places, rows

    def _smallest(self, contexts: FloatArray, places: IntArray, rows: IntArray) -> FloatArray:
        """The smallest distance of each context and group, among these pairs of a point and a context."""
        groups = np.searchsorted(self._starts, places, side="right") - 1
        result = np.full((len(contexts), len(self._groups)), np.inf)
        np.minimum.at(result, (rows, groups), squared_distances(contexts[rows], self._at(places, groups)))
        return result

    def _at(self, places: IntArray, groups: IntArray) -> FloatArray:
        """The points at these places."""
        if self._points is not None:
            return self._points[places]
        points = np.empty((len(places), self._groups[0].shape[1]))
        for group in np.unique(groups).tolist():
            here = np.flatnonzero(groups == group)
            points[here] = self._groups[group][places[here] - self._starts[group]]
        return points
