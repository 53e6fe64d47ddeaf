"""Refitting the behavior policy inside the bootstrap."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.evaluation.refit import MOST_REFITS


class Leaning(Memoryless):
    def probabilities(self, contexts: object) -> FloatArray:
        return np.tile([0.8, 0.2], (len(np.asarray(contexts)), 1))


class Known:
    """A behavior model that knows the truth, and counts how often it is asked."""

    def __init__(self) -> None:
        self.episodes: list[int] = []

    def fit(self, train: Trajectories, seed: int = 0) -> "Known":
        self.episodes.append(train.n_episodes)
        return self

    def annotate(self, trajectories: Trajectories) -> Trajectories:
        return trajectories.with_propensities(np.full((trajectories.n_steps, 2), 0.5))


class Counted(Known):
    """Estimates one probability from the frequencies of the resample."""

    def fit(self, train: Trajectories, seed: int = 0) -> "Counted":
        self.share = float((train.actions == 0).mean())
        return self

    def annotate(self, trajectories: Trajectories) -> Trajectories:
        return trajectories.with_propensities(np.tile([self.share, 1 - self.share], (trajectories.n_steps, 1)))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def coin_logs(episodes: int = 200, seed: int = 0) -> Trajectories:
    actions = np.random.default_rng(seed).integers(2, size=episodes)
    return Trajectories(np.zeros((episodes, 1)), actions, 1.0 * actions, np.arange(episodes + 1))


def test_known_propensities_give_the_plain_bootstrap() -> None:
    logs, behavior = Known().annotate(coin_logs()), Known()
    refitted = evaluate(Leaning(), logs, interval="refit", behavior=behavior, resamples=400)
    plain = evaluate(Leaning(), logs, interval="percentile")
    assert behavior.episodes == [200] * MOST_REFITS  # fits are slow: never more of them
    assert ends(refitted) == pytest.approx(ends(plain), abs=0.15 * np.ptp(ends(plain)))


def test_what_the_fit_explains_is_no_longer_uncertain() -> None:
    # With the frequencies of the very same resample, the weighted share of action 0 is 0.8 whatever was drawn.
    counted = Counted().fit(coin_logs())
    estimate = evaluate(Leaning(), counted.annotate(coin_logs()), interval="refit", behavior=counted, resamples=50)
    assert ends(estimate) == pytest.approx((0.2, 0.2), abs=1e-12)
    assert estimate.interval == "refit"


def test_clusters_are_drawn_whole() -> None:
    logs, behavior = Known().annotate(coin_logs(40)), Known()
    patients = np.repeat(["a", "b"], [10, 30])
    evaluate(Leaning(), logs, interval="refit", behavior=behavior, resamples=20, clusters=patients)
    assert set(behavior.episodes) <= {20, 40, 60}
    assert len(set(behavior.episodes)) > 1


def test_same_seed_same_interval() -> None:
    logs = Known().annotate(coin_logs())
    first, second = (
        evaluate(Leaning(), logs, interval="refit", behavior=Known(), resamples=30, seed=3) for _ in range(2)
    )
    assert ends(first) == ends(second)


def test_estimators_that_need_more_than_propensities_are_refused() -> None:
    logs = Known().annotate(coin_logs())
    for name in ("wdr", "fqe", "behavior"):
        with pytest.raises(InputError, match="an estimator that rests on propensities alone"):
            evaluate(Leaning(), logs, estimator=name, interval="refit", behavior=Known())
    with pytest.raises(InputError, match=r"give its settings \(behavior=...\)"):
        evaluate(Leaning(), logs, interval="refit")
    with pytest.raises(InputError, match="resamples is 0"):
        evaluate(Leaning(), logs, interval="refit", behavior=Known(), resamples=0)
