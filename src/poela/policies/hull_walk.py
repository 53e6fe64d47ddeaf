"""The hull walk: which cases get which action when a budget grows, always where the next unit of cost brings most.

Of each case only actions on the upper convex hull of (cost, score) matter. Their increments, sorted by score per cost,
are the best allotment for every budget at once, up to one case (Sverdrup, Wu, Athey & Wager, JCGS 2025). At a price λ
of a unit of cost the walk has taken every increment that brings at least λ: each case has its action with the highest
score − λ·cost.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError

SAME = 1e-12  # relative: what differs by less is equal
TIED = 1e-9  # relative: slopes that differ by less are those of cases alike, whose values were rounded differently


@dataclass(frozen=True, eq=False)
class HullWalk:
    """Every case's cheapest action, and the increments from there in the order in which they are worth their cost."""

    first: IntArray  # [n] the action of each case before anything is spent on it; −1: none may be taken
    first_costs: FloatArray  # [n] what it costs; 0 where none may be taken
    cases: IntArray  # [k] of each increment
    actions: IntArray  # [k] that it leads to
    costs: FloatArray  # [k] what it adds
    slopes: FloatArray  # [k] score per cost, falling
    ties: IntArray  # [k] rising: those with the same number have equal slopes, and are in the order of the cases

    @cached_property
    def spends(self) -> FloatArray:
        """What all cases cost together before the first increment, and after each [k + 1]."""
        return float(self.first_costs.sum()) + np.concatenate([[0.0], np.cumsum(self.costs)])

    def price(self, budget: float) -> float:
        """The price λ at which the walk costs at most so much; 0 where the budget pays for everything that pays.

        It is between the slope of the first increment beyond the budget and the next higher one: a price cannot tell
        increments of equal slope apart, so that none of these is taken where the budget does not pay for all.
        """
        reached = self.within(budget)
        if reached == len(self.slopes):
            return 0.0
        beyond = float(self.slopes[reached])
        higher = self.slopes[self.ties < self.ties[reached]]
        return (float(higher.min()) if len(higher) else 2 * beyond) / 2 + beyond / 2

    def within(self, budget: float) -> int:
        """How many increments a budget pays for, one after the other."""
        return int(np.searchsorted(self.spends[1:], budget * (1 + SAME) + SAME, side="right"))

    def after(self, increments: int) -> IntArray:
        """The action of each case [n] after so many increments."""
        chosen = self.first.copy()
        chosen[self.cases[:increments]] = self.actions[:increments]  # of a case the later one stays
        return chosen


def hull_walk(costs: FloatArray, scores: FloatArray, allowed: BoolArray | None = None) -> HullWalk:
    """The walk over cases [n] with these costs and scores [n, A]; actions that are not allowed are never taken.

    >>> costs, scores = np.tile([0.0, 3.0, 6.0], (3, 1)), np.array([[0.0, 30, 10], [0, 40, 50], [0, 10, 55]])
    >>> walk = hull_walk(costs, scores)  # the example of the package maq
    >>> chosen = walk.after(walk.within(3 * 5.0))
    >>> chosen.tolist(), float(scores[np.arange(3), chosen].mean())
    ([1, 2, 2], 45.0)
    """
    costs, scores = np.broadcast_to(costs, scores.shape), np.asarray(scores, np.float64)
    if not np.isfinite(scores).all() or not np.isfinite(costs).all():
        raise InputError("costs and scores must be finite")
    allowed = np.ones(scores.shape, np.bool_) if allowed is None else allowed
    rows = np.arange(len(scores))
    able = allowed.any(axis=1)
    cheapest = np.where(allowed, costs, np.inf).min(axis=1, initial=np.inf)
    ties = allowed & (costs <= cheapest[:, None])
    at = np.where(ties, scores, -np.inf).argmax(axis=1)
    first, first_costs = np.where(able, at, -1), np.where(able, costs[rows, at], 0.0)
    found: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
    left = rows[able]
    while len(left):
        here = at[left]
        more = costs[left] - costs[left, here][:, None]
        gained = scores[left] - scores[left, here][:, None]
        better = allowed[left] & (more > 0) & (gained > 0)
        slope = np.divide(gained, more, out=np.full(more.shape, -np.inf), where=better)
        steepest = slope.max(axis=1)
        # Of actions on one line the dearest: the steps between bring no more than the whole.
        level = better & (slope >= (steepest * (1 - SAME))[:, None])
        to = np.where(level, more, -np.inf).argmax(axis=1)
        goes = better.any(axis=1)
        left, to, steepest, more = left[goes], to[goes], steepest[goes], more[goes]
        found.append((left, to, more[np.arange(len(left)), to], steepest))
        at[left] = to
    cases, actions, added, slopes = (np.concatenate(part) for part in zip(*found, strict=True)) if found else _NOTHING
    order, ties = _falling(slopes, cases)
    return HullWalk(first, first_costs, cases[order], actions[order], added[order], slopes[order], ties)


def _falling(slopes: FloatArray, cases: IntArray) -> tuple[IntArray, IntArray]:
    """The order in which slopes fall, cases in their order where they are equal, and the number [k] of each tie."""
    order = np.argsort(-slopes, kind="stable")  # of a case, slopes fall: its increments stay in their order
    falling = slopes[order]
    ties = np.cumsum(np.r_[False, falling[1:] < falling[:-1] * (1 - TIED)][: len(order)])
    within = np.lexsort((cases[order], ties))
    return order[within], ties


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
