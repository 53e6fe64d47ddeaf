"""Rules: plain policies that people can say and carry out, and bans by values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.policy import Policy
from poela.core.typed import NonNegative, Range
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.backward_induction import expected
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint
from poela.learners.logging_policy import logging_policy, logging_probabilities
from poela.learners.rule_scores import held_out_values, scores_of
from poela.learners.rule_search import Bins, PairSearch, Tree, best_stumps, condition
from poela.learners.value_learner import ValueLearner
from poela.policies.barring import BarringPolicy, margins_that_bar
from poela.policies.cases import Case
from poela.policies.plain import PlainPolicy
from poela.policies.rule_words import instruction_in_words
from poela.policies.valued import priced

MOST_EACH = 4  # actions: with more, not each of them has its own *always* and *never*
MOST_SWITCHES = 6  # actions: with more, no action is replaced by a certain other one
MOST_COLUMNS, MOST_INSTRUCTIONS = 12, 16  # that trees of depth 2 are made of: the best in trees of depth 1
MILD = 3.0  # what odds are multiplied by
SURE = 1.0  # standard errors that an instruction must gain in a leaf, and a split over none
LEAST_SHARE, LEAST_ROWS = 0.01, 10  # of decisions, in a case


@dataclass(frozen=True, kw_only=True)
class Rules(ValueLearner):
    """Practice changed by what can be said: *always a*, *never a*, *a instead of b*, in cases like these.

    The path has *always* and *never* for each action (where there are few), practice without the worst `barred` shares
    of its decisions by the values of practice ("never by values"), and trees of one and of two conditions whose leaves
    say what to do, or *as before*. Trees are the best of all over binned features, by doubly robust scores of every
    action, less a price for departing from practice: `prices` in standard errors of the mean return for each unit of
    log(1 + χ²), from cautious to bold. Where episodes have several steps, leaves may also multiply odds.

    >>> rng = np.random.default_rng(0)
    >>> lactate, actions = rng.uniform(0, 4, 600).astype(np.float32), rng.integers(2, size=600)
    >>> rewards = np.where(lactate > 2, actions, 1 - actions) + rng.normal(size=600)
    >>> names = {"feature_names": ["lactate"], "action_names": ["wait", "treat"]}
    >>> logs = Trajectories(lactate[:, None], actions, rewards, np.arange(601), np.full((600, 2), 0.5), **names)
    >>> Rules().fit(logs).rule
    'If lactate > 2: never wait (49% of decisions). Otherwise as before.'
    """

    walks: ClassVar[bool] = True
    prices: tuple[NonNegative, ...] = (3.0, 1.0, 0.25)
    barred: tuple[Annotated[float, Range(above=0, most=1)], ...] = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield *always* and *never*, then bans by values, then trees of one condition and of two."""
        own = self if train.n_steps > train.n_episodes else replace(self, history=0)
        for place, (policy, note) in enumerate(own.policies(train, seed, behavior), start=1):
            yield Checkpoint(place, policy, note)

    def policies(self, train: Trajectories, seed: int, behavior: Policy | None) -> Iterator[tuple[Any, str]]:
        """Each policy of the path, and its name."""
        logging = logging_policy(train, behavior)
        chances = logging_probabilities(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule or Eligibility(), train, behavior)
        practice = priced(chances, eligible)
        common: dict[str, Any] = {"behavior": logging, "eligibility": eligibility}
        names = {"feature_names": train.feature_names, "action_names": train.action_names}
        for case in _in_every_case(train.n_actions):
            note = instruction_in_words(case, train.action_names)
            yield PlainPolicy(cases=(case,), **common, **names), note
        ((values, q),) = self.induction(train, seed).values(expected(practice.T[:, :, None]))
        self.refuse_divergence(train, q[practice > 0])
        for share, margin in zip(self.barred, margins_that_bar(q, practice, self.barred), strict=True):
            fields = {**common, **self.fields(train)}
            yield BarringPolicy(values=values, margin=margin, **fields), f"never the worst {100 * share:g}%"
        taken = np.take_along_axis(chances, train.actions[:, None], axis=1)[:, 0]
        held_out = held_out_values(train, lambda some: self.regressions(train, seed, some), practice, seed)
        scores = scores_of(train, held_out, practice, taken, self.discount)
        grown = Grown(train, practice, eligible.free, scores)
        for number, cases in enumerate(grown.rules(self.prices), start=1):
            yield PlainPolicy(cases=cases, **common, **names), f"rule {number}"


