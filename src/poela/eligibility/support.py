"""Learned support: which actions cases like this one have received, by a calibrated, cross-fitted model of the log.

Bagged boosted trees say how probable each action is at a context. What they say of episodes that they have not seen is
compared with what was done there: where an action was taken at less than `LARGEST_RATE` of its usual rate, it has no
support, and the limits are as strict as a share of barred logged decisions allows. An action that is nowhere rarer than
chance and a smooth trend explain (`rarity`) has support everywhere.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.history import HistoryBehavior, HistoryModel, memory_of
from poela.behavior.model import BehaviorModel
from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import BoolArray, FloatArray, IntArray, readonly
from poela.core.errors import PoelaWarning
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.eligibility.completed import NEARLY_NONE, are_contradicted, completed_propensities, has_edge
from poela.eligibility.support_model import SupportModel

# Whether an action is missing somewhere, or only rarer there as a smooth trend has it.
# Where nothing is missing, groups of cases that got an action less often than usual come from chance, or from a
# logging policy that prefers others for some. Barring it there would cost, and protect nobody.

TREND = 0.9  # of what a smooth trend expects: fewer are missing


@dataclass(frozen=True)
class Evidence:
    """What it takes to call an action missing somewhere, or not missing."""

    enough: float = 160.0  # decisions with it: with fewer, a hole cannot be told from chance, and is taken to be there
    level: float = 0.03  # of the test, one-sided


USUAL = Evidence()


def is_missing(
    predicted: FloatArray, taken: FloatArray, expected: FloatArray, edges: FloatArray, evidence: Evidence = USUAL
) -> bool:
    """Whether cases [N] that are predicted to get an action most rarely got it more rarely than a trend explains.

    `taken` says who got it, `expected` how probable a smooth model calls it; both models have not seen these cases.
    The cases up to each of the `edges` of predictions are compared with it: by a binomial test against `TREND` of what
    is expected (at most the usual rate), and against `NEARLY_NONE` of the usual rate.

    >>> rng = np.random.default_rng(0)
    >>> smooth = np.repeat([0.1, 0.3], [400, 600])
    >>> rarer, never = rng.random(1000) < smooth, (rng.random(1000) < 0.3) & (smooth > 0.2)
    >>> [is_missing(smooth, taken * 1.0, smooth, np.array([0.2])) for taken in (rarer, never)]
    [False, True]
    """
    if taken.sum() < evidence.enough or not taken.any():
        return True
    order, usual = np.argsort(predicted, kind="stable"), float(taken.mean())
    last = np.searchsorted(predicted[order], edges, side="right") - 1
    last = last[last >= 0]
    cases = np.asarray(last + 1, np.float64)
    got = np.cumsum(taken[order])[last]
    trend = np.cumsum(np.minimum(expected, usual)[order])[last] / cases
    chances = [_at_most(got, cases, share) for share in (TREND * trend, np.full(len(cases), NEARLY_NONE * usual))]
    return bool((np.stack(chances) < evidence.level).any())


def _at_most(hits: FloatArray, of: FloatArray, chance: FloatArray) -> FloatArray:
    """The probability of no more hits than these.

    >>> _at_most(np.array([1.0, 3.0]), np.array([3.0, 3.0]), np.array([0.5, 0.5]))
    array([0.5, 1. ])
    """
    from scipy.stats import binom

    return np.asarray(binom.cdf(hits, of, chance), np.float64)


BAGS, FEWER_BAGS = 8, 4  # models; fewer where propensities are known, or rows are many
MANY_ROWS = 5_000
ROUNDS, LEARNING_RATE, LEAVES = 80, 0.07, 6  # many small steps: what large trees say of few cases is noise
LARGEST_RATE = 0.9  # of its usual rate: an action taken less often than that may be barred
DOUBTFUL_RATE = 0.9  # up to here a hole may hide between cases that did get the action
PRIOR = 2.0  # expected decisions, at the usual rate, that stand against what chance does to small groups
LEAST_TOLD = 5  # cases in a leaf where propensities tell, which have no noise
MOST_COMPLETED = 12  # actions: each costs trees of its own, in every fold
MOST_ROWS = 10_000  # that teach the model; more would change limits little
ITERATIONS = 100  # of the smooth trend


@dataclass(frozen=True, eq=False)
class Support:
    """A model of support, and what it says of its own training steps [N, A] without having seen their episodes."""

    model: SupportModel
    held_out: FloatArray
    parts: IntArray  # [N], steps of one part were asked of one model


_known: "WeakKeyDictionary[Trajectories, dict[float, SupportModel | None]]" = WeakKeyDictionary()


def has_holes(train: Trajectories) -> bool | None:
    """Whether some action is never taken somewhere: by the propensities of all actions; None where these are not known.

    >>> has_holes(Trajectories([[0.0]], [0], [0.0], [0, 1], [[1.0, 0.0]]))
    True
    """
    if train.propensities is None or train.propensities.ndim == 1 or train.estimated:
        return None
    return bool((train.propensities == 0).any())


def fit_support(train: Trajectories, share: float, behavior: Any = None) -> SupportModel | None:
    """The support that these logs give, barring at most this share of logged decisions; None where nothing is barred.

    Where all propensities are logged, they say what was done; else the actions do. A log whose logging policy takes
    every action everywhere, by its own propensities, needs no model. `behavior` tells whether it remembers. What is
    known of a log is not fitted again.
    """
    known = _known.setdefault(train, {})
    if share not in known:
        support = cross_fitted_support(train, share, looks_back(train, behavior))
        known[share] = None if support is None else support.model
    return known[share]


def tell_support(train: Trajectories, share: float, model: SupportModel | None) -> None:
    """Say what the support of a log is, for `fit_support` to know."""
    _known.setdefault(train, {})[share] = model


def looks_back(train: Trajectories, behavior: Any) -> bool:
    """Whether the logging policy remembers: by its model, or where there is none by the log."""
    if behavior is None and train.n_steps > train.n_episodes and has_holes(train) is not False:
        return memory_of(train, 0).remembers
    return isinstance(behavior, HistoryModel)


def cross_fitted_support(
    train: Trajectories, share: float, remembers: bool, evidence: Evidence = USUAL
) -> Support | None:
    """The model of some bags, each without the episodes that it is asked about; None where nothing is barred.

    `evidence` is what it takes to call an action missing somewhere.
    """
    known = has_holes(train)
    if train.n_units < 2 or known is False:
        return None
    few = known is not None or may_tell(train) or train.n_steps > MANY_ROWS
    bags = min(FEWER_BAGS if few else BAGS, train.n_units)
    bag_of = fold_numbers(train, bags, 0)
    models = _Models(train, {bag: bag_of != bag for bag in range(bags)}, remembers)
    asked = {bag: bag_of == bag for bag in range(bags)}
    model, held_out = models.calibrated(train, asked, share, evidence)
    return Support(model, held_out, bag_of[train.episode_of_step])


def support_of_folds(
    logs: Trajectories, fold_of: IntArray, share: float, remembers: bool
) -> tuple[list[SupportModel | None], dict[tuple[int, int], SupportModel | None]]:
    """The support that each fold of a study leaves, and each pair of folds, by one model for each pair left out.

    Without fold j there are the models of the pairs of j and another fold; each is asked about that other one.
    """
    folds = int(fold_of.max()) + 1
    pairs = list(combinations(range(folds), 2))
    if has_holes(logs) is False or folds < 3:
        return [None] * folds, dict.fromkeys(pairs)
    models = _Models(logs, {pair: ~np.isin(fold_of, pair) for pair in pairs}, remembers)
    single = []
    for fold in range(folds):
        other_of = fold_of[fold_of != fold]
        asked = {pair: other_of == sum(pair) - fold for pair in pairs if fold in pair}  # about the other fold of each
        single.append(models.calibrated(logs.take(np.flatnonzero(fold_of != fold)), asked, share)[0])
    both: dict[tuple[int, int], SupportModel | None] = {}
    for first, second in pairs:
        own = [pair for pair in pairs if first in pair].index((first, second))
        both[first, second] = replace(single[first], models=(single[first].models[own],))
    return [*single], both


class _Models:
    """Models of some parts of the logs, by what teaches them: actions, their propensities, or a smooth trend."""

    def __init__(self, logs: Trajectories, teaching: Mapping[Any, BoolArray], remembers: bool) -> None:
        self._logs, self._teaching, self._remembers = logs, teaching, remembers
        self._fitted: dict[str, dict[Any, BehaviorModel | None]] = {}

    def calibrated(
        self, train: Trajectories, asked: Mapping[Any, BoolArray], share: float, evidence: Evidence = USUAL
    ) -> tuple[SupportModel, FloatArray]:
        """The support of these episodes, and what models say [N, A] of those of them that each is `asked` about.

        Propensities of taken actions teach it where actions, by models that have not seen them, do not contradict them.
        """
        held_out = self._rows("actions", train, asked)
        done = completed_propensities(train) if may_tell(train) else None
        told = None if done is None or are_contradicted(train, done, held_out) else done
        kind = "actions" if told is None else "propensities"
        if told is not None:
            held_out = self._rows(kind, train, asked)
        expected = self._rows("trend", train, asked) if told is None else held_out
        models = [model for part in asked if (model := self._of(kind)[part]) is not None]
        return _calibrated(train, models, held_out, expected, share, evidence, told), held_out

    def _rows(self, kind: str, train: Trajectories, asked: Mapping[Any, BoolArray]) -> FloatArray:
        return _rows(train, [(self._of(kind)[part], episodes) for part, episodes in asked.items()])

    def _of(self, kind: str) -> dict[Any, BehaviorModel | None]:
        """The models of all parts of one kind, made when they are asked for."""
        if kind not in self._fitted:
            parts, logs, remembers = enumerate(self._teaching.items()), self._logs, self._remembers
            self._fitted[kind] = {
                part: _trend(logs, own, remembers, seed)
                if kind == "trend"
                else _one_model(logs, own, remembers, seed, kind == "propensities")
                for seed, (part, own) in parts
            }
        return self._fitted[kind]


def _rows(train: Trajectories, asked: Sequence[tuple[BehaviorModel | None, BoolArray]]) -> FloatArray:
    """What each model says of the episodes that it is asked about [N, A]; nothing (0) where there is none."""
    rows = np.zeros((train.n_steps, train.n_actions))
    for model, episodes in asked:
        if model is not None:
            rows[episodes[train.episode_of_step]] = model.along(train.take(np.flatnonzero(episodes)))
    return rows


def _calibrated(
    train: Trajectories,
    models: Sequence[BehaviorModel],
    held_out: FloatArray,
    expected: FloatArray,
    share: float,
    evidence: Evidence = USUAL,
    told: FloatArray | None = None,
) -> SupportModel:
    known = has_holes(train) is not None
    taken = np.eye(train.n_actions)[train.actions]
    done = told if told is not None else np.asarray(train.propensities) if known else taken
    smooth = None if known or told is not None else expected
    least, doubtful, barred = limits(held_out, done, share, smooth, evidence)
    if told is not None:
        missing = has_edge(done)
        least, doubtful = np.where(missing, least, 0.0), np.where(missing, doubtful, 0.0)
        barred = float((held_out <= least)[np.arange(train.n_steps), train.actions].mean())
    absent = ((held_out <= least) | (known & (done == 0))).mean(axis=0)
    return SupportModel(
        tuple(models),
        least=readonly(least, np.float64),
        doubtful=readonly(doubtful, np.float64),
        rates=readonly(done.mean(axis=0), np.float64),
        barred=barred,
        absent=readonly(absent, np.float64),
    )


def _some(train: Trajectories, episodes: IntArray, seed: int) -> IntArray:
    """These episodes, or so many of them that they hold about `MOST_ROWS` steps."""
    steps = int(train.lengths[episodes].sum())
    if steps <= MOST_ROWS:
        return episodes
    count = max(int(len(episodes) * MOST_ROWS / steps), 2)
    return np.sort(np.random.default_rng(seed).permutation(episodes)[:count])


def may_tell(logs: Trajectories) -> bool:
    """Whether the propensities of actions that were taken are logged, of no others, and of few enough to complete."""
    of_taken = logs.propensities is not None and logs.propensities.ndim == 1 and not logs.estimated
    return of_taken and logs.n_actions <= MOST_COMPLETED


def _one_model(
    logs: Trajectories, teaching: BoolArray, remembers: bool, seed: int, told: bool = False
) -> BehaviorModel:
    """Of the episodes that teach; `told` says that their propensities are to teach it, rather than their actions."""
    known = told or has_holes(logs) is not None
    train = logs.take(_some(logs, np.flatnonzero(teaching), seed))
    least = LEAST_TOLD if told else int(np.clip(train.n_steps // 40, 5, 40))
    least *= train.n_actions if known else 1
    boosted = BoostedBehavior(
        max_rounds=ROUNDS, learning_rate=LEARNING_RATE, leaves=LEAVES, steps_per_leaf=least, held_out=0
    )
    if not known:
        return (HistoryBehavior(boosted) if remembers else boosted).fit_quietly(train, seed)
    settings = HistoryBehavior(boosted)
    seen = train.with_history(settings.steps) if remembers else train
    shares = completed_propensities(seen) if told else train.propensities
    assert shares is not None
    inner = boosted.fit_shares(seen, shares, seed)
    return settings.around(inner, train) if remembers else inner


def _trend(logs: Trajectories, teaching: BoolArray, remembers: bool, seed: int) -> BehaviorModel | None:
    """How probable actions are, smoothly; None where propensities of all actions say what is missing."""
    if has_holes(logs) is not None:
        return None
    plain = MultinomialBehavior(max_iterations=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)  # a trend that could be a little better is good enough
        train = logs.take(_some(logs, np.flatnonzero(teaching), seed))
        return (HistoryBehavior(plain) if remembers else plain).fit_quietly(train, seed)


def limits(
    predicted: FloatArray,
    done: FloatArray,
    share: float,
    expected: FloatArray | None = None,
    evidence: Evidence = USUAL,
) -> tuple[FloatArray, FloatArray, float]:
    """The probabilities [A] up to which an action has no support, and up to which it is doubtful.

    `predicted` [N, A] is what models say of steps that they have not seen, `done` [N, A] how probable each action was
    there, or which one was taken. Steps are put into groups by what is predicted (isotonic regression); a group whose
    rate is below `LARGEST_RATE` of the usual one has no support, from the lowest rates up, while at most this `share`
    of all decisions is barred. Also returns the share that is. With what a smooth trend `expected` [N, A], an action
    that is missing nowhere is barred nowhere.

    >>> rng = np.random.default_rng(0)
    >>> hole = np.arange(1000) < 200
    >>> predicted = np.where(hole, 0.05, 0.4) + 0.01 * rng.random(1000)
    >>> taken = ~hole & (rng.random(1000) < 0.4)
    >>> least, _, barred = limits(np.stack([1 - predicted, predicted], 1), np.stack([~taken, taken], 1) * 1.0, 0.02)
    >>> bool(0.06 < least[1] < 0.41), barred <= 0.02
    (True, True)
    """
    actions = range(predicted.shape[1])
    groups = [_groups(predicted[:, action], done[:, action]) for action in actions]
    missing = [True for _ in actions]
    if expected is not None:
        columns = zip(predicted.T, done.T, expected.T, [group.edges for group in groups], strict=True)
        missing = [is_missing(*column, evidence) for column in columns]
    rate = _largest_rate([groups[action] for action in actions if missing[action]], share * done.sum())
    least = np.array([_edge(groups[action], rate) if missing[action] else 0.0 for action in actions])
    doubtful = np.array([_edge(group, DOUBTFUL_RATE) for group in groups])
    barred = float(np.where(predicted <= least, done, 0.0).sum() / done.sum())
    return least, np.maximum(doubtful, least), barred


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of steps by what is predicted for an action, in rising order."""

    edges: FloatArray  # just below the lowest prediction of the next one
    rates: FloatArray  # relative to the usual rate, never falling
    decisions: FloatArray  # with that action, in this group and those below it


