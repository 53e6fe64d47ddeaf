"""Points in eight bits a number: a product reads an eighth of the bytes, and says how far each point is but for little.

With a step Δ, each point y is Δq plus a rest of at most r, and each context x is Δp plus a rest of length s. Then
Δ|p − q| is the distance of x and y up to r + s, and |p − q|² is a sum of whole numbers: it has no rounding error.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray, IntArray

Bytes = NDArray[np.uint8]
Whole = NDArray[np.int32]
Products = Callable[[Bytes], Whole]  # of codes [N, d]: half the squared sizes of all points less products with them
MakeProducts = Callable[[Bytes, Whole], Products]  # of the codes of points [M, d] and half their squared sizes [M]

ZERO, LARGEST = 128, 127  # the code of 0, and how far codes go from there
SLACK = 1e-6  # of a step, and what follows of the size of numbers and features: what float64 loses on the way is less
LOST = 1e-14
MOST_FEATURES = 10_000  # whose products stay far below what is beyond them
BEYOND = 2**30
ODD, WORTH_WHILE = 0.002, 1.5  # share of points that may lie outside, where steps become that much finer


@dataclass(frozen=True, eq=False)
class Quantised:
    """How contexts become codes, and how far codes may be off."""

    centre: FloatArray  # [d]
    step: float
    off: float  # the length of the longest rest of a point, in steps
    odd: IntArray  # places of the few points that lie far outside: no code tells anything of them

    @classmethod
    def of(cls, points: FloatArray) -> "tuple[Quantised, Bytes]":
        """For these points [M, d]; and their codes.

        >>> codes = Quantised.of(np.array([[-127.0, -1.0], [127.0, 1.0]]))[1]
        >>> codes.astype(int)
        array([[  1, 127],
               [255, 129]])
        """
        centre = np.median(points, axis=0)
        sizes = np.abs(points - centre).max(axis=1)
        top = largest = float(sizes.max()) or 1.0
        if len(points) * ODD >= 1 and (usual := float(np.quantile(sizes, 1 - ODD))) * WORTH_WHILE < largest:
            top = usual or largest
        step = top / LARGEST
        odd = np.flatnonzero(sizes > top)
        steps = (points - centre) / step
        whole = np.clip(np.rint(steps), -LARGEST, LARGEST)
        rests = np.sqrt(np.square(steps - whole).sum(axis=1))
        rests[odd] = 0.0
        slack = SLACK + LOST * len(centre) * float(np.abs(points).max()) / step
        return cls(centre, step, float(rests.max()) + slack, odd), (whole + ZERO).astype(np.uint8)

    def halves(self, codes: Bytes) -> Whole:
        """Half the squared sizes of points [M] by their codes, rounded down; those of odd points are out of all reach.

        >>> points = np.array([[-127.0, 0.0], [127.0, 0.0]])
        >>> known, codes = Quantised.of(points)
        >>> known.halves(codes)
        array([8064, 8064], dtype=int32)
        """
        whole = codes.astype(np.int32) - ZERO
        halves = np.asarray(np.einsum("ij,ij->i", whole, whole) // 2, np.int32)
        halves[self.odd] = BEYOND
        return halves

    def of_contexts(self, contexts: FloatArray) -> tuple[Bytes, NDArray[np.int64], FloatArray]:
        """Codes [N, d] of contexts, their squared sizes [N], and the lengths of their rests [N] in steps."""
        steps = (contexts - self.centre) / self.step
        whole = np.clip(np.rint(steps), -LARGEST, LARGEST)
        sizes = np.square(whole).sum(axis=1).astype(np.int64)
        rests = np.sqrt(np.square(steps - whole).sum(axis=1)) + SLACK
        return (whole + ZERO).astype(np.uint8), sizes, rests

    def nearest_limit(self, smallest: Whole, sizes: NDArray[np.int64], rests: FloatArray) -> Whole:
        """No point whose product is above this is the nearest of its group, if the smallest one there is known."""
        reached = np.sqrt(2.0 * smallest + sizes + 1) + 2 * (self.off + rests)
        return self._whole((np.square(reached) - sizes) / 2)

    def limits_within(
        self, radius: float, sizes: NDArray[np.int64], rests: FloatArray
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Points with products up to the first limit are surely within the radius; those above the second are not."""
        in_steps = radius / self.step
        room = self.off + rests
        surely = np.maximum(in_steps - room, 0.0)
        sure = np.where(in_steps > room, (np.square(surely) - sizes - 1) / 2, -np.inf)
        return self._whole(np.floor(sure)), self._whole((np.square(in_steps + room) - sizes) / 2)

    @staticmethod
    def _whole(limits: FloatArray) -> Whole:
        return np.floor(np.clip(limits, -float(BEYOND), BEYOND / 2)).astype(np.int32)


def products_by_numpy(codes: Bytes, halves: Whole) -> Products:
    """What a runtime does in eight bits, in whole numbers of 32: slow, and right on every machine.

    >>> codes = np.array([[129, 128], [128, 130]], np.uint8)
    >>> products_by_numpy(codes, np.array([0, 2], np.int32))(np.array([[131, 129]], np.uint8))
    array([[-3,  0]], dtype=int32)
    """
    points = (codes.astype(np.int32) - ZERO).T

    def product(asked: Bytes) -> Whole:
        return np.asarray(halves - (asked.astype(np.int32) - ZERO) @ points, np.int32)

    return product
