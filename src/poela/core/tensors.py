"""The nearest of many points by torch, for large searches: on a GPU where there is one.

As in `products.py`, float32 products only propose candidates; distances are recomputed in float64, feature by feature
and without fused operations, so that the answer has the same bits wherever it is worked out.
"""

from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.products import FAR_OUTSIDE, factors_of, limit_of, rounding, underflow

BLOCK = 4096  # points in one product, at most
SLAB = {"cpu": 128, "cuda": 1024}  # of them share one minimum, which tells whether any of them need be looked at
SCORES_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 27}  # of one product: they stay in the cache, or fill the GPU
ROWS_AT_ONCE = {"cpu": 128, "cuda": 1 << 15}  # contexts in one product, at least
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
            found = self._candidates(rows)
            if found is None or len(found[0]) > at_most * len(rows):
                return None
            nearest, squared = self._nearest_of(rows, *found)
            return nearest.cpu().numpy(), squared.cpu().numpy()

    def _candidates(self, contexts: Any) -> tuple[Any, Any] | None:
        """Pairs (row, point) among which is the nearest point of every row; None if float32 cannot tell."""
        import torch

        at_once = max(ROWS_AT_ONCE[self.device], SCORES_AT_ONCE[self.device] // self.block)
        left = torch.ones(min(at_once, len(contexts)), contexts.shape[1] + 1, device=self.device)
        memory = torch.empty(len(left) * self.block, device=self.device)
        found = []
        for start in range(0, len(contexts), at_once):
            centred = (contexts[start : start + at_once] - self.centre).div_(self.size)
            norms = (centred * centred).sum(dim=1)
            if not norms.max() < FAR_OUTSIDE**2:
                return None
            here = left[: len(centred)]
            here[:, :-1] = centred
            rows, points = self._candidates_in_cache(here, norms, memory)
            found.append((rows + start, points))
        rows, points = (torch.cat(column) for column in zip(*found, strict=True))
        return rows, points

    def _candidates_in_cache(self, left: Any, norms: Any, memory: Any) -> tuple[Any, Any]:
        """The same for as many rows as have room in the memory for scores."""
        import torch

        smallest = torch.full_like(norms, np.inf)
        found = []
        for block, factors in enumerate(self.blocks):
            shape = len(left), factors.shape[1]
            scores = torch.mm(left, factors, out=memory[: shape[0] * shape[1]].view(shape))
            slabs = scores.view(-1, self.width)
            minima = slabs.amin(dim=1).view(len(left), -1)
            torch.minimum(smallest, minima.amin(dim=1).double(), out=smallest)
            limit = self._limit(smallest, norms)
            rows, numbers = _within(minima, limit)
            near = slabs.index_select(0, rows * minima.shape[1] + numbers)  # few, and looked at while in the cache
            places, columns = _within(near, limit.index_select(0, rows))
            of_pairs = near.view(-1).index_select(0, places * self.width + columns)
            columns += numbers.index_select(0, places) * self.width + block * self.block
            found.append((rows.index_select(0, places), columns, of_pairs))
        rows, points, of_pairs = (torch.cat(column) for column in zip(*found, strict=True))
        kept = of_pairs <= limit.index_select(0, rows)
        return rows[kept], points[kept]

    def _limit(self, smallest: Any, norms: Any) -> Any:
        import torch

        limit = (limit_of(smallest, norms, self.g) + self._underflow).float()
        return torch.nextafter(limit, torch.full_like(limit, np.inf))

    def _nearest_of(self, contexts: Any, rows: Any, points: Any) -> tuple[Any, Any]:
        """Of the candidates of each row, the nearest one; the first of equally near ones."""
        import torch

        exact = torch.zeros(len(rows), dtype=torch.float64, device=self.device)
        at_once = REFINED[self.device]
        for total, left, right in zip(exact.split(at_once), rows.split(at_once), points.split(at_once), strict=True):
            differences = (contexts.index_select(0, left) - self.points.index_select(0, right)).T.contiguous()
            for squared in differences.square_():
                total += squared
        squared = torch.full((len(contexts),), np.inf, dtype=torch.float64, device=self.device)
        squared = squared.scatter_reduce(0, rows, exact, "amin")
        nearest = torch.full((len(contexts),), len(self.points), device=self.device)
        tied = exact == squared[rows]
        return nearest.scatter_reduce(0, rows[tied], points[tied], "amin"), squared


def _within(values: Any, limit: Any) -> tuple[Any, Any]:
    """Rows and columns of what is within the limit of its row; NumPy is far quicker at it than torch on a processor."""
    import torch

    if values.is_cuda:
        flat = (values <= limit[:, None]).view(-1).nonzero()[:, 0]
    else:
        flat = torch.from_numpy(np.flatnonzero(values.numpy() <= limit.numpy()[:, None]))
    rows = flat // values.shape[1]
    return rows, flat - rows * values.shape[1]
