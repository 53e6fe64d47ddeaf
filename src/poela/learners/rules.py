"""Rules: plain policies that people can say and carry out, and bans by values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.policy import Policy
from poela.core.typed import Share
from poela.data.trajectories import Trajectories
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint
from poela.learners.logging_policy import logging_policy, logging_probabilities
from poela.learners.plainness import BY_LOT, BY_VALUES, IN_A_WORD, ONE_CONDITION, TWO_CONDITIONS
from poela.learners.rule_scores import costs_of, held_out_values, scores_of, share_left
from poela.learners.rule_trees import Grown, instructions
from poela.learners.value_learner import ValueLearner
from poela.policies.barring import BarringPolicy, without_worst
from poela.policies.cases import Case
from poela.policies.plain import PlainPolicy
from poela.policies.rule_words import instruction_in_words
from poela.policies.valued import priced
from poela.regression.backward_induction import expected

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
