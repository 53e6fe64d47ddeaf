"""What learners of values by backward induction share: settings, regressions, and a look at divergence."""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from poela.core.arrays import FloatArray, IntArray, with_sound
from poela.core.errors import TrainingError
from poela.core.log_cache import cached
from poela.core.ragged import episode_sums, returns_to_go
from poela.core.typed import Discount, Positive, Whole
from poela.data.folds import fold_numbers
from poela.data.history import HistoryFeatures, with_history
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyRule
from poela.learners.learner import Learner
from poela.regression.backward_induction import BackwardInduction, Kind, expected
from poela.regression.step_features import MOST_FEATURES_IN_PAIRS, Coding
from poela.regression.step_foreign import AnyRegressor, Predictor

# Which kind of regression values actions best on a log: by what held-out episodes show of the actions' effects.

FOLDS = 2
FEWEST_UNITS = 40  # that tell kinds apart
MOST_WORK = 3e9  # multiplications of coded ridges, for one column of targets: a few seconds
MOST_TREE_ROWS = 1e6  # rows times actions of logs on which shallow trees are tried
# Makes the regressions of such a kind on the episodes of these numbers.
Inductions = Callable[[Kind, IntArray], BackwardInduction]


def kinds_for(train: Trajectories) -> list[Kind]:
    """The kinds that are worth a try, the simplest first.

    Linear ones where episodes have a single step (later values are seldom linear), pooled ones where they have several;
    coded ones where columns hold codes, or are too many for the products of plain ones, and not too many for theirs
    (`MOST_WORK`); shallow trees where episodes have a single step and are not too many (`MOST_TREE_ROWS`): longer ones
    would need a forest for each step and each temperature.

    >>> contexts = np.random.default_rng(0).normal(size=(300, 2))
    >>> kinds_for(Trajectories(contexts, np.arange(300) % 2, np.zeros(300), np.arange(301)))
    ['linear', 'ridge', 'shallow']
    >>> kinds_for(Trajectories(contexts.round(), np.arange(300) % 2, np.zeros(300), np.arange(0, 301, 3)))
    ['ridge', 'pooled', 'coded']
    """
    horizon = int(train.lengths.max())
    kinds: list[Kind] = ["ridge"] if horizon > 1 else ["linear", "ridge"]
    if horizon > 1:
        kinds.append("pooled")
    coding = Coding.of(train.contexts)
    new = len(coding.columns) > 0 or (coding.width > MOST_FEATURES_IN_PAIRS and len(coding.pairs[0]) > coding.width)
    p = coding.n_products
    if new and (horizon * (1 + train.n_actions) * p + 8 * train.n_steps) * p**2 <= MOST_WORK:
        kinds.append("coded")
    if horizon == 1 and train.n_steps * train.n_actions <= MOST_TREE_ROWS:
        kinds.append("shallow")
    return kinds


def chosen_kind(
    train: Trajectories, chances: FloatArray, inductions: Inductions, kinds: Sequence[Kind], discount: float = 1.0
) -> Kind:
    """The kind whose effects of actions foretell best what half of the episodes show, when fitted on the other half.

    The effect of an action is how much more it is worth than what `chances` [N, A] take on average, Q − Σ chances·Q;
    it is compared with the return to go less one common guess of what was to be expected there (the loss of Nie & Wager
    2021). How well a kind foretells returns themselves says little: policies are tilted by effects. The simplest kind
    stays unless another is better by more than one standard error of their difference.
    """
    if len(kinds) == 1 or train.n_units < FEWEST_UNITS:
        return kinds[0]
    fold_of = fold_numbers(train, FOLDS, seed=0)
    returns = returns_to_go(train.rewards, train.offsets, discount)
    pairs = [_held_out(train, chances, fold_of, inductions, kind) for kind in kinds]
    level = min((mean for _, mean in pairs), key=lambda mean: float(np.square(returns - mean).sum()))
    losses = [np.square(returns - level - (taken - mean)) for taken, mean in pairs]
    return kinds[_clearly_least(train, losses)]


