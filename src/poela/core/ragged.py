"""Sums over ragged episodes stored flat: values [N] and offsets [n + 1]."""

import numpy as np

from poela.core.arrays import FloatArray, IntArray


def lengths_of(offsets: IntArray) -> IntArray:
    """Steps of each episode.

    >>> lengths_of(np.array([0, 2, 5]))
    array([2, 3])
    """
    return np.diff(offsets)


def episode_of_step(offsets: IntArray) -> IntArray:
    """The episode that each step belongs to.

    >>> episode_of_step(np.array([0, 2, 5]))
    array([0, 0, 1, 1, 1])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def step_numbers(offsets: IntArray) -> IntArray:
    """Each step's number within its episode, from 0.

    >>> step_numbers(np.array([0, 2, 5]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def episode_sums(values: FloatArray, offsets: IntArray) -> FloatArray:
    """The sum over each episode, in float64; one −inf stays within its episode.

    >>> episode_sums(np.array([1.0, 2.0, -np.inf]), np.array([0, 2, 3]))
    array([  3., -inf])
    """
    # reduceat is wrong for empty segments; Trajectories and LogWeights reject empty episodes.
    return np.add.reduceat(np.asarray(values, np.float64), offsets[:-1], axis=0)


def running_sums(values: FloatArray, offsets: IntArray) -> FloatArray:
    """The cumulative sum within each episode, added in the order of steps.

    A global cumulative sum would carry one episode's −inf into all later ones, so this walks the
    step number and adds for all episodes that still run.

    >>> running_sums(np.array([1.0, 2.0, 5.0, 1.0]), np.array([0, 2, 4]))
    array([1., 3., 5., 6.])
    """
    sums = np.array(values, np.float64)
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    starts = offsets[:-1][longest_first]
    still_running = np.searchsorted(-lengths[longest_first], -np.arange(1, lengths.max(initial=0)), "left")
    for step, running in enumerate(still_running, start=1):
        rows = starts[:running] + step
        sums[rows] += sums[rows - 1]
    return sums


def returns_to_go(rewards: FloatArray, offsets: IntArray, discount: float = 1.0) -> FloatArray:
    """The discounted sum of rewards from each step to the end of its episode.

    >>> returns_to_go(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]), discount=0.5)
    array([2., 2., 4.])
    """
    sums = np.array(rewards, np.float64)
    lengths = np.diff(offsets)
    for steps_before_end in range(2, int(lengths.max(initial=0)) + 1):
        rows = offsets[1:][lengths >= steps_before_end] - steps_before_end
        sums[rows] += discount * sums[rows + 1]
    return sums


def rows_of_episodes(episodes: IntArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """The flat rows of the given episodes, in that order, and their new offsets.

    >>> rows_of_episodes(np.array([1, 0]), np.array([0, 2, 5]))
    (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
    """
    lengths = np.diff(offsets)[episodes]
    new_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.arange(new_offsets[-1]) + np.repeat(offsets[:-1][episodes] - new_offsets[:-1], lengths)
    return rows, new_offsets
