"""Exact nearest neighbours among logged contexts: a tree for few features, matrix products for many.

Either way the search only proposes candidates, with room for its rounding error; their distances are then
recomputed from the difference vectors in float64. So a context that was logged is at distance exactly 0, and the
answer depends neither on the order of the logged contexts nor on which contexts are asked for together.
"""

import sys
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.threads import for_each, for_each_by_torch
from poela.neighbours.products import BLOCK, FAR_OUTSIDE, Products, nearest_first, squared_distances
from poela.neighbours.tensors import TensorSearch, device_for_search

# Neighbours by SciPy's k-d tree, for few features; its distances only propose, exact ones decide.

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


TREE_FEATURES = 6  # above this, matrix products are faster than a tree (benchmarks/nearest_actions.py)
LARGE_TREE = 1 << 15  # points that no longer fit a cache near the processor
ROWS_OF_TREE = 1 << 15  # neighbours looked for in one go
CHUNK = 1 << 21  # pairs looked at in one go: their scores stay in the cache
MANY_PAIRS = 1 << 26  # for which it is worth while to wait for torch, and for a GPU
SOME_PAIRS = 1 << 18  # for which torch is faster, once it is there
ROWS_OF_TENSORS = {"cpu": 1 << 13, "cuda": 1 << 17}  # contexts in one go
REFINED = 1 << 12  # pairs whose distances are recomputed in one go
MANY_CANDIDATES = 32  # per wanted neighbour: more says that float32 cannot tell these contexts apart


def k_nearest(contexts: ArrayLike, logged: ArrayLike, k: int) -> tuple[IntArray, FloatArray]:
    """The rows [N, k] of the k nearest logged contexts, nearest first, and their squared Euclidean distances.

    >>> rows, squared = k_nearest([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0], [9.0, 9.0]], k=2)
    >>> rows, squared
    (array([[1, 0]]), array([[ 1., 25.]]))
    """
    return Neighbours(logged).k_nearest(contexts, k)