def _held_out(
    train: Trajectories, chances: FloatArray, fold_of: IntArray, inductions: Inductions, kind: Kind
) -> tuple[FloatArray, FloatArray]:
    """Q of the logged actions and of `chances` [N], by regressions that did not see the episode."""
    following = expected(chances.T[:, :, None])
    taken, mean = np.empty((2, train.n_steps))
    for fold in range(FOLDS):
        induction = inductions(kind, np.flatnonzero(fold_of != fold))
        left_out = induction.elsewhere(np.flatnonzero((fold_of == fold)[train.episode_of_step]))
        for rows, q in induction.valued(left_out, following):
            taken[rows] = q[train.actions[rows], np.arange(len(rows)), 0]
            mean[rows] = following(rows, q)[:, 0]
    return taken, mean


def _clearly_least(train: Trajectories, losses: Sequence[FloatArray]) -> int:
    """The place of the least of losses [N]; 0 unless it is less than the first by more than a standard error."""
    totals = [np.bincount(train.units, episode_sums(loss, train.offsets)) for loss in losses]
    least = int(np.argmin([total.sum() for total in totals]))
    saved = totals[0] - totals[least]
    return least if saved.sum() > np.sqrt(len(saved)) * saved.std() else 0


# Values that no return can reach: the sign that a value learner has diverged.

DIVERGED = 10.0  # values this many times above any reachable return are divergence, not learning


def reachable_return(train: Trajectories, discount: float) -> float:
    """The largest return, up to its sign, that rewards like the logged ones could add up to.

    >>> reachable_return(Trajectories([[0.0]] * 3, [0] * 3, [1.0, -2.0, 0.5], [0, 2, 3]), discount=1.0)
    4.0
    """
    longest = int(train.lengths.max())
    steps = float(longest) if discount == 1 else (1 - discount**longest) / (1 - discount)
    return float(np.abs(train.rewards).max()) * steps


def refuse_divergence(name: str, where: str, largest: float, reachable: float) -> None:
    """Raise `TrainingError` where the largest value, up to its sign, is far beyond every reachable return.

    >>> refuse_divergence("BCQ", "step 40", largest=500.0, reachable=4.0)
    Traceback (most recent call last):
    poela.core.errors.TrainingError: BCQ: values diverged at step 40: they reach 500, while no return can reach more
    than 4; lower the learning rate, tighten the rule, or look for extreme contexts
    """
    if not largest <= DIVERGED * reachable:  # so that NaN is refused too
        raise TrainingError(
            f"{name}: values diverged at {where}: they reach {largest:.3g}, while no return can reach more than "
            f"{reachable:.3g}; lower the learning rate, tighten the rule, or look for extreme contexts"
        )


MOST_COMPARED = 50_000  # steps on which kinds of regression are compared, about: of more, those of random episodes
MOST_SHARED = 2e7  # numbers of decompositions kept for the next learner: 160 MB
PENALTY_MULTIPLES: Sequence[float] = (1.0, 10.0, 100.0, 1e3, 1e4)


