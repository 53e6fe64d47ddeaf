"""Clusters: names of the independent unit of each episode, such as the patient of several stays, as numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, IntArray, readonly
from poela.core.errors import InputError
from poela.data.labels import Labels
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    pass


def numbered(names: ArrayLike) -> IntArray:
    """Names (text or numbers) as numbers from 0, in the order of their first appearance.

    >>> numbered(["b", "a", "b"])
    array([0, 1, 0])
    """
    number_of: dict[Any, int] = {}
    try:
        array = np.asarray(names)
        listed = array.tolist() if array.ndim == 1 else [array]  # which has no hash
        numbers = [number_of.setdefault(name, len(number_of)) for name in listed]
        missing = any(name is None or name != name for name in number_of)
    except (TypeError, ValueError):  # no list, or of what cannot be compared
        raise InputError("clusters must be one name (text or a number) for each episode: these are not") from None
    if missing:
        raise InputError("clusters hold None or NaN: name the cluster of every episode")
    return readonly(numbers, np.int64)


def cluster_of_episodes(clusters: Labels, episodes: Labels, name: str) -> tuple[IntArray, list[str]]:
    """The cluster of each episode, as coded in the column of this name, and what is wrong with it."""
    of_episode, changing = label_of_episodes(clusters, episodes, name)
    return of_episode, [f"{changing}: give all rows of an episode the same cluster"] if changing else []


def label_of_episodes(labels: Labels, episodes: Labels, name: str) -> tuple[IntArray, str]:
    """The code of each episode (its first row's) in the column of this name; and where it changes, in words."""
    of_row, of_episode = labels.codes, np.empty(len(episodes.values), np.int64)
    known = episodes.codes >= 0
    # Backwards, so that an episode's first row has the last word.
    of_episode[episodes.codes[known][::-1]] = of_row[known][::-1]
    first = of_episode[episodes.codes]
    changes: BoolArray = known & (of_row >= 0) & (first >= 0) & (of_row != first)
    if not changes.any():
        return of_episode, ""
    count, row = len(np.unique(episodes.codes[changes])), int(changes.argmax()) + 1
    return of_episode, f"column {quoted(name)} changes within {counted(count, 'episode')}, first row {row}"
