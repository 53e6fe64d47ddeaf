"""The nearest of many points by torch, for large searches: on a GPU where there is one.

As in `products.py`, float32 products only propose candidates; distances are recomputed in float64, feature by feature
and without fused operations, so that the answer has the same bits wherever it is worked out.
"""

from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.neighbours.products import FAR_OUTSIDE, factors_of, limit_of, rounding, underflow

BLOCK = 4096  # points in one product, at most
SLAB = {"cpu": 128, "cuda": 1024}  # of them share one minimum, which tells whether any of them need be looked at
SCORES_AT_ONCE = {"cpu": 3 << 17, "cuda": 1 << 27}  # of one product: they stay in the cache, or fill the GPU
REFINED = {"cpu": 1 << 11, "cuda": 1 << 20}  # pairs whose distances are recomputed in one go


def device_for_search() -> str:
    """Where large searches are done: on a GPU, if products there are true float32."""
    import torch

    return "cuda" if torch.cuda.is_available() and torch.get_float32_matmul_precision() == "highest" else "cpu"


class TensorSearch:
    """Distinct points in a given order, ready to be searched for the nearest one.

    >>> TensorSearch(np.array([[0.0], [2.0]]), centre=np.array([1.0]), size=1.0, device="cpu").nearest(
    ...     np.array([[0.5], [1.0]]), at_most=10.0)
    (array([0, 0]), array([0.25, 1.  ]))
    """

    def __init__(self, points: FloatArray, centre: FloatArray, size: float, device: str) -> None:
        import torch

        self.device = device
        self.g = rounding(points.shape[1], np.float32)
        self._underflow = underflow(points.shape[1], np.float32)
        self.width = SLAB[device]
        slabs = -(-len(points) // self.width)
        self.block = -(-slabs // -(-slabs * self.width // BLOCK)) * self.width  # blocks are about equally large
        factors = np.zeros((slabs * self.width, points.shape[1] + 1), np.float32)
        factors[len(points) :, -1] = np.inf  # what fills up the last slab is never near
        factors[: len(points)] = factors_of((points - centre) / size, self.g)
        starts = range(0, len(factors), self.block)
        self.blocks = [
            torch.from_numpy(np.ascontiguousarray(factors[start : start + self.block].T)).to(device) for start in starts
        ]
        self.points = torch.from_numpy(points).to(device)
        self.centre, self.size = torch.from_numpy(centre).to(device), size

    def nearest(self, contexts: FloatArray, at_most: float) -> tuple[IntArray, FloatArray] | None:
        """The nearest point [n], the first of equally near ones, and its squared distance [n].

        None if float32 leaves more than `at_most` candidates to each context, or some lie far outside.
        """
        import torch

        with torch.inference_mode():
            # torch does not take arrays that may only be read.
            rows = torch.from_numpy(contexts if contexts.flags.writeable else contexts.copy()).to(self.device)
            left, norms = self._centred(rows)
            if len(rows) and not norms.max() < FAR_OUTSIDE**2:
                return None
            places, points = self._candidates(left, norms)
            if len(places) > at_most * len(rows):
                return None
            nearest, squared = self._nearest_of(rows, places, points)
            return nearest.cpu().numpy(), squared.cpu().numpy()

    def _centred(self, contexts: Any) -> tuple[Any, Any]:
        """Contexts as they are multiplied, with a 1 at their end, and their squared norms."""
        import torch

        left = torch.ones(len(contexts), contexts.shape[1] + 1, dtype=torch.float32, device=self.device)
        norms = torch.empty(len(contexts), dtype=torch.float64, device=self.device)
        parts = (values.split(REFINED[self.device]) for values in (contexts, left, norms))
        for own, own_left, own_norms in zip(*parts, strict=True):
            centred = (own - self.centre).div_(self.size)
            own_left[:, :-1] = centred
            torch.sum(centred.square_(), dim=1, out=own_norms)
        return left, norms

    def _candidates(self, left: Any, norms: Any) -> tuple[Any, Any]:
        """Pairs (row, point) among which is the nearest point of every row."""
        import torch

        minima = self._minima(left)
        limit = self._limit(minima.amin(dim=1), norms)
        numbers, rows = _where(minima.T, limit)
        of_slabs = zip(*(values.split(torch.bincount(numbers).tolist()) for values in (numbers, rows)), strict=True)
        found = []
        for number, here in ((int(numbers[0]), here) for numbers, here in of_slabs if len(here)):
            block, start = divmod(number * self.width, self.block)
            scores = left.index_select(0, here) @ self.blocks[block][:, start : start + self.width]
            places, columns = _where(scores, limit.index_select(0, here)[:, None])
            found.append((here.index_select(0, places), columns + number * self.width))
        rows, points = (torch.cat(column) for column in zip(*found, strict=True))
        return rows[points < len(self.points)], points[points < len(self.points)]

    def _minima(self, left: Any) -> Any:
        """The smallest score in each slab [n, slabs]."""
        import torch

        at_once = max(1, SCORES_AT_ONCE[self.device] // self.block)
        slabs = sum(factors.shape[1] for factors in self.blocks) // self.width
        minima = torch.empty(len(left), slabs, dtype=left.dtype, device=self.device)
        memory = torch.empty(min(at_once, len(left)) * self.block, dtype=left.dtype, device=self.device)
        per_block = self.block // self.width
        for start in range(0, len(left), at_once):
            part = left[start : start + at_once]
            for block, factors in enumerate(self.blocks):
                scores = torch.mm(part, factors, out=memory[: len(part) * factors.shape[1]].view(len(part), -1))
                here = minima[start : start + at_once, block * per_block : (block + 1) * per_block]
                torch.amin(scores.view(len(part), -1, self.width), dim=2, out=here)
        return minima

    def _limit(self, smallest: Any, norms: Any) -> Any:
        import torch

        limit = (limit_of(smallest.double(), norms, self.g) + self._underflow).float()
        return torch.nextafter(limit, torch.full_like(limit, np.inf))

    def _nearest_of(self, contexts: Any, rows: Any, points: Any) -> tuple[Any, Any]:
        """Of the candidates of each row, the nearest one; the first of equally near ones."""
        import torch

        exact: Any = torch.zeros(len(rows), dtype=torch.float64, device=self.device)
        at_once = REFINED[self.device]
        for total, left, right in zip(exact.split(at_once), rows.split(at_once), points.split(at_once), strict=True):
            differences = contexts.index_select(0, left).sub_(self.points.index_select(0, right))
            for squared in differences.square_().unbind(1):
                total += squared
        squared = torch.full((len(contexts),), np.inf, dtype=torch.float64, device=self.device)
        squared = squared.scatter_reduce(0, rows, exact, "amin")
        nearest = torch.full((len(contexts),), len(self.points), device=self.device)
        tied = exact == squared[rows]
        return nearest.scatter_reduce(0, rows[tied], points[tied], "amin"), squared


def _where(values: Any, limit: Any) -> tuple[Any, Any]:
    """Rows and columns of what is within the limit; NumPy is far quicker at it than torch on a processor."""
    import torch

    if values.is_cuda:
        flat = (values <= limit).reshape(-1).nonzero()[:, 0]
    else:
        flat = torch.from_numpy(np.flatnonzero(values.numpy() <= limit.numpy()))
    rows = flat // values.shape[1]
    return rows, flat - rows * values.shape[1]
