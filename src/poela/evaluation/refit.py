"""The uncertainty of an estimated behavior policy, carried in by fitting it anew on every resample of episodes."""

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import IntArray
from poela.core.errors import InputError, PoelaWarning
from poela.core.ragged import rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.evaluation.bootstrap import Resampled, percentile_ends
from poela.evaluation.bounds import Interval
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evidence import DEFAULT_TRUNCATION, Evidence
from poela.evaluation.weights import probabilities_along, weights_of


class FitsBehavior(Protocol):
    """Settings of a behavior model, such as `KNNBehavior(k=100)`."""

    def fit(self, train: Trajectories, seed: int = 0) -> Any:
        """A model with `annotate(trajectories)`."""


def refit_bootstrap(
    policy: Any,
    logs: Trajectories,
    behavior: FitsBehavior,
    *,
    estimator: str = "sntis",
    level: float = 0.95,
    resamples: int = 200,
    discount: float = 1.0,
    truncation: float = DEFAULT_TRUNCATION,
    clusters: ArrayLike | None = None,
    seed: int = 0,
) -> Interval:
    """Bootstrap quantiles of an estimate whose propensities are fitted on each resample, then used on that resample.

    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> from poela.core.policy import Memoryless
    >>> class Always(Memoryless):
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> actions = np.arange(60) % 2
    >>> logs = Trajectories(np.ones((60, 1)), actions, 1.0 - actions, np.arange(61))
    >>> interval = refit_bootstrap(Always(), logs, MultinomialBehavior(), resamples=20)
    >>> round(interval.low, 9), round(interval.high, 9)
    (1.0, 1.0)
    """
    chosen = ESTIMATORS.get(estimator)
    if chosen is None or chosen.weights == "none" or chosen.model != "none":
        raise InputError(f"estimator {estimator!r} does not rest on propensities alone: choose is, snis, sntis, …")
    if resamples < 1 or not 0 < level < 1:
        raise InputError(f"resamples ({resamples}) must be positive and level ({level}) between 0 and 1")
    probabilities = probabilities_along(policy, logs)
    members = _members(clusters, logs.n_episodes)
    rng = np.random.default_rng(seed)
    values = np.empty(resamples)
    for index in range(resamples):
        episodes = np.concatenate([members[unit] for unit in rng.integers(len(members), size=len(members))])
        drawn, rows = logs.take(episodes), rows_of_episodes(episodes, logs.offsets)[0]
        with warnings.catch_warnings():
            # A resample may lack rare actions; that is the uncertainty which is being measured.
            warnings.simplefilter("ignore", PoelaWarning)
            annotated = behavior.fit(drawn, seed=seed + index).annotate(drawn)
        evidence = Evidence(weights_of(probabilities[rows], annotated), annotated, discount, truncation)
        values[index] = chosen.function(evidence).value
    resampled = Resampled(values, np.full(resamples, np.nan))
    if not len(resampled.defined):
        raise InputError("every resample has only zero weights: the policy never takes the logged actions")
    return Interval(*percentile_ends(resampled, level), "refit", resampled.undefined)


def _members(clusters: ArrayLike | None, n_episodes: int) -> list[IntArray]:
    """The episodes of each independent unit."""
    if clusters is None:
        return list(np.arange(n_episodes)[:, None])
    names = np.asarray(clusters)
    if names.shape != (n_episodes,):
        raise InputError(f"clusters must name one unit for each of the {n_episodes} episodes, not {names.shape}")
    units = np.unique(names, return_inverse=True)[1]
    order = np.argsort(units, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(units[order])) + 1)
