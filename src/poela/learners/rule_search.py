"""Exact search for trees of depth 1 and 2 over binned features, by prefix sums.

A tree is worth the sum over its leaves of the best instruction's values there (or 0: as before), less a charge for each
split. All leaves of a root
split on one feature and of the splits below on another are sums over rectangles of one histogram of the two, so a pass
over pairs of features looks at every tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.policies.cases import Condition

MOST_BINS = 50
SLACK = 0.3  # of the way to the next quantile: how far a round threshold may be from its own


@dataclass(frozen=True, eq=False)
class Bins:
    """Features cut at thresholds: codes [N, p] count how many of a feature's thresholds its value is above."""

    codes: IntArray
    thresholds: tuple[FloatArray, ...]

    @classmethod
    def of(cls, contexts: Float32Array, most: int = MOST_BINS) -> "Bins":
        """At all values, or where there are many at quantiles.

        >>> bins = Bins.of(np.array([[0.0], [1.0], [1.0], [5.0]], np.float32))
        >>> bins.thresholds[0].tolist(), bins.codes[:, 0].tolist()
        ([0.0, 3.0], [0, 1, 1, 2])
        """
        thresholds = tuple(_thresholds(contexts[:, column], most) for column in range(contexts.shape[1]))
        codes = np.zeros(contexts.shape, np.int64)
        for column, cuts in enumerate(thresholds):
            codes[:, column] = np.searchsorted(cuts.astype(np.float32), contexts[:, column], side="left")
        return cls(codes, thresholds)

    def size(self, column: int) -> int:
        """How many bins a feature has."""
        return len(self.thresholds[column]) + 1


def _thresholds(values: Float32Array, most: int) -> FloatArray:
    """Between all values or, where there are many, round numbers near their quantiles."""
    ordered = np.sort(values)
    places = np.flatnonzero(ordered[1:] > ordered[:-1])
    lows, highs = ordered[places], ordered[places + 1]
    if len(places) >= most:
        middles = np.arange(1, most) / most * (len(ordered) - 1)
        slack = SLACK / most * (len(ordered) - 1)
        lows, highs = ordered[np.floor(middles - slack).astype(int)], ordered[np.ceil(middles + slack).astype(int)]
        lows, highs = lows[highs > lows], highs[highs > lows]
    rounded = [round_between(float(low), float(high)) for low, high in zip(lows, highs, strict=True)]
    return np.unique(np.array(rounded, np.float64))


def round_between(low: float, high: float) -> float:
    """The number with the fewest digits from low to just below high, of single precision; of several, the middle one.

    >>> round_between(0.0, 1.0), round_between(64.0, 65.0), round(round_between(2.0731, 2.1298), 6)
    (0.0, 64.0, 2.1)
    """
    middle = (low + high) / 2
    for digits in range(-12, 13):
        unit = 10.0**-digits
        candidate = float(np.float32(round(middle / unit) * unit if unit < high - low else np.ceil(low / unit) * unit))
        if low <= candidate < high:
            return candidate + 0.0
    return low


@dataclass(frozen=True)
class Split:
    """Values of a column in bins up to this one go one way, the others the other way."""

    column: int
    bin: int


@dataclass(frozen=True)
class Tree:
    """A root and the splits below it; None: there is no split."""

    root: Split | None = None
    low: Split | None = None
    high: Split | None = None

    def leaves(self, bins: Bins) -> list[tuple[tuple[tuple[Split, bool], ...], BoolArray]]:
        """The splits above each leaf with the way taken (True: above), and its rows [N]."""
        found: list[tuple[tuple[tuple[Split, bool], ...], BoolArray]] = [((), np.ones(len(bins.codes), np.bool_))]
        for splits in (((self.root, self.root),), ((self.low, self.high),)):
            ((low, high),) = splits
            grown = []
            for path, rows in found:
                split = high if path and path[0][1] else low
                if split is None:
                    grown.append((path, rows))
                    continue
                above = bins.codes[:, split.column] > split.bin
                grown += [((*path, (split, way)), rows & (above if way else ~above)) for way in (False, True)]
            found = grown
        return found


def condition(split: Split, above: bool, bins: Bins, feature_names: Sequence[str]) -> Condition:
    """A split as a condition on its feature."""
    return Condition(feature_names[split.column], float(bins.thresholds[split.column][split.bin]), above)


def best_stumps(bins: Bins, values: FloatArray, charge: float, least: int = 1) -> tuple[Tree, FloatArray]:
    """The best tree of depth 1 for values [L, N] of instructions, and what each column's best split is worth [p]."""
    whole = _best(values.sum(axis=1))
    worth = np.full(bins.codes.shape[1], float(whole))
    tree, top = Tree(), float(whole) + charge
    for column in range(len(worth)):
        sums, counts = _histogram(bins.codes[:, column], values, bins.size(column))
        low, seen = sums.cumsum(axis=1)[:, :-1], counts.cumsum()[:-1]
        gained = _best(low) + _best(sums.sum(axis=1)[:, None] - low)
        gained[(seen < least) | (seen > len(bins.codes) - least)] = -np.inf
        if not len(gained):
            continue
        place = int(gained.argmax())
        worth[column] = max(worth[column], float(gained[place]))
        if gained[place] > top:
            tree, top = Tree(Split(column, place)), float(gained[place])
    return tree, worth


