"""Neighbours by SciPy's k-d tree, for few features; its distances only propose, exact ones decide."""

from functools import cached_property
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.neighbours.distances import nearest_first, squared_distances

ROUNDING = 1e-12  # far above the relative rounding error of distances within the tree


class TreeSearch:
    """Distinct points in a given order, each logged so many times.

    >>> tree = TreeSearch(np.array([[0.0], [2.0]]), copies=np.array([1, 3]))
    >>> tree.nearest(np.array([[1.0]]), 1)
    (array([[0]]), array([[1.]]))
    >>> tree.counts(np.array([[1.0], [2.0]]), squared_radius=1.0)
    array([4, 3])
    """

    def __init__(self, points: FloatArray, copies: IntArray) -> None:
        from scipy.spatial import cKDTree

        self._points, self._copies = points, copies
        # Such a tree is built sooner, and searched about as fast, as with SciPy's own choices.
        self._tree = cKDTree(points, leafsize=32, compact_nodes=False)

    def nearest(self, contexts: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """The k nearest points [N, k] and their squared distances; of equally near points the first ones.

        They are the first k of k + 1 neighbours, where the last one lies clearly beyond them.
        """
        if k == len(self._points):
            return self._nearest_with_ties(contexts, k)
        reach, candidates = self._tree.query(contexts, k=np.arange(1, k + 2))
        nearest = candidates[:, :k]
        squared = squared_distances(contexts[:, None], self._points[nearest])
        # Nearly always the tree has them in order; where it may not, or a tie is cut, a closer look is taken.
        open_rows = reach[:, -1] ** 2 * (1 - ROUNDING) <= squared.max(axis=1)
        open_rows |= (squared[:, 1:] <= squared[:, :-1]).any(axis=1)
        if open_rows.any():
            nearest[open_rows], squared[open_rows] = self._nearest_with_ties(contexts[open_rows], k)
        return nearest, squared

    def _nearest_with_ties(self, contexts: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Asks for more neighbours until the last one lies clearly beyond the k-th, so that no tie is cut."""
        nearest = np.empty((len(contexts), k), np.int64)
        squared = np.empty((len(contexts), k))
        open_rows = np.arange(len(contexts))
        wanted = 2 * (k + 1)
        while len(open_rows):
            wanted = min(wanted, len(self._points))
            reach, candidates = self._tree.query(contexts[open_rows], k=np.arange(1, wanted + 1))
            exact = squared_distances(contexts[open_rows, None], self._points[candidates])
            nearest[open_rows], squared[open_rows] = nearest_first(candidates, exact, k)
            if wanted == len(self._points):
                break
            settled = reach[:, -1] ** 2 * (1 - ROUNDING) > squared[open_rows, -1]
            open_rows = open_rows[~settled]
            wanted *= 2
        return nearest, squared

    @cached_property
    def _tree_of_rows(self) -> Any:
        from scipy.spatial import cKDTree

        return self._tree if self._copies.max() == 1 else cKDTree(np.repeat(self._points, self._copies, axis=0))

    def counts(self, contexts: FloatArray, squared_radius: float) -> IntArray:
        """How many logged contexts lie within the radius [N].

        Counted a little within and a little beyond it; where these differ, distances are computed.
        """
        radius = float(np.sqrt(squared_radius))
        if np.isinf(radius):
            return np.full(len(contexts), int(self._copies.sum()))
        beyond = radius * (1 + ROUNDING)
        counts = np.asarray(self._tree_of_rows.query_ball_point(contexts, beyond, return_length=True), np.int64)
        within = self._tree_of_rows.query_ball_point(contexts, radius * (1 - ROUNDING), return_length=True)
        unclear = np.flatnonzero(counts != within if radius > 0 else counts)
        inside = self._tree.query_ball_point(contexts[unclear], beyond)
        rows = np.repeat(np.arange(len(unclear)), [len(one) for one in inside])
        points = np.concatenate([np.empty(0, np.int64), *inside]).astype(np.int64)
        near = squared_distances(contexts[unclear][rows], self._points[points]) <= squared_radius
        weights = np.where(near, self._copies[points], 0)
        counts[unclear] = np.bincount(rows, weights, minlength=len(unclear)).astype(np.int64)
        return counts


def spatial_order(contexts: FloatArray) -> IntArray:
    """Rows in an order in which neighbours follow each other: asked so, they find in the cache what they need."""
    from scipy.spatial import cKDTree

    tree = cKDTree(contexts, leafsize=32, compact_nodes=False, balanced_tree=False)
    return np.asarray(tree.indices, np.int64)
