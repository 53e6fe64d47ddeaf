"""One policy of every class that can be exported, on small logs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.clone import CloneBehavior
from poela.behavior.history import HistoryBehavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.propensities import KNNBehavior
from poela.behavior.tempered import TemperedBehavior
from poela.data.history import WithHistory
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.consensus import Consensus
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POCRM, POELA, POMu
from poela.learners.q_learning import BCQ, PQL
from poela.learners.rules import Rules
from poela.learners.safe_improvement import DPRL, SPIBB
from poela.policies.plain import Case, Condition
from poela.studies.runs import ambition_path

GRADIENT: dict[str, Any] = {"steps": 4, "warm_start_steps": 4, "hidden": (8, 8), "device": "cpu"}
VALUES: dict[str, Any] = {"steps": 4, "hidden": (8, 8), "device": "cpu"}
NEAR = Eligibility(radius="q90", scale="standard")
MULTINOMIAL, KNN, BOOSTED = MultinomialBehavior(), KNNBehavior(k=20), BoostedBehavior(max_rounds=10)
CLONE = CloneBehavior(hidden=(8,), steps=20, device="cpu")
TEMPERED, LOOKING_BACK = TemperedBehavior(MULTINOMIAL), HistoryBehavior(BOOSTED)


def last(learner: Any, train: Trajectories, behavior: Any = None, place: int = -1, given: Any = None) -> Any:
    model = given if behavior is None else behavior.fit(train, seed=0)
    return list(learner.fit_path(train, seed=0, behavior=model))[place].policy


def blend(learner: Any, train: Trajectories, behavior: Any = None, place: int = 4) -> Any:
    model = None if behavior is None else behavior.fit(train, seed=0)
    checkpoints = list(learner.fit_path(train, seed=0, behavior=model))
    return ambition_path(learner, checkpoints, train, model)[place].policy


def under(rule: Eligibility, train: Trajectories, behavior: Any = None) -> Any:
    """A network under any rule."""
    model = None if behavior is None else behavior.fit(train, seed=0)
    return replace(last(POCRM(**GRADIENT), train), eligibility=rule.fit(train, model))


def with_history(train: Trajectories) -> Any:
    policy = POELA(radius=3.0, **GRADIENT).fit(train.with_history(2, initial=True), seed=0)
    return WithHistory.of(policy, train, steps=2, initial=True)


def cases(train: Trajectories, behavior: Any) -> Any:
    """A rule with every kind of case."""
    first, second = train.feature_names[:2]
    low, high = Condition(first, 0.0, above=False), Condition(second, 0.5)
    said = (
        Case("always", 2, where=(low, high)),
        Case("never", 0, where=(low,)),
        Case("instead", 1, other=2, where=(high,)),
        Case("odds", 1, odds=3.0),
    )
    return replace(last(Rules(rule=NEAR), train, behavior), cases=said)


POLICIES: dict[str, Callable[[Trajectories], Any]] = {
    "poela": lambda train: last(POELA(radius="q90", scale="standard", **GRADIENT), train),
    "poela, blended": lambda train: blend(POELA(radius="q99", scale="standard", **GRADIENT), train),
    "poela, blended with a model": lambda train: blend(POELA(radius="q90", **GRADIENT), train, MULTINOMIAL),
    "poela, euclidean": lambda train: under(Eligibility(radius=0.3, metric="euclidean", fallback="all"), train),
    "poela, same step": lambda train: under(Eligibility(radius=0.4, neighbours="same_step"), train),
    "poela, falling back on a model": lambda train: under(Eligibility(radius=0.01, fallback="behavior"), train, KNN),
    "poela, near and probable": lambda train: under(
        Eligibility(radius=0.1, minimum_probability=0.3), train, MULTINOMIAL
    ),
    "pomu": lambda train: last(POMu(minimum_probability=0.35, **GRADIENT), train, CLONE),
    "pocrm": lambda train: last(POCRM(**GRADIENT), train),
    "bcq": lambda train: last(BCQ(threshold=0.3, **VALUES), train),
    "bcq, mixed": lambda train: blend(BCQ(threshold=0.3, **VALUES), train, KNN),
    "pql": lambda train: last(PQL(threshold=0.3, density="nearest", **VALUES), train),
    "fittedq": lambda train: last(FittedQ(rule=NEAR), train, place=3),
    "fittedq, greedy": lambda train: last(FittedQ(rule=NEAR), train),
    "fittedq, no history": lambda train: last(FittedQ(rule=NEAR, history=0), train, MULTINOMIAL, place=3),
    "fittedq, trees": lambda train: last(FittedQ(rule=NEAR, regressor="boosted"), train, BOOSTED, place=3),
    "fittedq, shallow trees": lambda train: last(FittedQ(rule=NEAR, regressor="shallow"), train, place=3),
    "fittedq, pooled": lambda train: last(FittedQ(rule=NEAR, regressor="pooled", history=0), train, place=3),
    "fittedq, coded": lambda train: last(FittedQ(rule=NEAR, regressor="coded"), train, place=3),
    "fittedq, coded, no history": lambda train: last(FittedQ(regressor="coded", history=0), train, place=3),
    "fittedq, looking back": lambda train: last(FittedQ(rule=NEAR), train, LOOKING_BACK, place=3),
    "consensus": lambda train: last(Consensus(rule=NEAR), train),
    "consensus of a model": lambda train: last(Consensus(rule=NEAR), train, TEMPERED, place=4),
    "consensus of neighbours": lambda train: last(Consensus(), train, KNN),
    "rules": lambda train: last(Rules(rule=NEAR), train),
    "rules of a model": lambda train: cases(train, MULTINOMIAL),
    "rules, never by values": lambda train: last(Rules(rule=NEAR), train, MULTINOMIAL, place=10),
    "spibb": lambda train: last(SPIBB(rule=NEAR), train, MULTINOMIAL),
    "dprl": lambda train: last(DPRL(rule=NEAR), train, MULTINOMIAL),
    "history": with_history,
    "multinomial": lambda train: MULTINOMIAL.fit(train),
    "boosted": lambda train: BOOSTED.fit(train),
    "knn": lambda train: KNN.fit(train),
    "clone": lambda train: CLONE.fit(train),
    "knn with history": lambda train: HistoryBehavior(KNN).fit(train),
}
