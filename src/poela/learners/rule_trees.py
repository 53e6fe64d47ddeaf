"""Trees whose leaves say what to do: the best of one and of two conditions, at several prices of departing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.trajectories import Trajectories
from poela.learners.rule_scores import costs_of, share_left
from poela.learners.rule_search import Bins, Box, Search, Terms, Tree, side_by_side
from poela.policies.cases import Case

MOST_SWITCHES = 6  # actions: with more, no action is replaced by a certain other one
MOST_COLUMNS, MOST_INSTRUCTIONS = 12, 16  # that trees of depth 2 are made of: the best in trees of depth 1
MILD = 2.0  # what odds are multiplied by
SURE = 1.0  # standard errors that an instruction must gain in a leaf, and a split over none
LEAST_SHARE, LEAST_ROWS = 0.01, 10  # of decisions, in a case
PRICE = 0.25  # of departing by one unit of log(1 + χ²), in standard errors of the mean return
PARTS = (0.9, 0.6, 0.3)  # of what may be spent on departing, in one leaf
Leaves = list[tuple[int | None, BoolArray]]  # what each leaf says, and its rows
Leaf = tuple[Box, BoolArray, int | None]


def instructions(n_actions: int, mild: bool = False) -> list[Case]:
    """What a leaf can say; with `mild`, that it is to be done more often."""
    every = range(n_actions)
    if mild:
        return [Case("odds", action, odds=MILD) for action in every]
    cases = [Case("never", action) for action in every]
    if n_actions > 2:
        cases += [Case("always", action) for action in every]
        if n_actions <= MOST_SWITCHES:
            cases += [Case("instead", one, other=other) for one in every for other in every if one != other]
    return cases


class Grown:
    """Trees over a log, by what each instruction gains at each decision and how far it departs from practice."""

    def __init__(
        self, train: Trajectories, practice: FloatArray, free: BoolArray, scores: FloatArray, cases: Sequence[Case]
    ) -> None:
        self._train, self._bins, self._cases = train, Bins.of(train.contexts), cases
        self.gains, self.costs = np.empty((2, len(cases), train.n_steps))
        for number, case in enumerate(cases):
            rows = case.acted(practice, free)
            self.gains[number] = ((rows - practice) * scores).sum(axis=1)
            self.costs[number] = costs_of(rows, practice)
        self._least = max(min(LEAST_ROWS, train.n_steps), int(LEAST_SHARE * train.n_steps))
        self._charge = SURE * float(np.sqrt(np.square(self.gains).mean(axis=0).sum()))

    def rules(self, left: Sequence[float], depths: Sequence[int] = (1, 2)) -> list[tuple[Case, ...]]:
        """The cases of the best trees of one condition, then of two, that leave these shares of episodes effective."""
        every = self._terms(left)
        search = Search(self._bins, self.gains, self.costs, self._charge, self._least)
        stumps = search.stumps(every)
        trees = {1: [tree for tree, _ in stumps]}
        if 2 in depths:
            worth = np.max([own for _, own in stumps], axis=0)
            columns = np.argsort(-worth, kind="stable")[:MOST_COLUMNS]
            kept = self._promising()
            fewer = replace(search, gains=self.gains[kept], costs=self.costs[kept])
            trees[2] = fewer.trees(sorted(columns.tolist()), every)
        return [cases for depth in depths for cases in self._affordable(trees[depth], every, left)]

    def _terms(self, left: Sequence[float]) -> list[Terms]:
        """Leaves that may cost all that is left to spend for each share, or parts of it."""
        price = PRICE * float(self._train.returns().std()) / np.sqrt(self._train.n_episodes)
        spent = [-np.log(share) * part if share > 0 else np.inf for share in left for part in PARTS]
        return [Terms(price, most * self._train.n_episodes) for most in dict.fromkeys(spent)]

    def _affordable(
        self, trees: Sequence[Tree], every: Sequence[Terms], left: Sequence[float]
    ) -> list[tuple[Case, ...]]:
        """Of the trees by each terms, the one that gains most and leaves each share of episodes."""
        said = [self._said(tree, terms) for tree, terms in zip(trees, every, strict=True)]
        worth = []
        for _, leaves in said:
            gain, costs = 0.0, np.zeros(self._train.n_steps)
            for chosen, rows in leaves:
                if chosen is not None:
                    gain += float(self.gains[chosen, rows].sum())
                    costs[rows] = self.costs[chosen, rows]
            worth.append((gain, share_left(costs, self._train.offsets)))
        best = []
        for share in left:
            within = [place for place, (_, reached) in enumerate(worth) if reached >= share - 1e-9]
            place = max(within, key=lambda place: worth[place][0], default=None)
            best.append(() if place is None else said[place][0])
        return best

    def _promising(self) -> list[int]:
        """Instructions that are worth most in some half of some feature."""
        if len(self._cases) <= MOST_INSTRUCTIONS:
            return list(range(len(self._cases)))
        alone = (Search(self._bins, row[None], np.zeros((1, len(row))), least=self._least) for row in self.gains)
        worth = [search.stumps([Terms()])[0][1].max() for search in alone]
        return sorted(np.argsort(-np.asarray(worth), kind="stable")[:MOST_INSTRUCTIONS].tolist())

    def _said(self, tree: Tree, terms: Terms) -> tuple[tuple[Case, ...], Leaves]:
        """What the leaves of a tree say, other than *as before*, and their rows."""
        leaves = [(box, rows, self._choice(rows, terms)) for box, rows in tree.leaves(self._bins)]
        said = merged(leaves, self._bins)
        if all(chosen is not None for _, _, chosen in said):
            said[-1] = ({}, *said[-1][1:])  # otherwise
        cases = tuple(
            replace(
                self._cases[chosen],
                where=self._bins.conditions(box, self._train.feature_names),
                share=float(rows.mean()),
            )
            for box, rows, chosen in said
            if chosen is not None
        )
        return cases, [(chosen, rows) for _, rows, chosen in said]

    def _choice(self, rows: BoolArray, terms: Terms) -> int | None:
        """The best instruction in these rows; None: as before, where none gains more than chance may."""
        gains, costs = self.gains[:, rows], self.costs[:, rows].sum(axis=1)
        worth = np.where(costs <= terms.most, gains.sum(axis=1) - terms.price * costs, -np.inf)
        best = int(worth.argmax())
        chance = SURE * np.sqrt(np.square(gains[best]).sum())
        return best if worth[best] > 0 and gains[best].sum() > chance else None


def merged(leaves: Sequence[Leaf], bins: Bins) -> list[Leaf]:
    """Leaves that say the same and lie side by side, as one."""
    left = list(leaves)
    for place, (box, rows, chosen) in enumerate(left):
        for other, (second, more, same) in enumerate(left[:place]):
            if chosen == same and (both := side_by_side(second, box)) is not None:
                whole = {column: ends for column, ends in both.items() if ends != (-1, bins.size(column) - 1)}
                left[other] = (whole, rows | more, same)
                return merged(left[:place] + left[place + 1 :], bins)
    return left
