"""How likely a recommendation is followed, and with it the probability of what was done."""

from collections.abc import Callable

import numpy as np

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories

FOLDS = 5
FLOOR = 1e-3


def propensities_of_done(logs: Trajectories, done: IntArray, seed: int = 0) -> FloatArray:
    """The probability [N, A] of doing each action, where each recommendation may be followed or not.

    P(done d | x) = Σ_a π(a | x) · [f(x, a) · 1(d = a) + (1 − f(x, a)) · g(d | x, a)]: π is known, f is the probability
    of following and g says what is done instead; both are logistic regressions, fitted on other episodes than those
    that they are used for. What was done gets at least a small probability.

    >>> rng = np.random.default_rng(0)
    >>> said, follows = rng.integers(0, 2, 4000), rng.random(4000) < 0.7
    >>> logs = Trajectories(rng.normal(size=(4000, 1)), said, np.zeros(4000), np.arange(4001), [[0.5, 0.5]] * 4000)
    >>> chances = propensities_of_done(logs, np.where(follows, said, 1 - said))
    >>> bool(np.abs(chances - 0.5).max() < 0.05)
    True
    """
    advised = logs.all_propensities
    if advised is None or logs.n_actions < 2:
        raise InputError("what was done instead of a recommendation needs two actions and all their propensities")
    said, followed = logs.actions, np.asarray(done == logs.actions)
    folds = min(FOLDS, logs.n_units)
    fold_of = fold_numbers(logs, folds, seed)[logs.episode_of_step]
    result = np.zeros(advised.shape)
    for fold in range(folds):
        teach, apply = fold_of != fold, np.flatnonzero(fold_of == fold)
        result[apply] = _marginal(logs, done, said, followed, teach, apply, advised[apply])
    rows = np.arange(len(result))
    low = result[rows, done] < FLOOR
    result[rows[low], done[low]] = FLOOR
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def _marginal(
    logs: Trajectories,
    done: IntArray,
    said: IntArray,
    followed: BoolArray,
    teach: BoolArray,
    apply: IntArray,
    advised: FloatArray,
) -> FloatArray:
    following = _regression(_with_advice(logs, said)[teach], followed[teach].astype(np.int64), 2)
    others = teach & ~followed
    instead = _regression(logs.contexts[others], done[others], logs.n_actions) if others.any() else None
    contexts = logs.contexts[apply]
    shares = np.full(advised.shape, 1 / logs.n_actions) if instead is None else instead(contexts)
    result = np.zeros(advised.shape)
    for action in range(logs.n_actions):
        follows = following(_with_advice_of(contexts, action, logs.n_actions))[:, 1]
        rest = shares + FLOOR
        rest[:, action] = 0.0
        rest /= rest.sum(axis=1, keepdims=True)
        result += (advised[:, action] * (1 - follows))[:, None] * rest
        result[:, action] += advised[:, action] * follows
    return result


def _with_advice(logs: Trajectories, said: IntArray) -> Float32Array:
    return np.hstack([logs.contexts, np.eye(logs.n_actions, dtype=np.float32)[said]])


def _with_advice_of(contexts: Float32Array, action: int, n_actions: int) -> Float32Array:
    return np.hstack([contexts, np.tile(np.eye(n_actions, dtype=np.float32)[action], (len(contexts), 1))])


def _regression(features: Float32Array, labels: IntArray, n_labels: int) -> Callable[[Float32Array], FloatArray]:
    steps = Trajectories(features, labels, np.zeros(len(labels)), np.arange(len(labels) + 1), n_actions=n_labels)
    model = MultinomialBehavior().fit_quietly(steps, 0)
    return model.probabilities