class PairSearch:
    """Trees of depth 2 over some columns, for several weighings of two kinds of values: gains − price·costs."""

    def __init__(
        self, bins: Bins, columns: Sequence[int], prices: Sequence[float], charge: float, least: int = 1
    ) -> None:
        self._bins, self._columns, self._prices = bins, tuple(columns), tuple(prices)
        self._charge, self._least = charge, least

    def trees(self, gains: FloatArray, costs: FloatArray) -> list[Tree]:
        """The best tree at each price; gains and costs are [L, N]."""
        both = np.concatenate([gains, costs])
        found = [(price, _Roots(self._bins, self._columns)) for price in self._prices]
        for place, first in enumerate(self._columns):
            for second in self._columns[place:]:
                sums, counts = self._table(first, second, both)
                for price, roots in found:
                    own = sums[: len(gains)] - price * sums[len(gains) :]
                    roots.offer(first, second, *_sides(own, counts, self._least, self._charge))
                    if first != second:
                        roots.offer(second, first, *_sides(own.swapaxes(1, 2), counts.T, self._least, self._charge))
        return [
            roots.best(float(_best((gains - price * costs).sum(axis=1))), self._charge)
            for price, roots in found
        ]

    def _table(self, first: int, second: int, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Sums [L, B, B'] and counts [B, B'] of two columns' bins, both cumulated along both."""
        codes, shape = self._bins.codes, (self._bins.size(first), self._bins.size(second))
        sums, counts = _histogram(codes[:, first] * shape[1] + codes[:, second], values, shape[0] * shape[1])
        table, number = sums.reshape(-1, *shape), counts.reshape(shape)
        return table.cumsum(axis=1).cumsum(axis=2), number.cumsum(axis=0).cumsum(axis=1)


class _Roots:
    """For every split at the root, the best that was found below it on both sides."""

    def __init__(self, bins: Bins, columns: Sequence[int]) -> None:
        sizes = {column: bins.size(column) - 1 for column in columns}
        self._worth = {column: np.full((2, size), -np.inf) for column, size in sizes.items()}
        self._below = {column: np.full((2, size, 2), -1) for column, size in sizes.items()}

    def offer(self, root: int, below: int, worth: FloatArray, bins: IntArray) -> None:
        """Splits of another column below those of the root: what they are worth, and at which bin [2, B]."""
        better = worth > self._worth[root]
        self._worth[root] = np.where(better, worth, self._worth[root])
        offered = np.stack([np.where(bins < 0, -1, below), bins], axis=2)
        self._below[root] = np.where(better[:, :, None], offered, self._below[root])

    def best(self, whole: float, charge: float) -> Tree:
        """The best tree, where it is worth more than none."""
        tree, top = Tree(), whole + charge
        for column, worth in self._worth.items():
            both = worth.sum(axis=0)
            if len(both) and both.max() > top:
                place = int(both.argmax())
                below = [Split(*self._below[column][side, place].tolist()) for side in (0, 1)]
                low, high = (None if split.column < 0 else split for split in below)
                tree, top = Tree(Split(column, place), low, high), float(both[place])
        return tree


def _sides(table: FloatArray, counts: IntArray, least: int, charge: float) -> tuple[FloatArray, IntArray]:
    """For each root split of the first column, the best bin to split the second at on both sides (−1: no split)."""
    n_roots = table.shape[1] - 1
    rows, numbers = table[:, :n_roots], counts[:n_roots]
    worth, bins = np.full((2, n_roots), -np.inf), np.full((2, n_roots), -1)
    for side in (0, 1):
        sums = rows if side == 0 else table[:, -1:] - rows
        seen = numbers if side == 0 else counts[-1:] - numbers
        total, number = sums[:, :, -1], seen[:, -1]
        worth[side] = np.where(number >= least, _best(total), -np.inf)
        if table.shape[2] < 2:
            continue
        low, count = sums[:, :, :-1], seen[:, :-1]
        split = _best(low) + _best(total[:, :, None] - low)
        split[(count < least) | (count > number[:, None] - least)] = -np.inf
        place = split.argmax(axis=1)
        top = split[np.arange(n_roots), place] - charge
        better = top > worth[side]
        worth[side], bins[side] = np.where(better, top, worth[side]), np.where(better, place, -1)
    return worth, bins


def _best(sums: FloatArray) -> FloatArray:
    """The best instruction's sum, or 0: as before."""
    return np.maximum(sums.max(axis=0), 0.0)


def _histogram(codes: IntArray, values: FloatArray, size: int) -> tuple[FloatArray, IntArray]:
    sums = np.stack([np.bincount(codes, row, minlength=size) for row in values])
    return sums, np.bincount(codes, minlength=size)
