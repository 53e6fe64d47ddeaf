"""Rules learned from doubly robust scores of one-step logs, and the usual bound of what they gain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

FOLDS, CUTS = 5, 40
Rule = Callable[[Any], Any]  # contexts [n, d] to actions [n]


def scores_of(x: Any, actions: Any, rewards: Any, propensities: Any, seed: int) -> Any:
    """Doubly robust scores [n, A] of every action: values of other folds, and what the one that was taken adds."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    n, n_actions = propensities.shape
    values, fold_of = np.zeros((n, n_actions)), np.random.default_rng((seed, 5)).permutation(n) % FOLDS
    for fold in range(FOLDS):
        own, others = fold_of == fold, fold_of != fold
        for action in range(n_actions):
            taught = others & (actions == action)
            if not taught.any():  # the importance-weighted score alone
                continue
            model = HistGradientBoostingRegressor(max_iter=60, learning_rate=0.1, max_depth=3, random_state=0)
            values[own, action] = model.fit(x[taught], rewards[taught]).predict(x[own])
    rows = np.arange(n)
    scores = values.copy()
    scores[rows, actions] += (rewards - values[rows, actions]) / propensities[rows, actions]
    return np.where(propensities > 0, scores, -np.inf)  # what practice never does is not to be learned from it


def linear(x: Any, scores: Any) -> Rule:
    """The best action by a linear regression of each action's scores; never one that was barred for somebody.

    >>> x = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    >>> linear(x, np.hstack([x, -x]))(np.array([[3.0], [-3.0]]))
    array([0, 1])
    """
    design = np.c_[np.ones(len(x)), x]
    allowed = np.isfinite(scores).all(axis=0)
    fitted = np.linalg.lstsq(design, np.where(allowed, scores, 0.0), rcond=None)[0]
    return lambda rows: np.where(allowed, np.c_[np.ones(len(rows)), rows] @ fitted, -np.inf).argmax(axis=1)


@dataclass(frozen=True)
class Tree:
    """Two conditions in a row."""

    feature: int
    cut: float
    below: tuple[int, float, int, int]  # feature, cut, the action at or below it, and above
    above: tuple[int, float, int, int]

    def __call__(self, x: Any) -> Any:
        """The action of each case."""
        sides = [np.where(x[:, f] <= cut, low, high) for f, cut, low, high in (self.below, self.above)]
        return np.where(x[:, self.feature] <= self.cut, *sides)


def tree(x: Any, scores: Any) -> Tree:
    """The tree of depth two with the highest sum of scores, of all cuts at up to 40 quantiles of each feature.

    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> tree(x, np.eye(2)[[0, 1, 1, 0]])(x)
    array([0, 1, 1, 0])
    """
    scores = np.where(np.isfinite(scores), scores, -1e6)
    cuts = [np.unique(np.quantile(column, np.linspace(0, 1, CUTS + 2)[1:-1], method="lower")) for column in x.T]
    sides = np.concatenate([x[:, [f]] <= own for f, own in enumerate(cuts)], axis=1)  # [n, all cuts]
    places = [(f, float(cut)) for f, own in enumerate(cuts) for cut in own]
    best, found = -np.inf, None
    for place, split in enumerate(sides.T):
        (value, below), (other, above) = (_stump(sides[part], scores[part]) for part in (split, ~split))
        if value + other > best:
            best, found = value + other, (place, below, above)
    assert found is not None
    place, *leaves = found
    low_leaf, high_leaf = ((*places[own], low, high) for own, low, high in leaves)
    return Tree(*places[place], low_leaf, high_leaf)


def _stump(sides: Any, scores: Any) -> tuple[float, tuple[int, int, int]]:
    """The best single condition: its sum of scores, its place, and the actions on both sides."""
    at_most = sides.T.astype(float) @ scores  # [cuts, A]
    beyond = scores.sum(axis=0) - at_most
    place = int((at_most.max(axis=1) + beyond.max(axis=1)).argmax())
    value = float(at_most[place].max() + beyond[place].max())
    return value, (place, int(at_most[place].argmax()), int(beyond[place].argmax()))


def gains(rule: Rule, x: Any, scores: Any, propensities: Any) -> Any:
    """What each case adds to the gain of a rule over practice, by its scores [n, A]."""
    chosen = scores[np.arange(len(x)), rule(x)]
    return chosen - (propensities * np.where(propensities > 0, scores, 0.0)).sum(axis=1)


def bound(added: Any) -> tuple[float, float]:
    """The mean, and its one-sided 95% normal bound.

    >>> [round(end, 3) for end in bound(np.array([0.0, 2.0]))]
    [1.0, -0.645]
    """
    mean, error = float(np.mean(added)), float(np.std(added, ddof=1) / np.sqrt(len(added)))
    return mean, mean - float(ndtri(0.95)) * error
