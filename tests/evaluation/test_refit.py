"""Refitting the behavior policy inside the bootstrap."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.refit import refit_bootstrap


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


def coin_logs(episodes: int = 200, seed: int = 0) -> Trajectories:
    actions = np.random.default_rng(seed).integers(2, size=episodes)
    return Trajectories(np.zeros((episodes, 1)), actions, 1.0 * actions, np.arange(episodes + 1))


def test_known_propensities_give_the_plain_bootstrap() -> None:
    logs, behavior = coin_logs(), Known()
    refitted = refit_bootstrap(Leaning(), logs, behavior, resamples=400)
    plain = evaluate(Leaning(), behavior.annotate(logs), interval="percentile")
    assert behavior.episodes[:400] == [200] * 400
    assert plain.low is not None
    assert plain.high is not None
    assert refitted.width == pytest.approx(plain.high - plain.low, rel=0.15)


def test_what_the_fit_explains_is_no_longer_uncertain() -> None:
    # With the frequencies of the very same resample, the weighted share of action 0 is 0.8 whatever was drawn.
    interval = refit_bootstrap(Leaning(), coin_logs(), Counted(), resamples=50)
    assert (interval.low, interval.high) == pytest.approx((0.2, 0.2), abs=1e-12)
    assert interval.method == "refit"


def test_clusters_are_drawn_whole() -> None:
    logs = coin_logs(40)
    behavior = Known()
    refit_bootstrap(Leaning(), logs, behavior, resamples=20, clusters=np.repeat(["a", "b"], [10, 30]))
    assert set(behavior.episodes) <= {20, 40, 60}
    assert len(set(behavior.episodes)) > 1


def test_same_seed_same_interval() -> None:
    first, second = (refit_bootstrap(Leaning(), coin_logs(), Known(), resamples=30, seed=3) for _ in range(2))
    assert first == second


def test_estimators_that_need_more_than_propensities_are_refused() -> None:
    for name in ("wdr", "behavior", "unknown"):
        with pytest.raises(InputError, match="does not rest on propensities alone"):
            refit_bootstrap(Leaning(), coin_logs(), Known(), estimator=name)
    with pytest.raises(InputError, match="must name one unit"):
        refit_bootstrap(Leaning(), coin_logs(), Known(), clusters=[1, 2])
    with pytest.raises(InputError, match="resamples"):
        refit_bootstrap(Leaning(), coin_logs(), Known(), resamples=0)
