"""What the ridge regressions of a step look at: features with their products, and indicators of categories."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly

# Up to here all pairs of features are multiplied; wider contexts get squares only.
MOST_FEATURES_IN_PAIRS = 20
# Standardised features are held within this, so that a quadratic does not explode far from the data.
FARTHEST = 5.0
FEW_ROWS = 64  # whose features are all multiplied at once
MOST_CODED_IN_PAIRS = 32  # the same of features with indicators
LEVELS = (3, 12)  # numbers that a column with indicators takes at least and at most


def quadratic_features(contexts: Float32Array, center: FloatArray, scale: FloatArray) -> FloatArray:
    """1, the standardised features, and their products in pairs (squares alone where there are many), [m, p].

    >>> quadratic_features(np.array([[1.0, 2.0]]), np.zeros(2), np.ones(2))
    array([[1., 1., 2., 1., 2., 4.]])
    """
    z = (np.asarray(contexts, np.float64) - center) / scale
    rows, width = z.shape
    # Feature by feature, so that products are of whole lines.
    features = np.empty((n_quadratic(width), rows))
    features[0] = 1.0
    z = np.clip(z.T, -FARTHEST, FARTHEST, out=features[1 : 1 + width])
    products = features[1 + width :]
    if rows < FEW_ROWS or width > MOST_FEATURES_IN_PAIRS:
        i, j = pairs_of(width)
        np.multiply(z[i], z[j], out=products)
        return features.T
    for first in range(width):  # the same without copies
        part, products = products[: width - first], products[width - first :]
        np.multiply(z[first], z[first:], out=part)
    return features.T


def linear_features(contexts: Float32Array, center: FloatArray, scale: FloatArray) -> FloatArray:
    """1 and the standardised features, the first of the quadratic ones, [m, 1 + d].

    >>> linear_features(np.array([[1.0, 9.0]]), np.zeros(2), np.ones(2))
    array([[1., 1., 5.]])
    """
    z = (np.asarray(contexts, np.float64) - center) / scale
    return np.hstack([np.ones((len(z), 1)), np.clip(z, -FARTHEST, FARTHEST)])


def n_quadratic(width: int) -> int:
    """How many quadratic features there are of so many features.

    >>> n_quadratic(2)
    6
    """
    return 1 + width + (width * (width + 1) // 2 if width <= MOST_FEATURES_IN_PAIRS else width)


def pairs_of(width: int) -> tuple[IntArray, IntArray]:
    """Which features are multiplied with which.

    >>> pairs_of(2)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    return np.triu_indices(width) if width <= MOST_FEATURES_IN_PAIRS else (np.arange(width), np.arange(width))


@dataclass(frozen=True, eq=False)
class Coding:
    """Indicators [context[column] = level] in the place of columns that hold codes; the other columns stay.

    Columns of few different numbers are taken to be codes. A code without an indicator (the least of each column, or
    one never seen) has all of them 0. Products are of different columns only, and squares of those that stay.

    >>> coding = Coding.of(np.array([[7.0, 0.5], [8.0, 0.1], [9.0, 0.3]], np.float32), levels=(3, 3))
    >>> coding.expand(np.array([[8.0, 0.5]], np.float32))  # with two such columns both are codes
    array([[1., 0., 0., 1.]], dtype=float32)
    """

    columns: IntArray  # [k], rising: of the contexts
    levels: Float32Array  # [k]
    n_features: int  # of the contexts

    @classmethod
    def of(cls, contexts: Float32Array, levels: tuple[int, int] = LEVELS) -> "Coding":
        """Of the codes that contexts [m, d] hold."""
        columns: list[int] = []
        found: list[float] = []
        for column, numbers in enumerate(np.asarray(contexts, np.float32).T):
            if len(np.unique(numbers[:1000])) > levels[1]:  # a quick look, mostly enough
                continue
            seen = np.unique(numbers)
            if levels[0] <= len(seen) <= levels[1]:
                columns += [column] * (len(seen) - 1)
                found += seen[1:].tolist()
        return cls(readonly(columns, np.int64), readonly(found, np.float32), contexts.shape[1])

    @cached_property
    def plain(self) -> IntArray:
        """The columns that stay."""
        return np.setdiff1d(np.arange(self.n_features), self.columns)

    @property
    def width(self) -> int:
        """How many columns there are with indicators."""
        return len(self.plain) + len(self.columns)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Which columns, after coding, are multiplied with which."""
        stay = np.arange(len(self.plain))
        if self.width > MOST_CODED_IN_PAIRS:
            return stay, stay
        i, j = np.triu_indices(self.width)
        source = np.concatenate([self.plain, self.columns])
        wanted = (source[i] != source[j]) | ((i == j) & (i < len(stay)))
        return i[wanted], j[wanted]

    @property
    def n_products(self) -> int:
        """How many features there are with their products."""
        return 1 + self.width + len(self.pairs[0])

    def expand(self, contexts: Float32Array) -> Float32Array:
        """Contexts [m, d] with indicators in the place of codes, [m, width]."""
        result = np.empty((len(contexts), self.width), np.float32)
        result[:, : len(self.plain)] = contexts[:, self.plain]
        result[:, len(self.plain) :] = contexts[:, self.columns] == self.levels
        return result

    def with_step(self) -> "Coding":
        """The same for contexts with one more column, which is no code."""
        return replace(self, n_features=self.n_features + 1)

    def features(self, contexts: Float32Array, center: FloatArray, scale: FloatArray) -> FloatArray:
        """1, the standardised columns after coding, and their products in pairs, [m, p]."""
        features = np.empty((self.n_products, len(contexts)))
        features[0] = 1.0
        z = (self.expand(contexts).astype(np.float64) - center) / scale
        z = np.clip(z.T, -FARTHEST, FARTHEST, out=features[1 : 1 + self.width])
        i, j = self.pairs
        np.multiply(z[i], z[j], out=features[1 + self.width :])
        return features.T


Pairs = tuple[IntArray, IntArray]


def with_fixed(coefficients: FloatArray, width: int, pairs: Pairs, left: Pairs, place: int, z: float) -> FloatArray:
    """Coefficients [A, p, P] once the standardised column `place` of `width` has the value z everywhere.

    `pairs` are the products that there are, `left` those of the other columns, numbered anew.

    >>> squares = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])[:, :, None]  # 1, a, b, a², ab, b²
    >>> with_fixed(squares, 2, pairs_of(2), pairs_of(1), place=1, z=10.0)[0, :, 0]  # 1 + 30 + 600, 2 + 50, 4
    array([631.,  52.,   4.])
    """
    others = np.delete(np.arange(width), place)
    anew = np.zeros(width, np.int64)
    anew[others] = np.arange(width - 1)
    result = np.zeros((len(coefficients), width + len(left[0]), coefficients.shape[2]))
    result[:, :width] = coefficients[:, np.concatenate([[0], 1 + others])]
    result[:, 0] += z * coefficients[:, 1 + place]
    slots = np.zeros((width, width), np.int64)
    slots[left] = width + np.arange(len(left[0]))
    i, j = pairs
    products = coefficients[:, 1 + width :]
    here, there = i == place, j == place
    result[:, 0] += z * z * products[:, here & there].sum(axis=1)
    result[:, 1 + anew[np.where(here, j, i)[here ^ there]]] += z * products[:, here ^ there]
    result[:, slots[anew[i], anew[j]][~(here | there)]] = products[:, ~(here | there)]
    return result
