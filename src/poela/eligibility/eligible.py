"""Which actions may be taken, worked out for some contexts."""

from dataclasses import dataclass, replace

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.limits import within


@dataclass(frozen=True, eq=False)
class Eligible:
    """What may be done at each of N contexts."""

    mask: BoolArray  # [N, A], at least one action in each row
    stranded: BoolArray  # [N], nothing passed the rule: the fallback acted
    penalty: FloatArray | None = None  # [N, A], what scores lose where support is missing and has a price
    behavior: FloatArray | None = None  # [N, A], to be followed on stranded rows (fallback "behavior"); 0 on others

    def within(self, allowed: BoolArray) -> "Eligible":
        """The same where only some actions are allowed [N, A]; where none is, everything stands, and is deferred.

        >>> eligible = Eligible(np.array([[True, True], [False, True]]), np.array([False, True]))
        >>> eligible.within(np.array([[False, True], [True, False]])).mask
        array([[False,  True],
               [ True, False]])
        """
        mask = self.mask & allowed
        mask = np.where(mask.any(axis=1, keepdims=True), mask, allowed)
        mask = np.where(mask.any(axis=1, keepdims=True), mask, True)
        followed = None if self.behavior is None else np.where(self.stranded[:, None], within(self.behavior, mask), 0.0)
        return replace(self, mask=mask, behavior=followed)

    @property
    def free(self) -> BoolArray:
        """What costs nothing [N, A]: for those who take the best action alone, and weigh nothing against a price.

        >>> everything, none = np.ones((2, 2), bool), np.zeros(2, bool)
        >>> Eligible(everything, none, np.array([[0.0, 1.5], [2.0, 1.0]])).free
        array([[ True, False],
               [ True,  True]])
        """
        if self.penalty is None:
            return self.mask
        unpriced = self.mask & (self.penalty == 0)
        return np.asarray(np.where(unpriced.any(axis=1, keepdims=True), unpriced, self.mask))

    @property
    def n_stranded(self) -> int:
        """How many contexts the fallback acted on."""
        return int(self.stranded.sum())
