"""Learned support: which actions cases like this one have received, by a calibrated, cross-fitted model of the log.

Bagged boosted trees say how probable each action is at a context. What they say of episodes that they have not seen is
compared with what was done there: where an action was taken at less than `LARGEST_RATE` of its usual rate, it has no
support, and the limits are as strict as a share of barred logged decisions allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.history import HistoryBehavior, HistoryModel
from poela.behavior.memory import memory_of
from poela.behavior.model import BehaviorModel
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps, MemorylessActor
from poela.core.storage import Stored
from poela.core.validation import expect_array, expect_contents, expect_part, expect_setting, expect_sizes
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories

BAGS, FEWER_BAGS = 8, 4  # models; fewer where propensities are known, or rows are many
MANY_ROWS = 5_000
ROUNDS, LEARNING_RATE, LEAVES = 80, 0.07, 6  # many small steps: what large trees say of few cases is noise
LARGEST_RATE = 0.8  # of its usual rate: an action taken less often than that may be barred
DOUBTFUL_RATE = 0.9  # up to here a hole may hide between cases that did get the action
PRIOR = 2.0  # expected decisions, at the usual rate, that stand against what chance does to small groups
MOST_ROWS = 10_000  # that teach the model; more would change limits little
LEAST_CHANCE = 1e-6  # so that a missing action has a finite shortfall


@dataclass(frozen=True, eq=False)
class SupportModel:
    """How probable each action was in cases like this [N, A], and what it takes to be supported [A]."""

    models: tuple[BehaviorModel, ...]
    least: FloatArray  # [A], a probability above this is support
    doubtful: FloatArray  # [A], up to this it is doubtful
    rates: FloatArray  # [A], how often each action was taken
    barred: float  # the share of held-out logged decisions that have no support

    kind = "support_model"

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return self.models[0].n_features

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.least)

    @property
    def needs(self) -> str:
        """What it looks at: the "context", or the "history" that the logging policy used."""
        return "history" if isinstance(self.models[0], HistoryModel) else "context"

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return np.asarray(np.mean([model.probabilities(contexts) for model in self.models], axis=0))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return np.asarray(np.mean([model.along(trajectories) for model in self.models], axis=0))

    def actor(self, n: int) -> Actor:
        """Follows n episodes at once."""
        if self.needs == "context":
            return MemorylessActor(self)
        return _SupportActor([model.actor(n) for model in self.models])

    def supported(self, probabilities: FloatArray) -> BoolArray:
        """Which actions [N, A] have support."""
        return np.asarray(probabilities > self.least)

    def shortfall(self, probabilities: FloatArray) -> FloatArray:
        """How many nats each action [N, A] falls short of support; 0 where it has it.

        >>> model = SupportModel((), np.array([0.1, 0.1]), np.zeros(2), np.zeros(2), 0.0)
        >>> model.shortfall(np.array([[0.5, 0.1 / np.e]])).round(3)
        array([[0., 1.]])
        """
        with np.errstate(divide="ignore"):
            needed = np.log(np.maximum(self.least, LEAST_CHANCE)) - np.log(np.maximum(probabilities, LEAST_CHANCE))
        return np.asarray(np.where(self.supported(probabilities), 0.0, np.maximum(needed, 0.0)))

    def stored(self) -> Stored:
        """For a file."""
        arrays = {"least": self.least, "doubtful": self.doubtful, "rates": self.rates}
        parts = {f"model_{number}": model.stored() for number, model in enumerate(self.models)}
        return Stored(self.kind, {"barred": self.barred}, arrays, parts)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "SupportModel":
        """From a file."""
        names = [f"model_{number}" for number in range(max(len(stored.parts), 1))]
        expect_contents(stored, settings=("barred",), arrays=("least", "doubtful", "rates"), parts=names)
        models = tuple(expect_part(stored, name, load_part, BehaviorModel, "a behavior model") for name in names)
        size = models[0].n_actions
        for name, model in zip(names, models, strict=True):
            expect_sizes(name, model, models[0].n_features, size)
        if len({isinstance(model, HistoryModel) for model in models}) > 1:
            raise InputError("some models of support look at earlier steps and others do not: the file was changed")
        limits = (expect_array(stored, name, np.float64, (size,), low=0, high=1) for name in ("least", "doubtful"))
        rates = expect_array(stored, "rates", np.float64, (size,), low=0, high=1)
        return cls(models, *limits, rates, expect_setting(stored, "barred", float, low=0, high=1))


class _SupportActor:
    def __init__(self, actors: list[Actor]) -> None:
        self._actors = actors

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.asarray(np.mean([actor.probabilities(contexts) for actor in self._actors], axis=0))

    def record(self, actions: IntArray) -> None:
        for actor in self._actors:
            actor.record(actions)


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


def cross_fitted_support(train: Trajectories, share: float, remembers: bool) -> Support | None:
    """The model of some bags, each without the episodes that it is asked about; None where nothing is barred."""
    known = has_holes(train)
    if train.n_units < 2 or known is False:
        return None
    few = known is not None or train.n_steps > MANY_ROWS
    bags = min(FEWER_BAGS if few else BAGS, train.n_units)
    bag_of = fold_numbers(train, bags, 0)
    models = [_one_model(train, bag_of != bag, remembers, bag) for bag in range(bags)]
    held_out = _rows(train, [(model, bag_of == bag) for bag, model in enumerate(models)])
    return Support(_calibrated(train, models, held_out, share), held_out, bag_of[train.episode_of_step])


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
    without = {
        pair: _one_model(logs, ~np.isin(fold_of, pair), remembers, number) for number, pair in enumerate(pairs)
    }
    single = []
    for fold in range(folds):
        own = {other: model for pair, model in without.items() if fold in pair for other in pair if other != fold}
        train = logs.take(np.flatnonzero(fold_of != fold))
        other_of = fold_of[fold_of != fold]
        held_out = _rows(train, [(model, other_of == other) for other, model in own.items()])
        single.append(_calibrated(train, list(own.values()), held_out, share))
    both = {(first, second): replace(single[first], models=(model,)) for (first, second), model in without.items()}
    return [*single], dict(both)


def _rows(train: Trajectories, asked: Sequence[tuple[BehaviorModel, BoolArray]]) -> FloatArray:
    """What each model says of the episodes that it is asked about [N, A]."""
    rows = np.zeros((train.n_steps, train.n_actions))
    for model, episodes in asked:
        rows[episodes[train.episode_of_step]] = model.along(train.take(np.flatnonzero(episodes)))
    return rows


def _calibrated(
    train: Trajectories, models: Sequence[BehaviorModel], held_out: FloatArray, share: float
) -> SupportModel:
    known = has_holes(train) is not None
    done = train.propensities if known else np.eye(train.n_actions)[train.actions]
    assert done is not None
    least, doubtful, barred = limits(held_out, done, share)
    arrays = (readonly(array, np.float64) for array in (least, doubtful, done.mean(axis=0)))
    return SupportModel(tuple(models), *arrays, barred)


def _some(train: Trajectories, episodes: IntArray, seed: int) -> IntArray:
    """These episodes, or so many of them that they hold about `MOST_ROWS` steps."""
    steps = int(train.lengths[episodes].sum())
    if steps <= MOST_ROWS:
        return episodes
    count = max(int(len(episodes) * MOST_ROWS / steps), 2)
    return np.sort(np.random.default_rng(seed).permutation(episodes)[:count])


def _one_model(logs: Trajectories, teaching: BoolArray, remembers: bool, seed: int) -> BehaviorModel:
    known = has_holes(logs) is not None
    train = logs.take(_some(logs, np.flatnonzero(teaching), seed))
    least = int(np.clip(train.n_steps // 40, 5, 40)) * (train.n_actions if known else 1)
    boosted = BoostedBehavior(
        max_rounds=ROUNDS, learning_rate=LEARNING_RATE, leaves=LEAVES, steps_per_leaf=least, held_out=0
    )
    if not known:
        return (HistoryBehavior(boosted) if remembers else boosted).fit_quietly(train, seed)
    assert train.propensities is not None
    if not remembers:
        return boosted.fit_shares(train, train.propensities, seed)
    settings = HistoryBehavior(boosted)
    inner = boosted.fit_shares(train.with_history(settings.steps), train.propensities, seed)
    return settings.around(inner, train)


def limits(predicted: FloatArray, done: FloatArray, share: float) -> tuple[FloatArray, FloatArray, float]:
    """The probabilities [A] up to which an action has no support, and up to which it is doubtful.

    `predicted` [N, A] is what models say of steps that they have not seen, `done` [N, A] how probable each action was
    there, or which one was taken. Steps are put into groups by what is predicted (isotonic regression); a group whose
    rate is below `LARGEST_RATE` of the usual one has no support, from the lowest rates up, while at most this `share`
    of all decisions is barred. Also returns the share that is.

    >>> rng = np.random.default_rng(0)
    >>> hole = np.arange(1000) < 200
    >>> predicted = np.where(hole, 0.05, 0.4) + 0.01 * rng.random(1000)
    >>> taken = ~hole & (rng.random(1000) < 0.4)
    >>> least, _, barred = limits(np.stack([1 - predicted, predicted], 1), np.stack([~taken, taken], 1) * 1.0, 0.02)
    >>> bool(0.06 < least[1] < 0.41), barred
    (True, 0.0)
    """
    groups = [_groups(predicted[:, action], done[:, action]) for action in range(predicted.shape[1])]
    rate = _largest_rate(groups, share * done.sum())
    least = np.array([_edge(group, rate) for group in groups])
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
    return _Groups(edges, np.maximum.accumulate(rates), np.cumsum(totals))


def _largest_rate(groups: list[_Groups], most: float) -> float:
    """The highest relative rate, up to `LARGEST_RATE`, at which at most this many decisions are barred."""
    candidates = np.unique(np.concatenate([group.rates for group in groups]))
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
