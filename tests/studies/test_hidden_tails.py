"""A tail of losses that what contexts foresee hides: neither shown by a study, nor trusted by `evaluate`."""

import numpy as np

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.stats.contributions import Contributions
from poela.studies.shown_gain import Proving


class Second:
    """Always the second action."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.tile([0.0, 1.0], (len(contexts), 1))


def _with_a_tail(seed: int, n: int = 400) -> Trajectories:
    """The second action is mostly a little better and rarely much worse: no better on average."""
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=(n, 4)), (rng.random(n) < 0.2).astype(int)
    loss = rng.lognormal(sigma=1.5, size=n) - np.exp(1.5**2 / 2)
    return Trajectories(x, arm, 3 * x.sum(axis=1) - arm * loss, np.arange(n + 1), np.tile([0.8, 0.2], (n, 1)))


def test_what_contexts_foresee_hides_no_tail_from_the_doubly_robust_estimate() -> None:
    """Raw returns look normal in each of these logs, since prognosis makes up most of their variance."""
    trusted = [evaluate(Second(), _with_a_tail(seed), estimator="dr").verdict == "trust" for seed in range(30)]
    assert sum(trusted) <= 10


def test_a_gain_skewed_towards_losses_shows_nothing_and_one_towards_gains_does() -> None:
    proving = Proving(0.95, 1.0, 0.0, most_skew=0.2)
    losses = np.append(np.full(99, 0.1), -9.0)
    assert proving.has_tail(Contributions.mean(losses))
    assert not proving.has_tail(Contributions.mean(-losses))
    assert not proving.has_tail(Contributions.mean(np.random.default_rng(0).normal(size=100)))
