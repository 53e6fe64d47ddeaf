"""Doubly robust scores of every action at every logged decision, from values of current practice."""

from collections.abc import Callable

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.ragged import episode_sums
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.learners.advantages import generalised_advantages
from poela.regression.backward_induction import BackwardInduction, expected

PARTS = 2  # of episodes: the values at each decision are learned from the others
LEAST_CHANCE = 0.02  # residuals are weighted as if no taken action had been less probable
TRACE = 0.9  # λ: how far what came of a decision is followed before values stand for the rest


def held_out_values(
    train: Trajectories, induction: Callable[[IntArray | None], BackwardInduction], practice: FloatArray, seed: int
) -> FloatArray:
    """Q [N, A] of practice at each decision, learned from episodes of another part (from all where there is one unit).

    `induction` prepares the regressions on some episodes of the log, with what Q looks at.
    """
    q = np.empty((train.n_steps, train.n_actions))
    parts = min(PARTS, train.n_units)
    part_of = fold_numbers(train, parts, seed) if parts > 1 else np.zeros(train.n_episodes, np.int64)
    for part in range(parts):
        others = np.flatnonzero(part_of != part) if parts > 1 else None
        regressions = induction(others)
        ((values, _),) = regressions.values(expected(practice.T[:, :, None]))
        rows = np.flatnonzero((part_of == part)[train.episode_of_step])
        q[rows] = values.q_at(regressions.contexts[rows], train.step_numbers[rows])
    return q


def scores_of(
    train: Trajectories, q: FloatArray, practice: FloatArray, chances: FloatArray, discount: float
) -> FloatArray:
    """Γ [N, A]: what each action is worth beyond practice, with the weighted residual of the one that was taken.

    Q(x, a) − V(x) + 1[a taken]·(G − Q(x, a)) / chance, where G is what came of the decision (with a trace of 1, or in
    logs of one step, the return from there on). `chances` [N] are those of the taken actions. Each step is discounted.

    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 3.0], [0, 1, 2])
    >>> scores_of(logs, np.ones((2, 2)), np.full((2, 2), 0.5), np.full(2, 0.5), discount=1.0)
    array([[0., 0.],
           [0., 4.]])
    """
    value = (practice * q).sum(axis=1)
    came = value + generalised_advantages(train.rewards, value, train.offsets, discount, TRACE)
    rows = np.arange(train.n_steps)
    scores = q - value[:, None]
    scores[rows, train.actions] += (came - q[rows, train.actions]) / np.maximum(chances, LEAST_CHANCE)
    return np.asarray(scores * (discount**train.step_numbers)[:, None])


def costs_of(policy: FloatArray, practice: FloatArray) -> FloatArray:
    """log(1 + χ²) of a policy from practice, both [N, A], at each decision [N]: what its weights spread there.

    >>> costs_of(np.array([[1.0, 0.0], [0.5, 0.5]]), np.full((2, 2), 0.5)).round(3)
    array([0.693, 0.   ])
    """
    safe = np.where(practice > 0, practice, 1.0)
    return np.asarray(np.log((np.square(policy) / safe).sum(axis=1)))


def share_left(costs: FloatArray, offsets: IntArray) -> float:
    """Which share of episodes stays effective, about: 1 over the mean of exp(Σ costs) of an episode.

    >>> share_left(np.log([2.0, 2.0, 1.0]), np.array([0, 2, 3]))
    0.4
    """
    sums = episode_sums(costs, offsets)
    top = sums.max()
    return float(np.exp(-top) / np.exp(sums - top).mean())
