"""What is eligible: how many actions, how often the fallback acts, and which ones along one episode."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.report.numbers.changes import strata_of_columns
from poela.report.study_logs import StudyLogs

LEAST_SHARE, MOST_ACTIONS = 0.005, 5  # of contexts at which an action is missing; how many are told
LEAST_PROBABILITY = 0.01  # of the rule that the paper's figure 1 sets beside the radius


@dataclass(frozen=True, eq=False)
class EligibleSets:
    """How many contexts have 0, 1, 2, … eligible actions (without the fallback, where it acted: 0)."""

    sizes: IntArray  # [A + 1]
    stranded: int
    fallback: str

    @property
    def contexts(self) -> int:
        """How many were looked at."""
        return int(self.sizes.sum())

    @property
    def mean(self) -> float:
        """The mean number of eligible actions."""
        return float(np.arange(len(self.sizes)) @ self.sizes / self.contexts)


def eligible_sets(logs: StudyLogs) -> EligibleSets | None:
    """The sizes of eligible sets at the logged contexts; None where the policy has no rule."""
    eligible, shown = logs.eligible, logs.shown
    if eligible is None or shown is None:
        return None
    sizes = np.where(eligible.stranded, 0, eligible.mask.sum(axis=1))
    counts = np.bincount(sizes, minlength=eligible.mask.shape[1] + 1)
    return EligibleSets(counts, eligible.n_stranded, str(shown.policy.eligibility.settings.fallback))


@dataclass(frozen=True)
class Missing:
    """An action that some kinds of cases never received."""

    action: str
    contexts: float  # the share of logged contexts at which it has no support
    policy: float  # the share of the policy's decisions that take it there
    group: str  # the cases where it is missing most, by one column; empty: no column tells
    of_group: float  # the share of that group that lacks it
    in_group: float  # the share of all such contexts that are of that group


def missing_actions(logs: StudyLogs) -> tuple[Missing, ...]:
    """The actions without support somewhere, by a model that judges the policy, and for whom; the largest first."""
    support, acting = logs.support, logs.acting
    if support is None or acting is None:
        return ()
    outside, followed = support.outside, logs.followed
    order = np.argsort(-outside.mean(axis=0), kind="stable")
    places = [place for place in order if outside[:, place].mean() >= LEAST_SHARE][:MOST_ACTIONS]
    strata = strata_of_columns(followed, logs.smallest) if places else []
    taken = np.where(outside, acting, 0.0).mean(axis=0)
    return tuple(
        Missing(
            str(followed.action_names[place]),
            float(outside[:, place].mean()),
            float(taken[place]),
            *_telling_group(outside[:, place], strata),
        )
        for place in places
    )


def _telling_group(lacking: BoolArray, strata: Sequence[tuple[str, BoolArray]]) -> tuple[str, float, float]:
    """The group that tells best who lacks an action: its share of those who do, less its share of those who do not."""
    best, told = 0.1, ("", 0.0, 0.0)
    for name, inside in strata:
        share, others = inside[lacking].mean(), inside[~lacking].mean() if not lacking.all() else 1.0
        if share - others > best:
            best, told = share - others, (name, float(lacking[inside].mean()), float(share))
    return told


@dataclass(frozen=True, eq=False)
class EligibleAlong:
    """One episode, step by step (the paper's figure 1): what is eligible, what was done, what the policy would do."""

    episode: int  # by position among the followed
    actions: tuple[str, ...]
    mask: BoolArray  # [T, A]
    probable: BoolArray | None  # [T, A], what passes a least probability of 0.01 instead
    stranded: BoolArray  # [T]
    logged: IntArray  # [T]
    policy: FloatArray  # [T, A]


def eligible_along(logs: StudyLogs, episode: int | None = None) -> EligibleAlong:
    """Along an episode (by position), or along one of usual length where the policy departs most."""
    if logs.eligible is None or logs.acting is None:
        raise InputError("this study has no policy whose eligible actions could be shown")
    followed = logs.followed
    chosen = _telling_episode(logs) if episode is None else episode
    if not 0 <= chosen < followed.n_episodes:
        raise InputError(f"there is no episode {chosen}: they are numbered from 0 to {followed.n_episodes - 1}")
    rows = slice(int(followed.offsets[chosen]), int(followed.offsets[chosen + 1]))
    return EligibleAlong(
        chosen,
        tuple(map(str, followed.action_names)),
        logs.eligible.mask[rows],
        None if logs.logging is None else logs.logging[rows] >= LEAST_PROBABILITY,
        logs.eligible.stranded[rows],
        followed.actions[rows],
        logs.acting[rows],
    )


def _telling_episode(logs: StudyLogs) -> int:
    """Of the episodes of usual length, the one whose eligible sets vary most; of equals, the one that changes most."""
    assert logs.eligible is not None
    assert logs.acting is not None
    followed = logs.followed
    sizes = logs.eligible.mask.sum(axis=1).astype(np.float64)
    starts, lengths = followed.offsets[:-1], followed.lengths
    mean = np.add.reduceat(sizes, starts) / lengths
    spread = np.add.reduceat(np.square(sizes), starts) / lengths - np.square(mean)
    logged_probability = logs.acting[np.arange(followed.n_steps), followed.actions]
    usual = np.abs(lengths - np.median(lengths)) <= max(np.median(lengths) * 0.25, 1)
    order = np.lexsort((np.add.reduceat(logged_probability, starts) / lengths, -spread.round(9), ~usual))
    return int(order[0])
