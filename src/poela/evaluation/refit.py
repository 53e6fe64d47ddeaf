"""The uncertainty of an estimated behavior policy, carried in by fitting it anew on every resample of episodes."""

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from poela.core.arrays import IntArray
from poela.core.errors import InputError, PoelaWarning
from poela.core.interruption import safe_point
from poela.core.ragged import rows_of_episodes
from poela.data.action_space import finite_actions
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.evaluation.weights import weights_of
from poela.stats.bootstrap import Resampled
from poela.stats.contributions import Contributions

MOST_REFITS = 200  # fits are far slower than draws, and quantiles of as many are steady enough


class FitsBehavior(Protocol):
    """Settings of a behavior model, such as `KNNBehavior(k=100)`."""

    def fit(self, train: Trajectories, seed: int = 0) -> Any:
        """A model with `annotate(trajectories)`."""


def refitted_values(
    evidence: Evidence,
    estimator: Callable[[Evidence], Contributions],
    behavior: FitsBehavior,
    resamples: int,
    seed: int,
) -> Resampled:
    """The estimate on resamples of episodes (or clusters), each with propensities that were fitted on it."""
    logs, probabilities = finite_actions(evidence.logs, "the interval 'refit'"), evidence.probabilities
    assert probabilities is not None
    members = _members(logs)
    rng = np.random.default_rng(seed)
    values = np.empty(min(resamples, MOST_REFITS))
    for index in range(len(values)):
        safe_point()
        episodes = np.concatenate([members[unit] for unit in rng.integers(len(members), size=len(members))])
        drawn, rows = logs.take(episodes), rows_of_episodes(episodes, logs.offsets)[0]
        with warnings.catch_warnings():
            # A resample may lack rare actions; that is the uncertainty which is being measured.
            warnings.simplefilter("ignore", PoelaWarning)
            annotated = behavior.fit(drawn, seed=seed + index).annotate(drawn)
        weights = weights_of(probabilities[rows], annotated)
        values[index] = estimator(Evidence(weights, annotated, evidence.discount, evidence.truncation)).value
    resampled = Resampled(values, np.full(len(values), np.nan))
    if not len(resampled.defined):
        raise InputError("every resample has only zero weights: the policy never takes the logged actions")
    return resampled


def _members(logs: Trajectories) -> list[IntArray]:
    """The episodes of each independent unit."""
    if logs.clusters is None:
        return list(np.arange(logs.n_episodes)[:, None])
    order = np.argsort(logs.clusters, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(logs.clusters[order])) + 1)
