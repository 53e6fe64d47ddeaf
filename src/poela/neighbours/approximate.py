"""Near neighbours among very many logged contexts, group by group: found fast, but not always the nearest.

Contexts are divided into cells around centres. A question is put to contexts of its own cell and, if these are few, of
the cells next to that: always to the same number of them, so that its cost does not grow with the log.

The error is one-sided. What is found is a logged context at its true distance, recomputed in float64; only a nearer one
may have been missed. So distances can only be too large. Contexts that were logged themselves are always found.
"""

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.threads import for_each
from poela.neighbours.products import squared_distances

ASKED = 1024  # logged contexts of each group that a question is put to
MOST_CELLS = 1024  # so that finding the own cell costs less than asking there
TRAINED_ON = 64  # contexts for each centre
ROUNDS = 4
ROWS_AT_ONCE = 1 << 9  # so that scores stay in the cache
FARTHEST = 1e15  # sizes of the logged contexts: beyond it, squares overflow
Scale = Callable[[Float32Array], FloatArray]


class ApproximateNeighbours:
    """Logged contexts [M, d] of some groups [M], ready to be searched; `scale` gives the features that distances see.

    >>> contexts, groups = np.array([[0.0], [2.0], [8.0]], np.float32), np.array([0, 0, 1])
    >>> ApproximateNeighbours(contexts, groups, 2, np.float64).squared_distances(np.array([[0.5]], np.float32))
    array([[ 0.25, 56.25]])
    """

    def __init__(self, contexts: Float32Array, groups: IntArray, n_groups: int, scale: Scale) -> None:
        self._contexts, self._features, self._n_groups = contexts, scale, n_groups
        n_cells = min(max(1, 2 * isqrt(len(contexts))), len(contexts), MOST_CELLS)
        sample = self._features(contexts[_spread(len(contexts), TRAINED_ON * n_cells)])
        self._middle = sample.mean(axis=0)
        self._size = float(np.abs(sample - self._middle).max(initial=0.0)) or 1.0
        self._centres = _centres(self._shrunk(sample, self._middle), n_cells)
        self._next = np.argsort(_scores(self._centres, self._centres), axis=1, kind="stable")
        cells = groups * n_cells + self._cells(contexts)
        self._counts = np.bincount(cells, minlength=n_groups * n_cells).reshape(n_groups, n_cells)
        self._rows = np.argsort(cells, kind="stable")
        self._starts = (self._counts.cumsum() - self._counts.ravel()).reshape(n_groups, n_cells)
        self._equal = EqualContexts(contexts, groups, n_groups)

    def squared_distances(self, contexts: Float32Array) -> FloatArray:
        """To a near logged context of each group [N, groups], by rule the nearest one; infinite without any."""
        squared = np.full((len(contexts), self._n_groups), np.inf)
        cells = self._cells(contexts)
        rows, ends = np.argsort(cells, kind="stable"), np.bincount(cells, minlength=len(self._centres)).cumsum()

        def answer(cell: int) -> None:
            middle = self._centres[cell] * self._size + self._middle
            near = [self._features(self._contexts[self._near(cell, group)]) for group in range(self._n_groups)]
            sought = [_augmented_points(self._shrunk(own, middle)) for own in near]
            for start in range(ends[cell - 1] if cell else 0, ends[cell], ROWS_AT_ONCE):
                here = rows[start : min(start + ROWS_AT_ONCE, ends[cell])]
                features = self._features(contexts[here])
                asked = _augmented_queries(self._shrunk(features, middle))
                for group, own in enumerate(near):
                    if len(own):
                        found = (asked @ sought[group]).argmin(axis=1)
                        squared[here, group] = squared_distances(features, own[found])

        for_each(answer, np.unique(cells).tolist())
        squared[self._equal.groups_of(contexts)] = 0.0
        return squared

    def _near(self, cell: int, group: int) -> IntArray:
        """Rows of logged contexts of this cell, then of the cells next to it; of the last cell, spread over the log."""
        cells = self._next[cell]
        cells = cells[self._counts[group, cells] > 0]
        before = self._counts[group, cells].cumsum() - self._counts[group, cells]
        parts = [np.empty(0, np.int64)]
        for other, taken in zip(cells[before < ASKED].tolist(), before[before < ASKED].tolist(), strict=True):
            count = int(self._counts[group, other])
            parts.append(self._rows[self._starts[group, other] + _spread(count, ASKED - taken)])
        return np.concatenate(parts)

    def _cells(self, contexts: Float32Array) -> IntArray:
        """The number [N] of the centre that is nearest."""
        cells, sought = np.empty(len(contexts), np.int64), _augmented_points(self._centres)

        def answer(start: int) -> None:
            part = slice(start, start + ROWS_AT_ONCE)
            cells[part] = (
                _augmented_queries(self._shrunk(self._features(contexts[part]), self._middle)) @ sought
            ).argmin(axis=1)

        for_each(answer, range(0, len(contexts), ROWS_AT_ONCE))
        return cells

    def _shrunk(self, features: FloatArray, middle: FloatArray) -> Float32Array:
        return np.clip((features - middle) / self._size, -FARTHEST, FARTHEST).astype(np.float32)


