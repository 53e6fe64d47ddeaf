"""Whether each look holds the cases of those before it: bounds over all looks are about one log that grows."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.draws import text_of
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

DIGITS = 8  # hexadecimal, of a case: two of 10,000 cases are taken for one with a chance of 1%, which does no harm
MOST_GONE = 0.05  # of the cases of earlier looks: a few may be withdrawn


def case_hashes(logs: Trajectories) -> tuple[str, ...]:
    """A short hash of each case: what was known and done, and its name where it has one; outcomes may be corrected.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> case_hashes(logs)[1] == case_hashes(logs.take([1]))[0]
    True
    """
    ids = logs.episode_ids
    assert ids is not None
    named = not np.issubdtype(ids.dtype, np.integer)  # numbers may be those of rows, which change from file to file
    contexts, actions = np.ascontiguousarray(logs.contexts), np.ascontiguousarray(logs.actions)
    found = []
    for number, (start, end) in enumerate(zip(logs.offsets[:-1], logs.offsets[1:], strict=True)):
        digest = hashlib.blake2b(text_of(ids[number]).encode() if named else b"", digest_size=DIGITS // 2)
        digest.update(contexts[start:end].data)
        digest.update(actions[start:end].data)
        found.append(digest.hexdigest())
    return tuple(found)


@dataclass(frozen=True)
class Grown:
    """What became of the cases of earlier looks: how many are gone, and how many came in before others of these."""

    gone: int
    late: int

    @property
    def notes(self) -> list[str]:
        """What is said of that."""
        notes = []
        if self.gone:
            notes.append(f"{self.gone:,} cases of earlier looks are gone from these logs, or were changed")
        if self.late:
            notes.append(
                f"the outcomes of {self.late:,} cases came late: these cases ended before others of an earlier look, "
                "and count from now on; where bad outcomes come later than good ones, looks are too favourable until "
                "all are in"
            )
        return notes


def grown(earlier: Sequence[str], now: Sequence[str]) -> Grown:
    """Compare the cases of earlier looks with those of this one, in the order in which they end.

    >>> grown(["a", "b"], ["a", "c", "b", "d"])
    Grown(gone=0, late=1)
    """
    left, late, new = Counter(earlier), 0, 0
    for one in now:
        if left[one] > 0:
            left[one] -= 1
            late, new = late + new, 0
        else:
            new += 1
    gone = sum(left.values())
    if gone > MOST_GONE * len(earlier):
        raise InputError(
            f"{gone:,} of the {len(earlier):,} cases of earlier looks are not in these logs: bounds hold over all "
            "looks only if each has all cases so far, so give the whole log since the policy began"
        )
    return Grown(gone, late)
