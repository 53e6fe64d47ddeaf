"""Folds and parts of episodes that keep units, such as the stays of one patient, together."""

import heapq
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import IntArray
from poela.core.errors import InputError
from poela.data.words import counted

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories


def fold_numbers(logs_or_units: "Trajectories | IntArray", folds: int, seed: "int | np.random.Generator") -> IntArray:
    """A random fold for each episode; units (numbered from 0) stay whole, folds are about equal in episodes.

    Where every episode is its own unit, the folds differ in size by one episode at most.

    >>> np.bincount(fold_numbers(np.arange(11), 5, seed=0)).tolist()
    [3, 2, 2, 2, 2]
    >>> fold_numbers(np.array([0, 0, 1, 2, 1, 2]), 3, seed=0).tolist()
    [2, 2, 0, 1, 0, 1]
    """
    units: IntArray = np.asarray(getattr(logs_or_units, "units", logs_or_units))
    sizes = np.bincount(units)
    if not 2 <= folds <= len(sizes):
        noun = "episode" if len(sizes) == len(units) else "cluster"
        raise InputError(
            f"{folds} folds of {len(sizes)} {noun}s cannot be made: take at least 2 folds and at most one per {noun}"
        )
    place = np.random.default_rng(seed).permutation(len(sizes))
    if len(sizes) == len(units):
        return np.asarray((place % folds)[units])
    fold_of_unit = np.empty(len(sizes), np.int64)
    filled = [(0, fold) for fold in range(folds)]
    for unit in np.argsort(place).tolist():  # each to the fold with the fewest episodes so far
        count, fold = filled[0]
        fold_of_unit[unit] = fold
        heapq.heapreplace(filled, (count + int(sizes[unit]), fold))
    return np.asarray(fold_of_unit[units])


def folds_within(logs: "Trajectories", folds: int, seed: int, only_teach: int = 0) -> IntArray:
    """A random fold for each episode, about equal ones of each logger; −1 for the first ones that only teach.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 7, [0] * 7, [0.0] * 7, range(8), loggers=[-1, 0, 0, 0, 0, 1, 1])
    >>> folds_within(logs, 2, seed=0, only_teach=1).tolist()
    [-1, 0, 0, 1, 1, 0, 1]
    """
    fold_of = np.full(logs.n_episodes, -1)
    strata = np.zeros(logs.n_episodes, np.int64) if logs.loggers is None else logs.loggers
    judges = np.arange(logs.n_episodes) >= only_teach
    for stratum in np.unique(strata[judges]):
        own = np.flatnonzero(judges & (strata == stratum))
        units = np.unique(logs.units[own], return_inverse=True)[1]
        fold_of[own] = fold_numbers(units, folds, np.random.default_rng(seed if stratum == 0 else [seed, stratum]))
    return fold_of


def random_parts(units: IntArray, bounds: Sequence[int], seed: int) -> list[IntArray]:
    """Disjoint random parts of episodes, as ascending positions; units (numbered from 0) stay whole.

    In a random order of units, part p goes from about `bounds[p]` to `bounds[p + 1]` episodes: as near as whole units
    come, and at least one unit. There must be as many units as parts.

    >>> [part.tolist() for part in random_parts(np.array([0, 0, 1, 2, 1, 2]), [0, 4, 6], seed=0)]
    [[0, 1, 3, 5], [2, 4]]
    """
    sizes = np.bincount(units)
    order = np.random.default_rng(seed).permutation(len(sizes))
    reached = np.concatenate([[0], np.cumsum(sizes[order])])
    cuts = [0]
    for place, bound in enumerate(bounds[1:], start=1):
        nearest = int(np.abs(reached - bound).argmin())
        to_come = len(bounds) - 1 - place
        cuts.append(min(max(nearest, cuts[-1] + 1), len(sizes) - to_come))
    return [np.flatnonzero(np.isin(units, order[start:end])) for start, end in itertools.pairwise(cuts)]


def parts_in_shares(units: IntArray, shares: Sequence[float], seed: int) -> list[IntArray]:
    """The episodes of disjoint random parts in these shares, which keep units whole.

    >>> [part.tolist() for part in parts_in_shares(np.arange(4), (0.5, 0.5), seed=0)]
    [[0, 2], [1, 3]]
    """
    n, n_units = len(units), int(units.max()) + 1
    if not shares or min(shares) <= 0 or sum(shares) > 1 + 1e-9:
        raise InputError(f"shares {tuple(shares)} must be positive and sum to at most 1")
    bounds = np.round(np.cumsum([0.0, *shares]) * n).astype(int)
    if (np.diff(bounds) == 0).any():
        raise InputError(f"{n} episodes are too few for the shares {tuple(shares)}: a part would be empty")
    if n_units < len(shares):
        raise InputError(
            f"{counted(n_units, 'cluster')} cannot be split into {len(shares)} parts, since episodes of a "
            "cluster stay together: add more clusters, or name smaller ones"
        )
    return random_parts(units, bounds.tolist(), seed)
