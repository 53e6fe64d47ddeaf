"""Outcomes that stand in a table otherwise than they happened: once for each row, or as a code for "not known"."""

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.readable import plain
from poela.data.trajectories import Trajectories
from poela.studies.findings_of_audit import Finding

CODES = tuple(sign * float(digit * length) for digit in "789" for length in (2, 3, 4, 5) for sign in (1, -1))
FEWEST_CODED = 3
FEWEST_EPISODES = 20  # of several steps, with an outcome that is not 0
REPEATED = 0.95  # of these episodes


def outcome_slips(logs: Trajectories) -> list[Finding]:
    """What speaks against the outcomes of logs by themselves.

    >>> stay = Trajectories(np.zeros((60, 1)), np.zeros(60, int), np.repeat(np.arange(30.0), 2), np.arange(0, 61, 2))
    >>> print(outcome_slips(stay)[0].sentence)
    the outcome is the same in all rows of 29 of 29 episodes of several rows, and differs between episodes
    """
    return [*_repeated(logs), *_coded(logs.rewards)]


def _repeated(logs: Trajectories) -> list[Finding]:
    """An outcome of the episode that stands in each of its rows, where it would count once for each row."""
    starts = logs.offsets[:-1]
    lowest, highest = np.minimum.reduceat(logs.rewards, starts), np.maximum.reduceat(logs.rewards, starts)
    several = logs.lengths > 1
    something = several & ((lowest != 0) | (highest != 0))
    same = something & (lowest == highest)
    # What each step earns alike in all episodes, such as another month alive, is no outcome of the episode.
    if same.sum() < max(FEWEST_EPISODES, REPEATED * something.sum()) or np.ptp(highest[several]) == 0:
        return []
    sentence = (
        f"the outcome is the same in all rows of {same.sum():,} of {something.sum():,} episodes of several rows, and "
        "differs between episodes"
    )
    advice = (
        "returns are sums over rows, so it counts once for each row: leave it blank but in the last row of each "
        "episode; if each row did earn it, say --no-audit"
    )
    return [Finding("repeated", (), sentence, advice, voids_weights=True)]


def _coded(rewards: FloatArray) -> list[Finding]:
    """A value such as -999 far beyond all others, which surely stands for an outcome that is not known."""
    for code in CODES:
        coded = rewards == code
        others = rewards[~coded]
        if coded.sum() < FEWEST_CODED or not others.size:
            continue
        lowest, highest = float(others.min()), float(others.max())
        reach = highest - lowest
        if reach > 0 and not lowest - reach <= code <= highest + reach:
            sentence = f"the outcome is {plain(code)} in {coded.sum():,} rows and far from that in all others"
            advice = (
                "if it stands for outcomes that are not known, leave these cells blank and say --missing censored; "
                "if it is a real outcome, say --no-audit"
            )
            return [Finding("code", (), sentence, advice, voids_weights=True)]
    return []
