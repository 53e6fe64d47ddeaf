"""Allotting a batch by value for money: each case an action, with no more of an action, or of a cost, than there is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.draws import Key, uniforms
from poela.core.errors import InputError
from poela.data.costs import Capacity, Costs, capacities_in
from poela.data.decision_rows import parts_to_decide
from poela.data.history import StepsToFollow
from poela.data.layout import LogLayout
from poela.data.numbers import read_doubles
from poela.data.opening import open_source
from poela.data.rows import RowProblems
from poela.data.words import quoted
from poela.policies.deciding import Allotted, Deciding, rows_wanted
from poela.policies.valued import ValuedPolicy, supported

# The hull walk: which cases get which action when a budget grows, always where the next unit of cost brings most.
# Of each case only actions on the upper convex hull of (cost, score) matter. Their increments, sorted by score per
# cost, are the best allotment for every budget at once, up to one case (Sverdrup, Wu, Athey & Wager, JCGS 2025). At a
# price λ of a unit of cost the walk has taken every increment that brings at least λ: each case has its action with
# the highest score − λ·cost.

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


def by_budget(
    costs: FloatArray, scores: FloatArray, allowed: BoolArray, budget: float, draws: FloatArray
) -> tuple[Allotted, HullWalk]:
    """The hull walk as far as a budget for all cases reaches; `draws` [n] decide between cases of equal worth.

    Cases whose every allowed action costs something come first, the cheapest of them before the others, and are left to
    people where nothing is left.

    >>> scores, even = np.array([[0.0, 3.0], [0.0, 1.0], [0.0, 1.0]]), np.ones((3, 2), bool)
    >>> found, _ = by_budget(np.array([0.0, 1.0]), scores, even, 2.0, np.array([0.5, 0.9, 0.1]))
    >>> found.chosen, found.probabilities[:, 1], found.left_out
    (array([1, 0, 1]), array([1. , 0.5, 0.5]), array([False,  True, False]))
    """
    order = np.argsort(draws, kind="stable")  # ties of the walk are then in the order of the draws
    costs = np.broadcast_to(costs, scores.shape)[order]
    scores, allowed = scores[order], allowed[order]
    walk = hull_walk(costs, scores, allowed)
    cheapest = np.argsort(walk.first_costs, kind="stable")
    unserved = np.zeros(len(scores), np.bool_)
    unserved[cheapest] = np.cumsum(walk.first_costs[cheapest]) > budget * (1 + SAME) + SAME
    unserved &= walk.first_costs > 0
    if unserved.any():
        walk = hull_walk(costs, scores, allowed & ~unserved[:, None])
    reached = walk.within(budget)
    chosen = walk.after(reached)
    probabilities = np.zeros(scores.shape)
    rows = np.flatnonzero(chosen >= 0)
    probabilities[rows, chosen[rows]] = 1.0
    _draw_lots(walk, reached, probabilities)
    left_out = np.zeros(len(scores), np.bool_)
    left_out[walk.cases[reached:]] = True
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Allotted(chosen[back], probabilities[back], left_out[back], unserved[back]), walk


def _draw_lots(walk: HullWalk, reached: int, probabilities: FloatArray) -> None:
    """Where cases of equal worth and cost are in part within the budget, each had the same chance."""
    if not 0 < reached < len(walk.slopes):
        return
    alike = walk.ties == walk.ties[reached]
    alike &= np.isclose(walk.costs, walk.costs[reached], rtol=SAME, atol=0)
    places = np.flatnonzero(alike)
    served = int((places < reached).sum())
    if not served or len(np.unique(walk.cases[places])) < len(places):
        return
    before = walk.after(int(places[0]))[walk.cases[places]]
    chance = served / len(places)
    probabilities[walk.cases[places]] = 0.0
    probabilities[walk.cases[places], before] = 1 - chance
    probabilities[walk.cases[places], walk.actions[places]] = chance


def by_counts(scores: FloatArray, allowed: BoolArray, limits: Mapping[int, int], draws: FloatArray) -> Allotted:
    """The allotment with the highest sum of scores in which no action with a limit is given more often.

    >>> scores, even = np.array([[0.0, 3.0, 2.0], [0.0, 2.9, 1.0]]), np.ones((2, 3), bool)
    >>> by_counts(scores, even, {1: 1, 2: 1}, np.zeros(2)).chosen
    array([2, 1])
    """
    if len(limits) == 1:
        ((action, limit),) = limits.items()
        costs = np.zeros(scores.shape[1])
        costs[action] = 1.0
        return by_budget(costs, scores, allowed, float(limit), draws)[0]
    if not limits:
        raise InputError("a capacity names at least one action")
    able = allowed.any(axis=1)
    chosen = np.full(len(scores), -1)
    if able.any():
        chosen[able] = _transported(scores[able], allowed[able], limits)
    unserved = able & (chosen < 0)
    probabilities = np.zeros(scores.shape)
    rows = np.flatnonzero(chosen >= 0)
    probabilities[rows, chosen[rows]] = 1.0
    wished = np.where(allowed, scores, -np.inf).argmax(axis=1)
    return Allotted(chosen, probabilities, (chosen >= 0) & (chosen != wished), unserved)


def _transported(scores: FloatArray, allowed: BoolArray, limits: Mapping[int, int]) -> IntArray:
    """The best actions [n] under several limits, by a linear program whose corners are whole; −1: none is left."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    limited = list(limits)
    free = allowed.copy()
    free[:, limited] = False
    best_free = np.where(free, scores, -np.inf).argmax(axis=1)
    span = float(scores.max() - scores.min()) + 1.0
    rows = np.arange(len(scores))
    # The last column: the best action without a limit, or where there is none to be left to people, which is worst.
    last = np.where(free.any(axis=1), scores[rows, best_free], scores.min() - 2 * span * (len(limited) + 1))
    worth = np.column_stack([scores[:, limited], last])
    upper = np.column_stack([allowed[:, limited], np.ones(len(rows), np.bool_)]).astype(np.float64)
    columns = worth.shape[1]
    case, action = np.repeat(rows, columns), np.tile(np.arange(columns), len(rows))
    place, ones = np.arange(len(case)), np.ones(len(case))
    each = coo_array((ones, (case, place)), shape=(len(rows), len(case))).tocsr()
    counted = action < columns - 1
    total = coo_array((ones[counted], (action[counted], place[counted])), shape=(columns - 1, len(case))).tocsr()
    found = milp(
        -worth.ravel(),
        bounds=Bounds(0.0, upper.ravel()),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(total, 0, [limits[one] for one in limited])],
        integrality=np.ones(len(case)),
    )
    if found.x is None:
        raise InputError(f"no allotment was found: {found.message}")
    taken = found.x.reshape(worth.shape).argmax(axis=1)
    without = np.where(free.any(axis=1), best_free, -1)
    actions = np.array([*limited, -1])[taken]
    return np.where(taken == columns - 1, without, actions)


