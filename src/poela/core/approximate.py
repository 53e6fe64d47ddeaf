"""Near neighbours among very many logged contexts, found fast but not always the nearest: an index of faiss.

Its error is one-sided. What it finds is a logged context at its true distance, recomputed in float64; only a nearer one
may have been missed. So distances can only be too large.
"""

from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.neighbours import Neighbours, squared_distances

FEW = 4096  # logged contexts, among which the exact search is as fast
MOST = 1 << 16  # logged contexts in one index, spread over the log: so the cost of a question stays the same
PER_LIST = 64  # contexts in each list into which the index divides them,
ASKED_LISTS = 12  # and how many of those it looks into
ROWS_AT_ONCE = 1 << 16


class ApproximateNeighbours:
    """Logged contexts, ready to be searched; few of them are searched exactly.

    >>> ApproximateNeighbours(np.array([[0.0], [2.0]])).squared_distances(np.array([[0.5]]))
    array([0.25])
    """

    def __init__(self, logged: FloatArray) -> None:
        kept = np.linspace(0, len(logged) - 1, min(len(logged), MOST)).astype(np.int64)
        self._logged = logged[kept]
        self._exact = Neighbours(logged) if len(logged) <= FEW else None
        self._centre = self._logged.mean(axis=0)
        self._size = float(np.abs(self._logged - self._centre).max(initial=0.0)) or 1.0
        self._index = None if self._exact is not None else self._indexed()

    def _indexed(self) -> Any:
        faiss = faiss_or_refuse()
        centred = self._centred(self._logged)
        lists = max(1, len(centred) // PER_LIST)
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(centred.shape[1]), centred.shape[1], lists)
        index.cp.niter = 4
        index.nprobe = ASKED_LISTS
        index.train(centred)
        index.add(centred)
        return index

    def _centred(self, contexts: FloatArray) -> Any:
        return np.ascontiguousarray(np.clip((contexts - self._centre) / self._size, -1e15, 1e15), np.float32)

    def squared_distances(self, contexts: FloatArray) -> FloatArray:
        """To a near logged context [N], by rule the nearest one; never less than to the nearest."""
        if self._index is None:
            return np.empty(0) if self._exact is None else self._exact.nearest(contexts)[1]
        squared = np.empty(len(contexts))
        for start in range(0, len(contexts), ROWS_AT_ONCE):
            part = contexts[start : start + ROWS_AT_ONCE]
            found = self._index.search(self._centred(part), 1)[1][:, 0]
            found = np.where(found < 0, 0, found)  # all lists that were asked are empty: any logged context will do
            squared[start : start + ROWS_AT_ONCE] = squared_distances(part, self._logged[found])
        return squared


def faiss_or_refuse() -> Any:
    """The module, or one clear sentence."""
    try:
        import faiss
    except ImportError:
        raise InputError(
            "an approximate search needs faiss, which is not installed: pip install 'poela[large]'"
        ) from None
    return faiss
