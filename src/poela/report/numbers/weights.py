"""Held-out weights: by return, avoided contexts, the gap to training episodes, and the gain under worse weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.action_space import finite_actions
from poela.data.folds import folds_within
from poela.evaluation.overfitting import AvoidedContext, Gap, LowReturnWeight, avoided_contexts, low_return_weight
from poela.evaluation.weights import weights_of
from poela.report.numbers.changes import strata_of_columns
from poela.report.numbers.judged import joined_groups
from poela.report.study_logs import StudyLogs
from poela.stats.contributions import Contributions, standard_error
from poela.stats.diagnostics import largest_share
from poela.stats.gain import MOST_SENSITIVITY, least_value, vanishing_sensitivity
from poela.stats.weights import effective_share

# What is eligible: how many actions, how often the fallback acts, and which ones along one episode.

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


BINS = 10
MOST_EPISODES = 4000  # whose neighbourhoods are looked at
GAMMAS = 41


@dataclass(frozen=True, eq=False)
class WeightsByReturn:
    """Episodes in groups of like return: the share of episodes and the share of weight that each holds."""

    low: FloatArray  # [k], where each group begins and ends, but for the ends of all
    high: FloatArray
    episodes: FloatArray  # [k], shares
    weight: FloatArray  # [k], shares
    below_median: LowReturnWeight
    ess: float  # of clusters, where there are any
    largest_share: float  # of one episode or cluster
    clustered: bool = False


def weights_by_return(logs: StudyLogs) -> WeightsByReturn | None:
    """What episodes of low and of high return weigh, held out."""
    if logs.judged is None:
        return None
    evidence, returns = logs.judged
    used = evidence.used
    if not (used > -np.inf).any():
        return None
    shares = np.exp(used - used.max())
    shares /= shares.sum()
    group = joined_groups(_groups(returns), evidence.logs.units, logs.smallest)
    k = int(group.max()) + 1
    inside = [returns[group == number] for number in range(k)]
    return WeightsByReturn(
        np.array([values.min() for values in inside]),
        np.array([values.max() for values in inside]),
        np.bincount(group, minlength=k) / len(returns),
        np.asarray(np.bincount(group, shares, k), np.float64),
        low_return_weight(used, returns, float(np.median(returns))),
        effective_share(used, evidence.logs.clusters) * evidence.logs.n_units,
        largest_share(used, evidence.logs.clusters),
        clustered=evidence.logs.clusters is not None,
    )


def _groups(returns: FloatArray) -> IntArray:
    """The group of each return: one for each value where there are few, else tenths of the episodes."""
    distinct, group = np.unique(returns, return_inverse=True)
    if len(distinct) <= BINS:
        return np.asarray(group, np.int64)
    edges = np.unique(np.quantile(returns, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.unique(np.searchsorted(edges, returns), return_inverse=True)[1].astype(np.int64)


def avoided(logs: StudyLogs) -> tuple[AvoidedContext, ...]:
    """First contexts that have lost weight on held-out episodes, with likeness measured as by the policy's rule."""
    rule = logs.nearness
    if logs.judged is None or rule is None or rule.radius is None or rule.logged is None:
        return ()
    evidence, _ = logs.judged
    if not (evidence.used > -np.inf).any():
        return ()
    firsts = np.concatenate([part.initial_contexts for part in logs.held_out])
    episodes = np.unique(np.linspace(0, len(firsts) - 1, min(MOST_EPISODES, len(firsts))).round().astype(np.int64))
    if not (evidence.used[episodes] > -np.inf).any():
        return ()
    scaled = np.asarray(rule.logged.features(firsts[episodes]), np.float32)
    single = replace(
        finite_actions(evidence.logs.take(episodes), "what is avoided"),
        contexts=scaled,
        feature_names=tuple(logs.train.feature_names),
        clusters=None,
    )
    return avoided_contexts(evidence.used[episodes], single, rule.radius, rule.settings.metric, most=5)


def training_gap(logs: StudyLogs) -> Gap | None:
    """How much better the policy looks on the episodes that it learned from than on held-out ones.

    In folds both are the same episodes: seen by the policy that was fitted on all of them, and held out.
    """
    if logs.judged is None or logs.acting is None or logs.followed.propensities is None:
        return None
    evidence, returns = logs.judged
    scoring = logs.study.settings.scoring
    used = weights_of(logs.acting, logs.followed).truncated(scoring.truncation)
    if not (used > -np.inf).any() or not (evidence.used > -np.inf).any():
        return None
    train = _ratio(used, scoring.capped(logs.followed).returns(scoring.discount))
    held_out = _ratio(evidence.used, returns)
    return Gap(train.value, held_out.value, train.value - held_out.value, _gap_error(logs, train, held_out))


def _gap_error(logs: StudyLogs, train: Contributions, held_out: Contributions) -> float:
    """The standard error of the difference: paired, where both are of the same episodes."""
    if logs.study.n_folds == 1 or logs.followed is not logs.train:
        return float(np.hypot(standard_error(train), standard_error(held_out)))
    fold_of = folds_within(logs.train, logs.study.n_folds, logs.study.settings.seed, logs.study.only_teach)
    order = np.argsort(fold_of, kind="stable")  # held-out episodes come fold by fold
    return float(np.sqrt(np.square(train.influence[order] - held_out.influence).sum()) / len(order))


def _ratio(log_weights: FloatArray, returns: FloatArray) -> Contributions:
    weights = np.exp(log_weights - log_weights.max())
    return Contributions.ratio(weights * returns, weights)


@dataclass(frozen=True, eq=False)
class GammaCurve:
    """The least gain that weights can have which are wrong by a factor of up to Γ."""

    gammas: FloatArray
    gains: FloatArray
    vanishes: float  # Γ


def gamma_curve(logs: StudyLogs) -> GammaCurve | None:
    """From Γ = 1, where the gain is as estimated, to beyond where it vanishes."""
    if logs.judged is None:
        return None
    evidence, returns = logs.judged
    if not (evidence.used > -np.inf).any():
        return None
    # What control variates add to the gain is taken to stay: weights that are wrong lose what they lose by themselves.
    achieved = evidence.done_now.value
    by_weights, gain = least_value(evidence.used, returns, 1.0) - achieved, logs.study.gain
    added = 0.0 if gain is None else gain.value - by_weights
    vanishes = vanishing_sensitivity(evidence.used, returns, achieved - float(returns.mean()) - added)
    last = min(max(vanishes * 1.5, 2.0), MOST_SENSITIVITY)
    gammas = np.geomspace(1.0, last, GAMMAS)
    least = np.array([least_value(evidence.used, returns, float(gamma)) for gamma in gammas])
    return GammaCurve(gammas, least - achieved + added, vanishes)