class EqualContexts:
    """Which groups hold a context that equals a given one, by a hash of its bits.

    >>> contexts, groups = np.array([[0.0], [2.0], [2.0]], np.float32), np.array([0, 0, 1])
    >>> EqualContexts(contexts, groups, 2).groups_of(np.array([[2.0], [-0.0], [1.0]], np.float32))
    array([[ True,  True],
           [ True, False],
           [False, False]])
    """

    def __init__(self, contexts: Float32Array, groups: IntArray, n_groups: int) -> None:
        self._contexts = contexts
        hashes = _hashes(contexts)
        order = np.argsort(hashes, kind="stable")
        is_first = np.append(True, hashes[order][1:] != hashes[order][:-1])
        self._firsts = order[is_first]
        self._hashes = hashes[self._firsts]
        self._groups = np.zeros((len(self._firsts), n_groups), bool)
        self._groups[np.arange(len(self._firsts)), groups[self._firsts]] = True
        others, numbers = order[~is_first], (is_first.cumsum() - 1)[~is_first]
        alike = self._alike(contexts, others, numbers)  # of contexts that share a hash by chance, one is known
        self._groups[numbers[alike], groups[others[alike]]] = True

    def groups_of(self, contexts: Float32Array) -> BoolArray:
        """[N, groups]."""
        hashes = _hashes(contexts)
        rows = np.argsort(hashes)  # in order, they are found faster
        numbers = np.searchsorted(self._hashes, hashes[rows]).clip(max=len(self._hashes) - 1)
        hit = self._hashes[numbers] == hashes[rows]
        rows, numbers = rows[hit], numbers[hit]
        alike = self._alike(contexts, rows, numbers)
        known = np.zeros((len(contexts), self._groups.shape[1]), bool)
        known[rows[alike]] = self._groups[numbers[alike]]
        return known

    def _alike(self, contexts: Float32Array, rows: IntArray, numbers: IntArray) -> BoolArray:
        def alike(part: slice) -> BoolArray:
            return np.asarray((contexts[rows[part]] == self._contexts[self._firsts[numbers[part]]]).all(axis=1))

        result = np.empty(len(rows), bool)
        _fill(result, alike)
        return result


def _hashes(contexts: Float32Array) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """A weighted sum of the bits of each context, modulo 2⁶⁴; 0 and −0 are the same."""
    weights = np.random.default_rng(0).integers(1 << 63, size=contexts.shape[1], dtype=np.uint64) * 2 + 1
    result = np.empty(len(contexts), np.uint64)
    _fill(result, lambda part: ((contexts[part] + np.float32(0)).view(np.uint32) * weights).sum(axis=1))
    return result


def _fill(result: Any, compute: Callable[[slice], Any]) -> None:
    """Part by part, so that what comes in between stays small."""
    for start in range(0, len(result), 1 << 12):
        part = slice(start, start + (1 << 12))
        result[part] = compute(part)


def _spread(size: int, most: int) -> IntArray:
    """Up to so many positions of a sequence, evenly spread.

    >>> _spread(5, 2), _spread(2, 5)
    (array([0, 4]), array([0, 1]))
    """
    return np.linspace(0, size - 1, min(size, most)).astype(np.int64)


def _centres(sample: Float32Array, n: int) -> Float32Array:
    """By a few rounds of k-means."""
    centres = sample[_spread(len(sample), n)]
    for _ in range(ROUNDS):
        cells, sought = np.empty(len(sample), np.int64), _augmented_points(centres)
        _fill(cells, partial(_nearest, sample, sought))
        order = np.argsort(cells, kind="stable")
        filled, starts, counts = np.unique(cells[order], return_index=True, return_counts=True)
        sums = np.add.reduceat(sample[order], starts, axis=0, dtype=np.float64)
        centres[filled] = sums / counts[:, None]
    return centres


def _nearest(sample: Float32Array, sought: Float32Array, part: slice) -> IntArray:
    return np.asarray((_augmented_queries(sample[part]) @ sought).argmin(axis=1))


def _scores(asked: Float32Array, sought: Float32Array) -> Float32Array:
    """Squared distances [N, M], less what all of a row have in common."""
    return _augmented_queries(asked) @ _augmented_points(sought)


def _augmented_queries(asked: Float32Array) -> Float32Array:
    return np.column_stack([asked, np.ones(len(asked), np.float32)])


def _augmented_points(sought: Float32Array) -> Float32Array:
    """|y|² − 2xy is one product [d + 1, M]."""
    return np.ascontiguousarray(np.column_stack([-2 * sought, (sought * sought).sum(axis=1)]).T)
