"""Ridge regressions of many targets on the same features, of which only decompositions are kept.

Features are wide where contexts are narrow, so they are computed anew, a block of rows at a time, whenever rows are
looked at: what is kept does not grow with their number.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray

TIE = 1e-6
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
Inputs = FloatArray | Float32Array  # what a regression looks at: [m, ...]
MOST_LEFT_OUT = 50_000  # rows that tell which penalty is best, about: of more, some blocks that are spread over them
AT_ONCE = 1 << 17  # features in one block: few enough to stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Features:
    """Features of rows, computed a block of rows at a time.

    >>> features = Features.known(np.array([[1.0, 2.0], [1.0, 3.0]]))
    >>> [block.tolist() for _, block in features.part(slice(1, 2)).blocks()]
    [[[1.0, 3.0]]]
    """

    rows: slice
    width: int
    compute: Callable[[slice], Any]  # of such rows, [m, width]

    @classmethod
    def known(cls, features: Inputs) -> "Features":
        """Of features [rows, p] that are at hand."""
        return cls(slice(0, len(features)), features.shape[1], lambda rows: features[rows])

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def part(self, rows: slice, width: int | None = None) -> "Features":
        """The first features of some of the rows."""
        wanted, start = width or self.width, self.rows.start
        return Features(
            slice(start + rows.start, start + rows.stop), wanted, lambda asked: self.compute(asked)[:, :wanted]
        )

    def blocks(self, most: float = np.inf) -> Iterator[tuple[slice, FloatArray]]:
        """Each block with the rows that it holds, counted from the first of these.

        With `most` only blocks of about so many rows, evenly spread, where there are more.

        >>> features = Features.known(np.ones((1000, 1 << 11)))
        >>> [rows.start // 64 for rows, _ in features.blocks(most=300)]  # blocks of 64 rows, of which every third
        [0, 3, 6, 9, 12, 15]
        """
        first, together = self.rows.start, rows_at_once(self.width)
        starts = range(first, self.rows.stop, together)
        if most < len(self):
            starts = starts[:: max(int(len(self) / most), 1)]
        for start in starts:
            rows = slice(start, min(start + together, self.rows.stop))
            yield slice(rows.start - first, rows.stop - first), self.compute(rows)

    def all(self) -> FloatArray:
        """[rows, width], where they are few."""
        return np.asarray(self.compute(self.rows))


def rows_at_once(width: int) -> int:
    """How many rows of so many features are looked at together."""
    return max(AT_ONCE // width, 64)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regressions on the same features: for every penalty and any targets, after one eigendecomposition.

    >>> x = np.linspace(-1, 1, 50)
    >>> features = Features.known(np.column_stack([np.ones(50), x]))
    >>> regression, targets = Ridge.of(features), np.column_stack([2 + 3 * x, 1 - x])
    >>> projected = regression.projected(features, targets)
    >>> regression.coefficients(projected, regression.best(features, targets, projected)).round(2)
    array([[ 2.,  1.],
           [ 3., -1.]])
    """

    lift: FloatArray  # [p, k]: from directions to coefficients
    held: FloatArray  # [k]: features.T @ features is lift · held · lift.T
    inverse: FloatArray  # [penalties, k]
    directions: FloatArray | None = None  # [rows, k] where rows are fewer than features; else features @ lift
    # One minus the leverage of each row for each penalty [m, penalties], of each block of rows that was looked at.
    unleveraged: dict[int, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Features, penalties: Sequence[float] = PENALTIES, gram: FloatArray | None = None) -> "Ridge":
        """Penalties stand in rising order; `gram` is features.T @ features, where that is known already."""
        # The smaller of the two Gram matrices has all the singular values.
        if len(features) >= features.width:
            if gram is None:
                gram = np.sum([block.T @ block for _, block in features.blocks()], axis=0)
            squares, right = np.linalg.eigh(gram)
            held, lift, directions = np.maximum(squares, 0.0), right, None
        else:
            rows = features.all()
            squares, directions = np.linalg.eigh(rows @ rows.T)
            held, lift = np.ones(len(rows)), rows.T @ directions
        return cls(lift, held, 1 / (np.maximum(squares, 0.0) + np.array(penalties)[:, None]), directions)

    def projected(self, features: Features, targets: FloatArray) -> FloatArray:
        """Targets [rows, P] in the space of the directions, [k, P]."""
        if self.directions is not None:
            return np.asarray(self.directions.T @ targets)
        crossed = np.zeros((features.width, targets.shape[1]))
        for rows, block in features.blocks():
            crossed += block.T @ targets[rows]
        return np.asarray(self.lift.T @ crossed)

    def best(self, features: Features, targets: FloatArray, projected: FloatArray) -> IntArray:
        """For each of the targets [rows, P] the penalty that predicts best when each row is left out in turn, [P].

        Of many rows, so are some of them (`MOST_LEFT_OUT`); what predicts them is fitted on all others.
        """
        every = [self.lift @ (inverse[:, None] * projected) for inverse in self.inverse]
        errors = np.zeros((len(every), targets.shape[1]))
        for rows, block in features.blocks(MOST_LEFT_OUT):
            if rows.start not in self.unleveraged:
                self.unleveraged[rows.start] = self._unleveraged(rows, block)
            unleveraged = self.unleveraged[rows.start]
            for place, coefficients in enumerate(every):
                left_out = targets[rows] - block @ coefficients
                left_out /= unleveraged[:, place, None]
                errors[place] += np.einsum("ij,ij->j", left_out, left_out)
        # Of penalties that do equally well, the largest: so rounding, and with it the order of rows, decides nothing.
        equal = errors <= errors.min(axis=0) * (1 + TIE)
        return np.asarray(len(errors) - 1 - equal[::-1].argmax(axis=0))

    def _unleveraged(self, rows: slice, block: FloatArray) -> FloatArray:
        if self.directions is None:
            leverages = np.square(block @ self.lift) @ self.inverse.T
        else:
            squares = np.square(self.lift).sum(axis=0)
            leverages = np.square(self.directions[rows]) @ (squares * self.inverse).T
        return np.maximum(1 - leverages, 1e-6)

    def coefficients(self, projected: FloatArray, chosen: IntArray) -> FloatArray:
        """[p, P] for projected targets [k, P], with the chosen penalties."""
        return np.asarray(self.lift @ (self.inverse[chosen].T * projected))

    def shares(self, wanted: FloatArray, chosen: IntArray) -> FloatArray:
        """What the directions weigh [k, P] in the sums asked · coefficients, for asked [p, P]."""
        return np.asarray(self.inverse[chosen].T * (self.lift.T @ wanted))

    def add_weights(self, weights: FloatArray, features: Features, shares: FloatArray) -> None:
        """Add to weights [rows, P] what each row's target weighs, for directions that weigh so much."""
        if self.directions is not None:
            weights += self.directions @ shares
            return
        by_feature = self.lift @ shares
        for rows, block in features.blocks():
            weights[rows] += block @ by_feature

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.lift.size + (0 if self.directions is None else self.directions.size)