def _in_every_case(n_actions: int) -> list[Case]:
    """*Always* and *never* for each action; of two actions, never one is always the other."""
    if not 2 <= n_actions <= MOST_EACH:
        return []
    every = [Case("always", action) for action in range(n_actions)]
    return [*(Case("never", action) for action in range(n_actions) if n_actions > 2), *every]


def instructions(n_actions: int, several_steps: bool) -> list[Case]:
    """What a leaf can say."""
    every = range(n_actions)
    cases = [Case("never", action) for action in every]
    if n_actions > 2:
        cases += [Case("always", action) for action in every]
        if n_actions <= MOST_SWITCHES:
            cases += [Case("instead", one, other=other) for one in every for other in every if one != other]
    if several_steps:
        cases += [Case("odds", action, odds=MILD) for action in every]
    return cases


class Grown:
    """Trees over a log, by what each instruction gains at each decision and how far it departs from practice."""

    def __init__(self, train: Trajectories, practice: FloatArray, free: BoolArray, scores: FloatArray) -> None:
        self._train, self._bins = train, Bins.of(train.contexts)
        self._cases = instructions(train.n_actions, train.n_steps > train.n_episodes)
        acted = [case.acted(practice, free) for case in self._cases]
        self.gains = np.stack([((rows - practice) * scores).sum(axis=1) for rows in acted])
        safe = np.where(practice > 0, practice, 1.0)
        self.costs = np.stack([np.log((np.square(rows) / safe).sum(axis=1)) for rows in acted])
        self._least = max(min(LEAST_ROWS, train.n_steps), int(LEAST_SHARE * train.n_steps))
        self._charge = SURE * float(np.sqrt(np.square(self.gains).mean(axis=0).sum()))
        self._error = float(train.returns().std()) / np.sqrt(train.n_episodes)

    def rules(self, prices: Sequence[float]) -> list[tuple[Case, ...]]:
        """The cases of the best tree of one condition at each price, then of two."""
        weighed = [price * self._error for price in prices]
        stumps = [best_stumps(self._bins, self.gains - price * self.costs, self._charge, self._least) for price in weighed]
        columns = np.argsort(-stumps[-1][1], kind="stable")[:MOST_COLUMNS]
        search = PairSearch(self._bins, sorted(columns.tolist()), weighed, self._charge, self._least)
        kept = self._promising()
        deep = search.trees(self.gains[kept], self.costs[kept])
        trees = [tree for tree, _ in stumps] + deep
        return [self._said(tree, price) for tree, price in zip(trees, weighed * 2, strict=True)]

    def _promising(self) -> list[int]:
        """Instructions that are worth most in some half of some feature."""
        if len(self._cases) <= MOST_INSTRUCTIONS:
            return list(range(len(self._cases)))
        worth = [best_stumps(self._bins, row[None], 0.0, self._least)[1].max() for row in self.gains]
        return sorted(np.argsort(-np.asarray(worth), kind="stable")[:MOST_INSTRUCTIONS].tolist())

    def _said(self, tree: Tree, price: float) -> tuple[Case, ...]:
        """What the leaves of a tree say, other than *as before*; leaves of one root that say the same are one."""
        leaves = [(path, rows, self._choice(rows, price)) for path, rows in tree.leaves(self._bins)]
        if len({chosen for _, _, chosen in leaves}) == 1:
            leaves = [((), np.ones(self._train.n_steps, np.bool_), leaves[0][2])]
        for way in (False, True):
            twins = [leaf for leaf in leaves if len(leaf[0]) == 2 and leaf[0][0][1] == way]
            if len(twins) == 2 and twins[0][2] == twins[1][2]:
                merged = (twins[0][0][:1], twins[0][1] | twins[1][1], twins[0][2])
                leaves = [merged if leaf is twins[0] else leaf for leaf in leaves if leaf is not twins[1]]
        if all(chosen is not None for _, _, chosen in leaves):
            leaves[-1] = ((), *leaves[-1][1:])  # otherwise
        names = self._train.feature_names
        return tuple(
            replace(
                self._cases[chosen],
                where=tuple(condition(split, above, self._bins, names) for split, above in path),
                share=float(rows.mean()),
            )
            for path, rows, chosen in leaves
            if chosen is not None
        )

    def _choice(self, rows: BoolArray, price: float) -> int | None:
        """The best instruction in these rows; None: as before, where none gains more than chance may."""
        gains = self.gains[:, rows]
        worth = (gains - price * self.costs[:, rows]).sum(axis=1)
        best = int(worth.argmax())
        chance = SURE * np.sqrt(np.square(gains[best]).sum())
        return best if worth[best] > 0 and gains[best].sum() > chance else None
