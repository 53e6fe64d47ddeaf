"""Exact search for trees of depth 1 and 2 over binned features, by prefix sums.

A tree is worth the sum over its leaves of what the best instruction gains there (or 0: as before), less a charge for
each split. All leaves of a root
split on one feature and of the splits below on another are sums over rectangles of one histogram of the two, so a pass
over pairs of features looks at every tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.policies.plain import Condition

MOST_BINS = 50
Box = dict[int, tuple[int, int]]  # of columns, the bins after the first number and up to the second
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

    def conditions(self, box: Box, feature_names: Sequence[str]) -> tuple[Condition, ...]:
        """What holds within a box, in the order of its columns."""
        found = []
        for column, (low, high) in box.items():
            cuts = self.thresholds[column]
            found += [Condition(feature_names[column], float(cuts[low]))] if low >= 0 else []
            found += [Condition(feature_names[column], float(cuts[high]), above=False)] if high < len(cuts) else []
        return tuple(found)


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

    def leaves(self, bins: Bins) -> list[tuple[Box, BoolArray]]:
        """Each leaf as the bins that it has, and its rows [N]."""
        found: list[tuple[Box, BoolArray]] = [({}, np.ones(len(bins.codes), np.bool_))]
        if self.root is None:
            return found
        sides = [_halves(*found[0], self.root, bins)[way] for way in (0, 1)]
        return [
            leaf
            for (box, rows), split in zip(sides, (self.low, self.high), strict=True)
            for leaf in ([(box, rows)] if split is None else _halves(box, rows, split, bins))
        ]


def _halves(box: Box, rows: BoolArray, split: Split, bins: Bins) -> list[tuple[Box, BoolArray]]:
    low, high = box.get(split.column, (-1, bins.size(split.column) - 1))
    above = bins.codes[:, split.column] > split.bin
    ends = {split.column: (low, min(split.bin, high))}, {split.column: (max(split.bin, low), high)}
    return [(box | ends[0], rows & ~above), (box | ends[1], rows & above)]


def side_by_side(first: Box, second: Box) -> Box | None:
    """Two boxes as one, if they are equal but for one column, in which one ends where the other begins.

    >>> side_by_side({0: (-1, 3), 1: (2, 4)}, {0: (3, 9), 1: (2, 4)})
    {0: (-1, 9), 1: (2, 4)}
    """
    if first.keys() != second.keys():
        return None
    differing = [column for column in first if first[column] != second[column]]
    if len(differing) != 1:
        return None
    (low, high), (start, end) = first[differing[0]], second[differing[0]]
    if high != start and end != low:
        return None
    return first | {differing[0]: (min(low, start), max(high, end))}


@dataclass(frozen=True)
class Terms:
    """What a leaf may do: instructions that cost at most `most` there; each unit of their cost has a price."""

    price: float = 0.0
    most: float = np.inf

    def best(self, gains: FloatArray, costs: FloatArray) -> FloatArray:
        """Of sums [L, ...] over a leaf, the best instruction's worth, or 0: as before."""
        return self.best_of(gains - self.price * costs, costs)

    def best_of(self, worth: FloatArray, costs: FloatArray) -> FloatArray:
        """The same of gains less their price."""
        within = worth if self.most == np.inf else np.where(costs <= self.most, worth, 0.0)
        return np.asarray(np.maximum(within.max(axis=0), 0.0))