@dataclass(frozen=True)
class BatchLimits:
    """What there is for a batch: so many of some actions, or so much to spend per case."""

    capacity: tuple[Capacity, ...] = ()
    spend: float | None = None

    @classmethod
    def of(cls, capacity: str | None, spend: float | None) -> "BatchLimits | None":
        """From what was said; None where nothing was.

        >>> str(BatchLimits.of("large=3", None)), str(BatchLimits.of(None, 0.5)), BatchLimits.of(None, None)
        ('large=3', 'spend 0.5 per case', None)
        """
        if capacity is None and spend is None:
            return None
        if capacity is not None and spend is not None:
            raise InputError("a batch has a capacity or a spend: say one of them")
        if spend is not None and not 0 <= spend < np.inf:
            raise InputError(f"spend is {spend}: it must be a number from 0 on, per case")
        return cls(() if capacity is None else capacities_in(capacity), spend)

    def __str__(self) -> str:
        return ",".join(map(str, self.capacity)) if self.spend is None else f"spend {self.spend:g} per case"


def costs_in(source: Any, column: str, names: Sequence[object], layout: LogLayout) -> FloatArray:
    """What each action would cost each case [n, A], from columns such as price_large; without one it costs nothing.

    >>> import pyarrow as pa
    >>> costs_in(pa.table({"age": [50, 60], "price_large": [3.0, 2.5]}), "price", ["none", "large"], LogLayout())
    array([[0. , 3. ],
           [0. , 2.5]])
    """
    opened, problems = open_source(source, layout, ()), RowProblems()
    named = {f"{column}_{name}": place for place, name in enumerate(names)}
    there = [name for name in named if name in opened.names]
    if not there:
        raise InputError(
            f"this study knows a column of costs, so rows have to say what each action would cost: add columns such as "
            f"{quoted(list(named)[-1:])} (an action without one costs nothing), or say --capacity"
        )
    found = read_doubles(opened, there, None, problems)
    if found is not None:
        problems.note(
            np.asarray((found < 0).any(axis=1)), f"columns {quoted(there)} are below 0", "give costs from 0 on"
        )
    if problems or found is None:
        raise InputError(problems.sentences())
    costs = np.zeros((opened.n_rows, len(names)))
    costs[:, [named[name] for name in there]] = found
    return costs


def allotted(
    policy: Any, source: Any, how: Deciding, limits: BatchLimits, costs: Costs, layout: LogLayout | None = None
) -> Allotted:
    """What all rows of a table get, within limits: by the values of a policy, under its rule.

    `costs` are what a spend is about.
    """
    if not isinstance(policy, ValuedPolicy) or policy.needs != "context":
        raise InputError("only a policy of values of single decisions can allot a batch")
    scores, allowed, keys, seen, start = [], [], list[Key](), Counter[str](), 0
    for rows in parts_to_decide(source, rows_wanted(policy, how), layout or LogLayout()):
        order, contexts = rows.order, rows.contexts.rows
        steps = StepsToFollow(contexts.contexts, np.maximum(rows.actions, 0), order.offsets, policy.feature_names)
        eligible = policy.eligibility.along(steps)
        mask = supported(policy.behavior_along(steps) > 0, eligible.free) & ~eligible.stranded[:, None]
        scores.append(order.in_file(policy.q_along(steps)))
        allowed.append(order.in_file(mask))
        keys += rows.keys(start, seen)
        start += rows.n
    q, free = np.concatenate(scores), np.concatenate(allowed)
    draws = uniforms(f"{policy.short_hash if how.seed is None else how.seed} allotted", keys)
    if limits.spend is not None:
        amounts = costs.of_actions(policy.action_names)
        if amounts is None:
            amounts = costs_in(source, costs.text, policy.action_names, layout or LogLayout())
        return by_budget(amounts, q, free, limits.spend * len(q), draws)[0]
    names = list(map(str, policy.action_names))
    if unknown := [one.action for one in limits.capacity if one.action not in names]:
        raise InputError(f"there is no action {quoted(unknown)} to have a capacity: choose from {quoted(names)}")
    return by_counts(q, free, {names.index(one.action): one.among(len(q)) for one in limits.capacity}, draws)
