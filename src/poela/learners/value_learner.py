"""What learners of values by backward induction share: settings, regressions, and a look at divergence."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from poela.core.arrays import FloatArray, IntArray, with_sound
from poela.core.log_cache import cached
from poela.core.typed import Discount, Positive, Whole
from poela.data.history import HistoryFeatures, with_history
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyRule
from poela.learners.divergence import reachable_return, refuse_divergence
from poela.learners.learner import Learner
from poela.learners.value_kinds import chosen_kind, kinds_for
from poela.regression.backward_induction import BackwardInduction, Kind
from poela.regression.step_foreign import AnyRegressor, Predictor

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
