"""Held-out episodes: what tells a flexible behavior model when to stop."""

from typing import Annotated

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.typed import Range
from poela.data.folds import random_parts
from poela.data.trajectories import Trajectories

HeldOut = Annotated[float, Range(least=0, below=1)]  # a share of episodes


def held_out_split(train: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories | None]:
    """Episodes to learn from and episodes to judge by (None where the share is 0 or there is only one unit).

    An episode with an action that no learning episode has goes, with its cluster, to the learning ones: a model must
    have seen every action of its logs.

    >>> logs = Trajectories(np.zeros((10, 1)), [0, 1] * 5, np.zeros(10), np.arange(0, 11, 2))
    >>> learn, judge = held_out_split(logs, share=0.2, seed=0)
    >>> learn.n_episodes, judge.n_episodes
    (4, 1)
    """
    if share == 0 or train.n_units < 2:
        return train, None
    count = min(max(1, round(share * train.n_episodes)), train.n_episodes - 1)
    held = np.zeros(train.n_episodes, np.bool_)
    held[random_parts(train.units, [0, count, train.n_episodes], seed)[0]] = True
    held_steps, kinds = held[train.episode_of_step], train.action_space.kinds(train.actions)
    only_held = held_steps & ~np.isin(kinds, kinds[~held_steps])
    held &= ~np.isin(train.units, train.units[train.episode_of_step[only_held]])
    return (train.take(~held), train.take(held)) if held.any() else (train, None)


def mean_log_likelihood(probabilities: FloatArray, actions: IntArray) -> float:
    """The mean log probability of the actions taken.

    >>> mean_log_likelihood(np.array([[0.5, 0.5]]), np.array([1])).__round__(3)
    -0.693
    """
    with np.errstate(divide="ignore"):  # a model may be so sure of another action that nothing is left: −inf
        return float(np.log(probabilities[np.arange(len(actions)), actions]).mean())