@dataclass(frozen=True, eq=False)
class Search:
    """Exact search over binned columns, for what instructions gain and cost [L, N] at each row.

    `charge` is what each split costs, `least` how many rows a leaf must have.
    """

    bins: Bins
    gains: FloatArray
    costs: FloatArray
    charge: float = 0.0
    least: int = 1

    def stumps(self, every: Sequence[Terms]) -> list[tuple[Tree, FloatArray]]:
        """The best tree of depth 1, and what each column's best split is worth [p], by each terms."""
        tables = [self._table(column) for column in range(self.bins.codes.shape[1])]
        return [self._stump(tables, terms) for terms in every]

    def _stump(
        self, tables: Sequence[tuple[FloatArray, FloatArray, IntArray]], terms: Terms
    ) -> tuple[Tree, FloatArray]:
        whole = self._whole(terms)
        worth = np.full(len(tables), whole)
        tree, top = Tree(), whole + self.charge
        for column, (gains, costs, counts) in enumerate(tables):
            split = terms.best(gains[:, :-1], costs[:, :-1])
            split += terms.best(gains[:, -1:] - gains[:, :-1], costs[:, -1:] - costs[:, :-1])
            split[(counts[:-1] < self.least) | (counts[:-1] > counts[-1] - self.least)] = -np.inf
            if not len(split):
                continue
            place = int(split.argmax())
            worth[column] = max(worth[column], float(split[place]))
            if split[place] > top:
                tree, top = Tree(Split(column, place)), float(split[place])
        return tree, worth

    def trees(self, columns: Sequence[int], every: Sequence[Terms]) -> list[Tree]:
        """The best tree of depth 2 over some columns, by each terms."""
        found = [_Roots(self.bins, columns) for _ in every]
        for place, first in enumerate(columns):
            for second in columns[place:]:
                gains, costs, counts = self._tables(first, second)
                ways = [(first, second, (gains, costs, counts))]
                if first != second:
                    ways.append((second, first, (gains.swapaxes(1, 2), costs.swapaxes(1, 2), counts.T)))
                for root, below, tables in ways:
                    halves = [self._half(side, *tables) for side in (0, 1)]
                    for terms, roots in zip(every, found, strict=True):
                        both = [half.best(terms, self.charge) for half in halves]
                        roots.offer(root, below, *(np.stack(own) for own in zip(*both, strict=True)))
        return [roots.best(self._whole(terms), self.charge) for terms, roots in zip(every, found, strict=True)]

    def _whole(self, terms: Terms) -> float:
        return float(terms.best(self.gains.sum(axis=1), self.costs.sum(axis=1)))

    def _table(self, column: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Gains and costs [L, B] and counts [B] of a column's bins, cumulated."""
        codes, size = self.bins.codes[:, column], self.bins.size(column)
        gains, costs = (_sums(codes, values, size).cumsum(axis=1) for values in (self.gains, self.costs))
        return gains, costs, np.bincount(codes, minlength=size).cumsum()

    def _tables(self, first: int, second: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """The same of the bins of two columns, [L, B, B'] and [B, B'], cumulated along both."""
        shape = (self.bins.size(first), self.bins.size(second))
        codes, size = self.bins.codes[:, first] * shape[1] + self.bins.codes[:, second], shape[0] * shape[1]
        gains, costs = (
            _sums(codes, values, size).reshape(-1, *shape).cumsum(axis=1).cumsum(axis=2)
            for values in (self.gains, self.costs)
        )
        counts = np.bincount(codes, minlength=size).reshape(shape)
        return gains, costs, counts.cumsum(axis=0).cumsum(axis=1)

    def _half(self, side: int, gains: FloatArray, costs: FloatArray, counts: IntArray) -> "_Half":
        """What lies on one side of each root split of the first column."""
        n_roots = gains.shape[1] - 1
        own, price = (
            table[:, :n_roots] if side == 0 else table[:, -1:] - table[:, :n_roots] for table in (gains, costs)
        )
        seen = counts[:n_roots] if side == 0 else counts[-1:] - counts[:n_roots]
        number = seen[:, -1]
        few = (seen[:, :-1] < self.least) | (seen[:, :-1] > number[:, None] - self.least)
        sums = (own[:, :, -1], price[:, :, -1])
        low = own[:, :, :-1], price[:, :, :-1]
        high = own[:, :, -1:] - low[0], price[:, :, -1:] - low[1]
        return _Half(sums, low, high, number < self.least, few)


@dataclass(frozen=True, eq=False)
class _Half:
    """One side of root splits: gains and costs [L, R] there, and [L, R, B] on both sides of a further split."""

    sums: tuple[FloatArray, FloatArray]
    low: tuple[FloatArray, FloatArray]
    high: tuple[FloatArray, FloatArray]
    too_few: BoolArray  # [R]
    few: BoolArray  # [R, B]
    _worth: dict[float, list[FloatArray]] = field(default_factory=dict)  # by price

    def best(self, terms: Terms, charge: float) -> tuple[FloatArray, IntArray]:
        """What is best by some terms [R], and the bin of the split that it takes [R] (−1: none)."""
        parts = (self.sums, self.low, self.high)
        if terms.price not in self._worth:
            self._worth[terms.price] = [gains - terms.price * costs for gains, costs in parts]
        priced = self._worth[terms.price]
        whole, *others = (terms.best_of(own, costs) for own, (_, costs) in zip(priced, parts, strict=True))
        worth, bins = np.where(self.too_few, -np.inf, whole), np.full(len(whole), -1)
        if not self.few.shape[1]:
            return worth, bins
        split = np.where(self.few, -np.inf, sum(others))
        place = split.argmax(axis=1)
        top = split[np.arange(len(split)), place] - charge
        better = top > worth
        return np.where(better, top, worth), np.where(better, place, bins)


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


def _sums(codes: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sums of values [L, N] by code, [L, size]."""
    return np.stack([np.bincount(codes, row, minlength=size) for row in values])