class Neighbours:
    """Logged contexts, ready to be searched.

    >>> Neighbours([[0.0], [2.0], [2.0]]).nearest([[1.5], [2.0]])
    (array([1, 1]), array([0.25, 0.  ]))
    """

    def __init__(self, logged: ArrayLike) -> None:
        # Adding 0 turns −0 into 0, so that equal contexts have equal bytes.
        logged = np.ascontiguousarray(logged, np.float64) + 0.0
        if logged.ndim != 2 or len(logged) == 0:
            raise InputError(f"logged contexts must be a matrix with at least one row, not of shape {logged.shape}")
        self.n_logged, self.n_features = logged.shape
        if self.n_features == 0:
            logged = np.zeros((self.n_logged, 1))  # without features all contexts are the same
        self._rows, self._starts = _equal_rows(logged)
        self._points = logged[self._rows[self._starts[:-1]]]  # each context once, in an order of their values

    @property
    def distinct(self) -> FloatArray:
        """Each context once [m, d]."""
        return self._points

    @property
    def order(self) -> IntArray:
        """The logged rows in the order in which equally near ones are taken; equal contexts stand together.

        >>> Neighbours([[2.0], [0.0], [2.0]]).order
        array([1, 0, 2])
        """
        return self._rows

    def means_of_equal(self, values: FloatArray) -> FloatArray:
        """Values [n] of the logged rows, each replaced by the mean over all equal contexts.

        >>> Neighbours([[2.0], [0.0], [2.0]]).means_of_equal(np.array([1.0, 5.0, 3.0]))
        array([2., 5., 2.])
        """
        result = np.empty(self.n_logged)
        result[self._rows] = np.repeat(
            np.add.reduceat(values[self._rows], self._starts[:-1]) / self._copies, self._copies
        )
        return result

    def nearest(self, contexts: ArrayLike) -> tuple[IntArray, FloatArray]:
        """The row [N] of the nearest logged context, and its squared Euclidean distance [N]."""
        rows, squared = self.k_nearest(contexts, 1)
        return rows[:, 0], squared[:, 0]

    def k_nearest(self, contexts: ArrayLike, k: int) -> tuple[IntArray, FloatArray]:
        """The rows [N, k] of the k nearest logged contexts, nearest first, and their squared distances."""
        if not 1 <= k <= self.n_logged:
            raise InputError(f"{k} neighbours were asked for among {self.n_logged}: choose from 1 to {self.n_logged}")
        contexts = self._checked(contexts)
        distinct = min(k, len(self._points))
        by_tree = self.n_features <= TREE_FEATURES
        pairs = len(contexts) * len(self._points)
        if k == 1 and not by_tree and pairs >= (SOME_PAIRS if "torch" in sys.modules else MANY_PAIRS):
            return self._expand(*self._ask_tensors(contexts, device_for_search() if pairs >= MANY_PAIRS else "cpu"), k)
        search = self._tree.nearest if by_tree else self._ask_products
        rows_at_once = max(1, ROWS_OF_TREE // k if by_tree else CHUNK // min(len(self._points), BLOCK))
        points = np.empty((len(contexts), distinct), np.int64)
        squared = np.empty((len(contexts), distinct))
        order = spatial_order(contexts) if by_tree and min(len(contexts), len(self._points)) > LARGE_TREE else None

        def answer(start: int) -> None:
            chunk = slice(start, start + rows_at_once)
            here = chunk if order is None else order[chunk]
            points[here], squared[here] = search(contexts[here], distinct)

        for_each(answer, range(0, len(contexts), rows_at_once))
        return self._expand(points, squared, k)

    def count_within(self, contexts: ArrayLike, squared_radius: float) -> IntArray:
        """How many logged contexts [N] lie at a squared distance of at most this.

        >>> Neighbours([[0.0], [2.0], [2.0]]).count_within([[0.0], [1.0], [9.0]], squared_radius=1.0)
        array([1, 3, 0])
        """
        contexts = self._checked(contexts)
        if self._copies.max() > 1 and len(contexts) > 1:  # where contexts come again, so do those that are asked about
            rows, starts = _equal_rows(contexts + 0.0)
            counts = np.empty(len(contexts), np.int64)
            counts[rows] = np.repeat(self._counts(contexts[rows[starts[:-1]]], squared_radius), np.diff(starts))
            return counts
        return self._counts(contexts, squared_radius)

    def _counts(self, contexts: FloatArray, squared_radius: float) -> IntArray:
        by_tree = self.n_features <= TREE_FEATURES
        rows_at_once = max(1, CHUNK // min(len(self._points), BLOCK))
        counts = np.empty(len(contexts), np.int64)

        def answer(start: int) -> None:
            chunk = slice(start, start + rows_at_once)
            count = self._tree.counts if by_tree else self._count_by_products
            counts[chunk] = count(contexts[chunk], squared_radius)

        for_each(answer, range(0, len(contexts), rows_at_once))
        return counts

    def _checked(self, contexts: ArrayLike) -> FloatArray:
        checked = np.ascontiguousarray(contexts, np.float64)
        if checked.ndim != 2 or checked.shape[1] != self.n_features:
            raise InputError(f"contexts must have shape (rows, {self.n_features}), not {checked.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            surely_finite = np.isfinite(checked.sum())  # much sooner than asking each number
        if not surely_finite and not np.isfinite(checked).all():
            raise InputError("contexts hold NaN or infinity: fill them in")
        return np.zeros((len(checked), 1)) if self.n_features == 0 else checked

    def _expand(self, points: IntArray, squared: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """From distinct contexts to logged rows, k for each row; equal contexts come in the order of the log."""
        if k == 1 or len(self._points) == self.n_logged:
            return self._rows[self._starts[points]], squared
        copies = self._copies[points]
        before = np.cumsum(copies, axis=1) - copies
        taken = np.clip(k - before, 0, copies).ravel()
        firsts = np.repeat(self._starts[points.ravel()], taken)
        nth_copy = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
        return self._rows[firsts + nth_copy].reshape(-1, k), np.repeat(squared.ravel(), taken).reshape(-1, k)

    @cached_property
    def _tree(self) -> TreeSearch:
        return TreeSearch(self._points, self._copies)

    @cached_property
    def _copies(self) -> IntArray:
        """How often each point was logged."""
        return np.diff(self._starts)

    def _count_by_products(self, contexts: FloatArray, squared_radius: float) -> IntArray:
        centred = (contexts - self._centre) / self._size
        in_range = np.abs(centred).max(initial=0.0) < FAR_OUTSIDE
        products = self._single if in_range and self._single.g < 0.01 else self._double
        copies = None if self._copies.max() == 1 else self._copies
        counts, rows, points = products.counts(centred, squared_radius / self._size**2, copies)
        for start in range(0, len(rows), REFINED):
            part = slice(start, start + REFINED)
            near = squared_distances(contexts[rows[part]], self._points[points[part]]) <= squared_radius
            np.add.at(counts, rows[part], np.where(near, self._copies[points[part]], 0))
        return counts

    @cached_property
    def _centre(self) -> FloatArray:
        return np.asarray(self._points.mean(axis=0))

    @cached_property
    def _size(self) -> float:
        return float(np.abs(self._points - self._centre).max()) or 1.0

    @cached_property
    def _single(self) -> Products:
        return Products((self._points - self._centre) / self._size, np.float32)

    @cached_property
    def _double(self) -> Products:
        return Products((self._points - self._centre) / self._size, np.float64)

    def _ask_tensors(self, contexts: FloatArray, device: str) -> tuple[IntArray, FloatArray]:
        points = np.empty((len(contexts), 1), np.int64)
        squared = np.empty((len(contexts), 1))
        search = TensorSearch(self._points, self._centre, self._size, device)

        def answer(start: int) -> None:
            chunk = slice(start, start + ROWS_OF_TENSORS[search.device])
            found = search.nearest(contexts[chunk], MANY_CANDIDATES)
            if found is None:
                points[chunk], squared[chunk] = self._ask_products(contexts[chunk], 1)
            else:
                points[chunk, 0], squared[chunk, 0] = found

        for_each_by_torch(answer, range(0, len(contexts), ROWS_OF_TENSORS[search.device]), search.device)
        return points, squared

    def _ask_products(self, contexts: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        centred = (contexts - self._centre) / self._size
        # Far outside the logged contexts float32 has no digits left for the differences between them.
        in_range = np.abs(centred).max(initial=0.0) < FAR_OUTSIDE
        rows = points = np.empty(0, np.int64)
        if in_range and self._single.g < 0.01:
            rows, points = self._single.candidates(centred, k, at_most=MANY_CANDIDATES * k * len(contexts))
        if len(rows) == 0:
            rows, points = self._double.candidates(centred, k)
        return self._nearest_of(contexts, rows, points, k)

    def _nearest_of(
        self, contexts: FloatArray, rows: IntArray, points: IntArray, k: int
    ) -> tuple[IntArray, FloatArray]:
        """The k nearest among the candidates (row, point)."""
        points = points[np.argsort(rows, kind="stable")]
        counts = np.bincount(rows, minlength=len(contexts))
        starts = np.cumsum(counts) - counts
        nearest = np.empty((len(contexts), k), np.int64)
        squared = np.empty((len(contexts), k))
        waiting = np.argsort(-counts)  # those with about as many candidates go together
        while len(waiting):
            width = np.arange(counts[waiting[0]])
            part, waiting = np.split(waiting, [max(1, REFINED // len(width))])
            candidates = points[np.minimum(starts[part, None] + width, len(points) - 1)]
            exact = squared_distances(contexts[part, None], self._points[candidates])
            not_its_own = width >= counts[part, None]
            candidates[not_its_own], exact[not_its_own] = len(self._points), np.inf
            nearest[part], squared[part] = nearest_first(candidates, exact, k)
        return nearest, squared


def _equal_rows(matrix: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows in an order that puts equal rows side by side, and where each run of equal rows starts (and the end).

    They stand in the order of their first numbers; where these are equal, in that of their bytes, then of the log.
    """
    first = np.ascontiguousarray(matrix[:, 0])
    rows = np.argsort(first)
    ties = np.flatnonzero(first[rows[1:]] == first[rows[:-1]])  # each with what follows it
    starts_here = np.ones(len(rows), bool)
    if len(ties):
        tied = np.union1d(ties, ties + 1)
        members = np.sort(rows[tied])
        as_bytes = matrix[members].view(np.dtype((np.void, matrix.itemsize * matrix.shape[1])))[:, 0]
        members = members[np.argsort(as_bytes, kind="stable")]
        rows[tied] = members[np.argsort(first[members], kind="stable")]
        starts_here[ties + 1] = (matrix[rows[ties]] != matrix[rows[ties + 1]]).any(axis=1)
    return rows, np.append(np.flatnonzero(starts_here), len(rows))
