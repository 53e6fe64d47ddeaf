"""How far the largest of many errors reaches: one value for all estimates together (max-t)."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import FloatArray, IntArray

DRAWS = 2000


def critical_value(influences: FloatArray, share: float, seed: int) -> float:
    """How many standard errors the largest error of all points [k, n] stays within in this share of cases.

    Never below that of a single point.

    >>> rng = np.random.default_rng(0)
    >>> alike = np.tile(rng.normal(size=500), (20, 1))
    >>> round(critical_value(alike, 0.95, seed=0), 1), round(critical_value(rng.normal(size=(20, 500)), 0.95, 0), 1)
    (1.6, 2.8)
    """
    return critical_values([(slice(None), influences)], influences.shape[1], share, seed)[0]


def critical_values(
    blocks: Sequence[tuple[slice | IntArray, FloatArray]], units: int, share: float, seed: int
) -> tuple[float, float]:
    """The same of estimates that each rest on some of the units, and that of errors of either sign.

    A block has its units, and the influences [k, units of the block] of its estimates.

    >>> rng = np.random.default_rng(0)
    >>> halves = [(np.arange(250), rng.normal(size=(1, 250))), (np.arange(250, 500), rng.normal(size=(1, 250)))]
    >>> one_sided, two_sided = critical_values(halves, 500, 0.95, seed=0)  # of two independent ones: 1.95 and 2.24
    >>> 1.9 < one_sided < 2.0, 2.2 < two_sided < 2.3
    (True, True)
    """
    standardised = []
    for own, influences in blocks:
        norms = np.sqrt(np.square(influences).sum(axis=1, keepdims=True))
        standardised.append((own, (influences / np.where(norms > 0, norms, 1.0)).T))  # [units of the block, k]
    rng = np.random.default_rng((seed, 2))
    highest, largest = [], []
    for _ in range(DRAWS // 100):
        drawn = rng.normal(size=(100, units))
        errors = np.hstack([drawn[:, own] @ rows for own, rows in standardised])
        highest.append(errors.max(axis=1))
        largest.append(np.abs(errors).max(axis=1))
    one, two = (float(np.quantile(np.concatenate(found), share)) for found in (highest, largest))
    return max(one, float(ndtri(share))), max(two, float(ndtri((1 + share) / 2)))
