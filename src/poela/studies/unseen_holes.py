"""Groups too small for a log to tell whether an action was never taken there, or not taken by chance."""

from math import ceil, log, log1p
from typing import TYPE_CHECKING

from poela.core.readable import escaped, share_in_words
from poela.studies.logging_policy import NOT_TAKEN

if TYPE_CHECKING:
    from poela.studies.study import Study

LEVEL = 0.05  # chance with which a group without the action would have none if it were taken as usual
MOST_ACTIONS = 2  # that are named, the rarest first


def least_noticed(rate: float) -> int:
    """The smallest group in which an action of this usual rate is missing by more than chance: (1 − rate)ⁿ ≤ 5%.

    >>> least_noticed(0.2), least_noticed(0.5), least_noticed(0.01), least_noticed(1.0)
    (14, 5, 299, 1)
    """
    return 1 if rate >= 1 else ceil(log(LEVEL) / log1p(-rate))


def unseen_holes(study: "Study") -> str:
    """Which groups without an action no model of this log could notice; empty where all propensities tell."""
    groups = None if study.result is None else study.result.groups
    data = study.record.data
    if groups is None or groups.amounts or not (data.estimated or NOT_TAKEN in data.propensities):
        return ""
    everybody = groups.everybody
    taken = sorted((rate, name) for rate, name in zip(everybody.before, groups.actions, strict=True) if 0 < rate < 1)
    told = []
    for rate, name in taken[:MOST_ACTIONS]:
        size = min(least_noticed(rate), everybody.episodes)
        told.append(f"{size:,} cases ({share_in_words(size / everybody.episodes)}) for action {escaped(name)}")
    if not told:
        return ""
    return (
        "Small groups that never received an action may go unnoticed, and the bound does not cover that: fewer than "
        f"about {', '.join(told)}, often more."
    )
