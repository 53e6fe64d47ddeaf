"""A feature that tells the step (a month, an hour): where there is one, shuffled steps can be found out."""

import numpy as np

from poela.core.arrays import Float32Array, IntArray, first_bad
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

FEWEST_STEPS = 20  # fewer could agree by chance


def clock_of(train: Trajectories) -> int | None:
    """The first feature that rises by one and the same amount at every step of every episode, if there is one.

    >>> months = np.arange(30) % 10
    >>> clock_of(Trajectories(np.stack([months % 3, months], axis=1), [0] * 30, [0] * 30, [0, 10, 20, 30]))
    1
    """
    later = train.step_numbers > 0
    if later.sum() < FEWEST_STEPS:
        return None
    rises = np.diff(train.contexts.astype(np.float64), axis=0)[later[1:]]
    steady = (rises.min(axis=0) > 0) & np.isclose(rises.min(axis=0), rises.max(axis=0), rtol=1e-3)
    return int(steady.argmax()) if steady.any() else None


def refuse_shuffled(times: Float32Array, offsets: IntArray, name: str) -> None:
    """Refuse episodes in which the clock does not rise.

    >>> refuse_shuffled(np.array([0, 2, 1], np.float32), np.array([0, 3]), "month")
    Traceback (most recent call last):
    poela.core.errors.InputError: the steps seem shuffled: 'month' rises at every step in training, but falls or stands
    still at 1 steps here, first at step 2 of the flat log: sort the steps of each episode
    """
    falls = np.concatenate([[False], np.diff(times) <= 0])
    falls[offsets[:-1]] = False
    if falls.any():
        count, first = first_bad(falls)
        raise InputError(
            f"the steps seem shuffled: {name!r} rises at every step in training, but falls or stands still at "
            f"{count} steps here, first at step {first} of the flat log: sort the steps of each episode"
        )
