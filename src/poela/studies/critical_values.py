"""How far the largest of many errors reaches: one value for all estimates together, or for two kinds (max-t)."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import BoolArray, FloatArray, IntArray

DRAWS = 2000
# Groups of units that get one random number together where units are many. Given the groups, that moves the correlation
# of two errors by a random amount of about 1 / √MOST_GROUPS at most, a hundredth.
MOST_GROUPS = 20_000
Block = tuple[slice | IntArray, Iterable[FloatArray]]  # units, and the influences of each of k estimates on them


def critical_value(influences: FloatArray, share: float, seed: int) -> float:
    """How many standard errors the largest error of all points [k, n] stays within in this share of cases.

    Never below that of a single point.

    >>> rng = np.random.default_rng(0)
    >>> alike = np.tile(rng.normal(size=500), (20, 1))
    >>> round(critical_value(alike, 0.95, seed=0), 1), round(critical_value(rng.normal(size=(20, 500)), 0.95, 0), 1)
    (1.6, 2.8)
    """
    return critical_values([(slice(None), influences)], influences.shape[1], share, seed)[0]


def critical_values(blocks: Sequence[Block], units: int, share: float, seed: int) -> tuple[float, float]:
    """The same of estimates that each rest on some of the units, and that of errors of either sign.

    A block has its units, and the influences [k, units of the block] of its estimates.

    >>> rng = np.random.default_rng(0)
    >>> halves = [(np.arange(250), rng.normal(size=(1, 250))), (np.arange(250, 500), rng.normal(size=(1, 250)))]
    >>> one_sided, two_sided = critical_values(halves, 500, 0.95, seed=0)  # of two independent ones: 1.95 and 2.24
    >>> 1.9 < one_sided < 2.0, 2.2 < two_sided < 2.3
    (True, True)
    """
    highest, largest = [], []
    for errors in _drawn(blocks, units, seed):
        highest.append(errors.max(axis=1))
        largest.append(np.abs(errors).max(axis=1))
    one, two = (float(np.quantile(np.concatenate(found), share)) for found in (highest, largest))
    return max(one, float(ndtri(share))), max(two, float(ndtri((1 + share) / 2)))


def critical_pair(
    blocks: Sequence[Block], ahead: Sequence[BoolArray], units: int, share: float, seed: int
) -> tuple[float, float]:
    """How many standard errors the errors of the estimates that go ahead, and of all others, stay within together.

    Both kinds go beyond equally often. `ahead` tells the first kind [k] in each block; without either kind it is the
    critical value of all. Never below that of a single one.

    >>> rng = np.random.default_rng(0)
    >>> block, ahead = (slice(None), rng.normal(size=(20, 500))), np.arange(20) == 0
    >>> [round(value, 1) for value in critical_pair([block], [ahead], 500, 0.95, seed=0)]  # of 20 alike: 2.8
    [1.9, 3.0]
    """
    first = np.concatenate(ahead)
    if first.all() or not first.any():
        both = critical_values(blocks, units, share, seed)[0]
        return both, both
    drawn = [(errors[:, first].max(axis=1), errors[:, ~first].max(axis=1)) for errors in _drawn(blocks, units, seed)]
    highest = np.concatenate(drawn, axis=1)  # [2, draws]
    ranks = highest.argsort(axis=1).argsort(axis=1).max(axis=0)
    level = float(np.quantile(ranks, share)) / (highest.shape[1] - 1)
    one, two = (max(float(np.quantile(own, level)), float(ndtri(share))) for own in highest)
    return one, two


def _drawn(blocks: Sequence[Block], units: int, seed: int) -> Iterator[FloatArray]:
    """Errors of all estimates, in their standard errors, a hundred draws [100, k] at a time."""
    together, each = _in_groups(blocks, units, seed) if units > MOST_GROUPS else (blocks, units)
    standardised = []
    for own, rows in together:
        influences = np.array([*rows], np.float64).reshape(-1, each if isinstance(own, slice) else len(own))
        norms = np.sqrt(np.square(influences).sum(axis=1, keepdims=True))
        standardised.append((own, (influences / np.where(norms > 0, norms, 1.0)).T))  # [units of the block, k]
    rng = np.random.default_rng((seed, 2))
    for _ in range(DRAWS // 100):
        drawn = rng.normal(size=(100, each))
        yield np.hstack([drawn[:, own] @ columns for own, columns in standardised])


def _in_groups(blocks: Sequence[Block], units: int, seed: int) -> tuple[list[Block], int]:
    """The same of groups of units, put together at random: the sums of their influences, the same for all estimates."""
    group_of = np.random.default_rng((seed, 3)).permutation(units) % MOST_GROUPS
    sums: list[Block] = [
        (slice(None), [np.asarray(np.bincount(group_of[own], row, MOST_GROUPS), np.float64) for row in rows])
        for own, rows in blocks
    ]
    return sums, MOST_GROUPS