def _groups(predicted: FloatArray, done: FloatArray) -> _Groups:
    from sklearn.isotonic import isotonic_regression

    usual = float(done.mean())
    order = np.argsort(predicted, kind="stable")
    values, starts = np.unique(predicted[order], return_index=True)
    counts, totals = np.diff([*starts, len(order)]), np.add.reduceat(done[order], starts)
    fitted = isotonic_regression(totals / counts, sample_weight=counts)
    _, first = np.unique(fitted, return_index=True)
    counts, totals = np.add.reduceat(counts, first), np.add.reduceat(totals, first)
    rates = (totals + PRIOR) / (usual * counts + PRIOR) if usual > 0 else np.zeros(len(first))
    # What lies between two groups belongs to the lower one: near the edge of a hole, the careful side.
    edges = np.nextafter(np.append(values[first[1:]], 1.0), 0.0)
    # A group of few cases is no better supported than those above it.
    return _Groups(edges, np.minimum.accumulate(rates[::-1])[::-1], np.cumsum(totals))


def _largest_rate(groups: list[_Groups], most: float) -> float:
    """The highest relative rate, up to `LARGEST_RATE`, at which at most this many decisions are barred."""
    candidates = np.unique([rate for group in groups for rate in group.rates])
    allowed = 0.0
    for rate in candidates[candidates <= LARGEST_RATE]:
        barred = sum(float(group.decisions[group.rates <= rate][-1:].sum()) for group in groups)
        if barred > most:
            break
        allowed = float(rate)
    return allowed


def _edge(group: _Groups, rate: float) -> float:
    """The end of the groups up to this relative rate; 0 where there is none, so that 0 is no support."""
    below = group.edges[group.rates <= rate]
    return float(below[-1]) if len(below) else 0.0
