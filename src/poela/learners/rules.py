"""Rules: plain policies that people can say and carry out, and bans by values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.policy import Policy
from poela.core.ragged import episode_sums
from poela.core.typed import Share
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.learners.advantages import generalised_advantages
from poela.learners.learner import Checkpoint, eligible_in_training, logging_policy, logging_probabilities
from poela.learners.plainness import BY_LOT, BY_VALUES, IN_A_WORD, ONE_CONDITION, TWO_CONDITIONS
from poela.learners.rule_search import Bins, Box, Search, Terms, Tree, side_by_side
from poela.learners.value_learner import ValueLearner
from poela.policies.plain import Case, PlainPolicy, instruction_in_words
from poela.policies.valued import BarringPolicy, priced, without_worst
from poela.regression.backward_induction import BackwardInduction, expected

# Doubly robust scores of every action at every logged decision, from values of current practice.

SCORE_PARTS = 2  # of episodes: the values at each decision are learned from the others
LEAST_CHANCE = 0.02  # residuals are weighted as if no taken action had been less probable
TRACE = 0.9  # λ: how far what came of a decision is followed before values stand for the rest


def held_out_values(
    train: Trajectories, induction: Callable[[IntArray | None], BackwardInduction], practice: FloatArray, seed: int
) -> FloatArray:
    """Q [N, A] of practice at each decision, learned from episodes of another part (from all where there is one unit).

    `induction` prepares the regressions on some episodes of the log, with what Q looks at.
    """
    q = np.empty((train.n_steps, train.n_actions))
    parts = min(SCORE_PARTS, train.n_units)
    part_of = fold_numbers(train, parts, seed) if parts > 1 else np.zeros(train.n_episodes, np.int64)
    for part in range(parts):
        others = np.flatnonzero(part_of != part) if parts > 1 else None
        regressions = induction(others)
        ((values, _),) = regressions.values(expected(practice.T[:, :, None]))
        rows = np.flatnonzero((part_of == part)[train.episode_of_step])
        q[rows] = values.q_at(regressions.contexts[rows], train.step_numbers[rows])
    return q


def scores_of(
    train: Trajectories, q: FloatArray, practice: FloatArray, chances: FloatArray, discount: float
) -> FloatArray:
    """Γ [N, A]: what each action is worth beyond practice, with the weighted residual of the one that was taken.

    Q(x, a) − V(x) + 1[a taken]·(G − Q(x, a)) / chance, where G is what came of the decision (with a trace of 1, or in
    logs of one step, the return from there on). `chances` [N] are those of the taken actions. Each step is discounted.

    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 3.0], [0, 1, 2])
    >>> scores_of(logs, np.ones((2, 2)), np.full((2, 2), 0.5), np.full(2, 0.5), discount=1.0)
    array([[0., 0.],
           [0., 4.]])
    """
    value = (practice * q).sum(axis=1)
    came = value + generalised_advantages(train.rewards, value, train.offsets, discount, TRACE)
    rows = np.arange(train.n_steps)
    scores = q - value[:, None]
    scores[rows, train.actions] += (came - q[rows, train.actions]) / np.maximum(chances, LEAST_CHANCE)
    return np.asarray(scores * (discount**train.step_numbers)[:, None])


def costs_of(policy: FloatArray, practice: FloatArray) -> FloatArray:
    """log(1 + χ²) of a policy from practice, both [N, A], at each decision [N]: what its weights spread there.

    >>> costs_of(np.array([[1.0, 0.0], [0.5, 0.5]]), np.full((2, 2), 0.5)).round(3)
    array([0.693, 0.   ])
    """
    safe = np.where(practice > 0, practice, 1.0)
    return np.asarray(np.log((np.square(policy) / safe).sum(axis=1)))


def share_left(costs: FloatArray, offsets: IntArray) -> float:
    """Which share of episodes stays effective, about: 1 over the mean of exp(Σ costs) of an episode.

    >>> share_left(np.log([2.0, 2.0, 1.0]), np.array([0, 2, 3]))
    0.4
    """
    sums = episode_sums(costs, offsets)
    top = sums.max()
    return float(np.exp(-top) / np.exp(sums - top).mean())


# Trees whose leaves say what to do: the best of one and of two conditions, at several prices of departing.

MOST_SWITCHES = 6  # actions: with more, no action is replaced by a certain other one
MOST_COLUMNS, MOST_INSTRUCTIONS = 12, 16  # that trees of depth 2 are made of: the best in trees of depth 1
MILD = 2.0  # what odds are multiplied by
SURE = 1.0  # standard errors that an instruction must gain in a leaf, and a split over none
LEAST_SHARE, LEAST_ROWS = 0.01, 10  # of decisions, in a case
PRICE = 0.25  # of departing by one unit of log(1 + χ²), in standard errors of the mean return
DEPARTURE_PARTS = (0.9, 0.6, 0.3)  # of what may be spent on departing, in one leaf
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
        spent = [-np.log(share) * part if share > 0 else np.inf for share in left for part in DEPARTURE_PARTS]
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


MOST_EACH = 4  # actions: with more, the best and the worst FEW of them have their own *always* and *never*
FEW = 3
EXTRA_LEFT = (0.2, 0.0)  # shares of episodes that *never* alone and *instead* alone leave, in cases like these
MILD_LEFT = (0.4, 0.1)  # shares of episodes that rules of *more often* leave effective
TRIED = np.concatenate([np.geomspace(0.002, 0.5, 40), np.linspace(0.55, 1.0, 7)])  # shares of actions to be barred


@dataclass(frozen=True, kw_only=True)
class Rules(ValueLearner):
    """Practice changed by what can be said: *always a*, *never a*, *a instead of b*, in cases like these.

    The path has *always* and *never* for each action (of many, for the best and the worst few); practice without what
    is worst by its own values ("never by values"); of more than two actions, *never a* alone ("ban") and *a instead of
    b* alone ("switch") in cases that one condition tells; and trees of one and of two conditions whose leaves say what
    to do, or *as before*.
    Trees are the best of all over binned features, by doubly robust scores of every action. Bans and trees go from
    cautious to bold: so far that about these shares of episodes stay effective (`left_by_bans`, `left_by_rules`; 0: as
    far as values point). Where episodes have several steps, leaves may also multiply odds.

    >>> rng = np.random.default_rng(0)
    >>> lactate, actions = rng.uniform(0, 4, 600).astype(np.float32), rng.integers(2, size=600)
    >>> rewards = np.where(lactate > 2, actions, 1 - actions) + rng.normal(size=600)
    >>> names = {"feature_names": ["lactate"], "action_names": ["wait", "treat"]}
    >>> logs = Trajectories(lactate[:, None], actions, rewards, np.arange(601), np.full((600, 2), 0.5), **names)
    >>> Rules().fit(logs).rule
    'If lactate ≤ 2: never treat (46% of decisions). Otherwise never wait.'
    """

    walks: ClassVar[bool] = True
    # shares of episodes that stay effective under bans
    left_by_bans: tuple[Share, ...] = (0.8, 0.6, 0.4, 0.25, 0.15, 0.1, 0.06)
    left_by_rules: tuple[Share, ...] = (0.5, 0.2, 0.07, 0.0)  # the same for trees; 0: as far as values point

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield *always* and *never*, then bans by values, then trees of one condition and of two."""
        for place, said in enumerate(self.policies(train, seed, behavior), start=1):
            yield Checkpoint(place, *said)

    def policies(self, train: Trajectories, seed: int, behavior: Policy | None) -> Iterator[tuple[Any, str, float]]:
        """Each policy of the path, its name, and how plain it is."""
        logging = logging_policy(train, behavior)
        chances = logging_probabilities(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule, train, behavior)
        practice = priced(chances, eligible)
        common: dict[str, Any] = {"behavior": logging, "eligibility": eligibility}
        names: dict[str, Any] = {"feature_names": train.feature_names, "action_names": train.action_names}
        taken = np.take_along_axis(chances, train.actions[:, None], axis=1)[:, 0]
        shown = replace(self, history=0)  # conditions look at no more, and residuals make up for what values miss
        held_out = held_out_values(train, lambda some: shown.regressions(train, seed, practice, some), practice, seed)
        scores = scores_of(train, held_out, practice, taken, self.discount)
        grow = partial(Grown, train, practice, eligible.free, scores)
        for case, note in _in_every_case(train, grow):
            yield PlainPolicy(cases=(case,), **common, **names), note, IN_A_WORD
        ((values, q),) = self.induction(train, seed, practice).values(expected(practice.T[:, :, None]))
        self.refuse_divergence(train, q[practice > 0])
        for number, margin in enumerate(margins(q, practice, train.offsets, self.left_by_bans), start=1):
            fields = {**common, **self.fields(train)}
            yield BarringPolicy(values=values, margin=margin, **fields), f"never by values {number}", BY_VALUES
        every = instructions(train.n_actions)
        for name, do in (("ban", "never"), ("switch", "instead")):
            some = [case for case in every if case.do == do] if train.n_actions > 2 else []
            grown = grow(some).rules(EXTRA_LEFT, depths=(1,)) if some else []
            for number, cases in enumerate(grown, start=1):
                yield PlainPolicy(cases=cases, **common, **names), f"{name} {number}", ONE_CONDITION
        several = train.n_steps > train.n_episodes
        mild = grow(instructions(train.n_actions, mild=True)).rules(MILD_LEFT, depths=(2,)) if several else []
        sure = grow(every).rules(self.left_by_rules)
        for number, cases in enumerate([*mild, *sure], start=1):
            one_condition = len(mild) < number <= len(mild) + len(self.left_by_rules)
            plain = BY_LOT if number <= len(mild) else ONE_CONDITION if one_condition else TWO_CONDITIONS
            yield PlainPolicy(cases=cases, **common, **names), f"rule {number}", plain