@dataclass(frozen=True, kw_only=True)
class ValueLearner(Learner, ABC):
    """A learner with Q by one regression for each step, last to first."""

    # A kind of `BackwardInduction`; "auto" takes the one whose effects held-out training episodes bear out best.
    regressor: Kind | Literal["auto"] | AnyRegressor = "ridge"  # kind of regression behind values, or an object
    penalty: Positive = 0.3  # the ridge's smallest; each regression takes a larger one where that predicts better
    rule: AnyRule | None = None  # which actions are eligible; None: by learned support
    history: Whole = 2  # earlier steps (and the first context) that Q looks at; 0: the current context alone
    discount: Discount = 1.0  # of rewards, per step

    def induction(self, train: Trajectories, seed: int, chances: FloatArray) -> BackwardInduction:
        """The regressions over these logs, with what Q looks at: the very same for the next learner that asks so.

        Only what is predicted tells apart temperatures, limits, and learners, so they share the decompositions. Of
        each log the latest are kept. `chances` [N, A] are what is done now: the kind of regression is chosen by what
        actions add to it.
        """
        kind = self.kind(train, chances)
        drawn = seed if _is_random(kind) else 0
        settings = (kind, self.penalty, self.history, self.discount, drawn)
        latest: dict[Any, BackwardInduction] = cached(train, "backward induction", None, dict)
        induction = latest.get(settings)
        if induction is None:
            induction = self._regressions(self._seen(train), kind, drawn)
            latest.clear()
            latest[settings] = induction
        return induction

    def regressions(
        self, train: Trajectories, seed: int, chances: FloatArray, episodes: IntArray | None = None
    ) -> BackwardInduction:
        """The same anew, on some of the episodes."""
        kind = self.kind(train, chances)
        return self._regressions(self._seen(train), kind, seed if _is_random(kind) else 0, episodes)

    def looks_back(self, train: Trajectories) -> bool:
        """Whether Q looks at earlier steps: single decisions have none."""
        return self.history > 0 and int(train.lengths.max()) > 1

    def kind(self, train: Trajectories, chances: FloatArray) -> Kind | Predictor:
        """As set, or chosen on current contexts alone: kinds differ in how they use rows and codes, whatever past is
        seen beside them, and wide contexts would make the choice cost more than the regressions.
        """
        if not isinstance(self.regressor, str) or self.regressor != "auto":
            return self.regressor
        known: dict[Any, Kind] = cached(train, "kind of values", None, dict)
        can_see = kinds_for(self._seen(train)) if self.looks_back(train) else kinds_for(train)
        kinds = [kind for kind in kinds_for(train) if kind in can_see]
        settings = (self.penalty, self.discount, *kinds, blake2b(chances.tobytes()).digest())
        if settings not in known:
            some, of_some = _some(train, chances)

            def regressions(kind: Kind, episodes: IntArray) -> BackwardInduction:
                return self._regressions(some, kind, 0, episodes)

            known[settings] = chosen_kind(some, of_some, regressions, kinds, self.discount)
        return known[settings]

    def _seen(self, train: Trajectories) -> Trajectories:
        # A copy of the log itself: what is kept for a log must not keep the log.
        return with_history(train, self.history, initial=True) if self.looks_back(train) else with_sound(train)

    def _regressions(
        self, seen: Trajectories, kind: Kind | Predictor, seed: int, episodes: IntArray | None = None
    ) -> BackwardInduction:
        penalties = [self.penalty * multiple for multiple in PENALTY_MULTIPLES]
        how: Any = {"regressor": kind, "discount": self.discount, "penalties": penalties, "keep": MOST_SHARED}
        return BackwardInduction(seen, seed=seed, episodes=episodes, **how)

    def fields(self, train: Trajectories) -> dict[str, Any]:
        """What a policy of values takes from the logs."""
        width = train.n_features, train.n_actions
        layout = HistoryFeatures(self.history, *width, initial=True) if self.looks_back(train) else None
        return {"history": layout, "feature_names": train.feature_names, "action_names": train.action_names}

    def refuse_divergence(self, train: Trajectories, q: FloatArray) -> None:
        """Raise `TrainingError` where values are far beyond every return."""
        reachable = max(reachable_return(train, self.discount), 1e-6)
        refuse_divergence(type(self).__name__, "the training log", float(np.abs(q).max()), reachable)


def _some(train: Trajectories, chances: FloatArray) -> tuple[Trajectories, FloatArray]:
    """Random episodes with about `MOST_COMPARED` steps, and what of chances [N, A] is theirs; all where no more are."""
    if train.n_steps <= MOST_COMPARED:
        return train, chances
    count = max(int(train.n_episodes * MOST_COMPARED / train.n_steps), 2)
    episodes = np.sort(np.random.default_rng(0).permutation(train.n_episodes)[:count])
    return train.take(episodes), chances[np.isin(train.episode_of_step, episodes)]


def _is_random(kind: Kind | Predictor) -> bool:
    """Whether the seed matters."""
    return not isinstance(kind, str) or kind == "boosted"