def _in_every_case(train: Trajectories, grow: Callable[[list[Case]], Grown]) -> list[tuple[Case, str]]:
    """*Always* and *never* with their names: for each action or, of many, where they gain most by their scores.

    Of two actions, never one is always the other. Of many, a name tells the place: folds may differ in the action.
    """
    n_actions, found = train.n_actions, []
    for do in ("never", "always") if n_actions > 2 else ("always",):
        cases = [Case(do, action) for action in range(n_actions)] if n_actions > 1 else []
        if n_actions <= MOST_EACH:
            found += [(case, instruction_in_words(case, train.action_names)) for case in cases]
            continue
        best = np.argsort(-grow(cases).gains.sum(axis=1), kind="stable")[:FEW]
        which = "worst" if do == "never" else "best"
        found += [(cases[action], f"{do} the {which} ({place})") for place, action in enumerate(best, start=1)]
    return found


def margins(q: FloatArray, practice: FloatArray, offsets: IntArray, left: Sequence[float]) -> list[float]:
    """How far below average an action may be, so that bans leave these shares of episodes effective.

    >>> q, practice, offsets = np.array([[0.0, 1.0], [0.0, 3.0]]), np.full((2, 2), 0.5), np.arange(3)
    >>> margins(q, practice, offsets, (0.6, 0.0))  # the second, then both
    [-1.5, 1.5]
    """
    above = (q - (practice * q).sum(axis=1, keepdims=True))[practice > 0]
    tried = np.unique(np.quantile(above, TRIED, method="inverted_cdf"))
    reached = np.array(
        [share_left(costs_of(without_worst(q, practice, margin), practice), offsets) for margin in tried]
    )
    mildest = float(tried[0]) - 1e-9 * max(abs(float(tried[0])), 1e-9)  # which bars nothing
    allowed = ((reached >= share - 1e-9).nonzero()[0] for share in left)
    return [float(tried[places[-1]]) if len(places) else mildest for places in allowed]
