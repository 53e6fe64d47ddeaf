"""Fitted-Q evaluation of many policies on the same logs.

Each step has quadratic ridge regressions, as in `learners.step_regression`. The regressions of all policies share
their features and differ only in what they predict, so they are decomposed once, and every further policy costs a few
products. An episode's values come from regressions that have not seen it, and are held within the range of what the
logs have shown from that step on, so that nothing is believed because of an extrapolation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.data.trajectories import Trajectories
from poela.learners.step_regression import FEWEST_ROWS, quadratic_features

FOLDS = 5
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
MOST_FEATURES_WITH_HISTORY = 8  # wider contexts are taken to tell the past themselves
CACHE_NUMBERS = 2.5e7  # 200 MB; larger problems are decomposed anew for each policy


@dataclass(frozen=True, eq=False)
class _Ridge:
    """A ridge regression, decomposed and waiting for targets; the penalty is chosen by leaving each row out in turn."""

    scores: FloatArray  # [rows, components]
    back: FloatArray  # [features, components]: from components to coefficients
    inverse: FloatArray  # [penalties, components]
    kept: FloatArray  # [penalties, rows]: 1 − leverage

    @classmethod
    def of(cls, features: FloatArray) -> "_Ridge":
        if len(features) >= features.shape[1]:
            squares, back = np.linalg.eigh(features.T @ features)
            scores = features @ back
        else:
            squares, left = np.linalg.eigh(features @ features.T)
            some = squares > 1e-10 * max(float(squares[-1]), 1e-300)
            squares, left = squares[some], left[:, some]
            scores = left * np.sqrt(squares)
            back = features.T @ (left / np.sqrt(squares))
        inverse = 1 / (np.maximum(squares, 0.0) + np.array(PENALTIES)[:, None])
        kept = np.maximum(1 - inverse @ np.square(scores).T, 1e-6)
        return cls(scores, back, inverse, kept)

    @property
    def numbers(self) -> int:
        return self.scores.size + self.back.size + self.inverse.size + self.kept.size

    def coefficients(self, targets: FloatArray) -> FloatArray:
        """[features]."""
        solved = self.inverse * (self.scores.T @ targets)  # [penalties, components]
        left_out = (targets - solved @ self.scores.T) / self.kept
        return np.asarray(self.back @ solved[np.square(left_out).sum(axis=1).argmin()])


@dataclass(frozen=True, eq=False)
class _Regression:
    """The ridges of one step in one fold: one for all actions, and one for each action on what that leaves over."""

    rows: IntArray  # fitted on
    features: FloatArray  # of `rows`
    asked: FloatArray  # features of all rows of the step
    shared: _Ridge
    of_action: dict[int, tuple[BoolArray, _Ridge]]  # which of `rows` took it

    @property
    def numbers(self) -> int:
        ridges = [self.shared, *(ridge for _, ridge in self.of_action.values())]
        return self.features.size + self.asked.size + sum(ridge.numbers for ridge in ridges)

    def predict(self, targets: FloatArray, n_actions: int) -> FloatArray:
        """Q [asked, A]."""
        base = targets.mean()
        shared = self.shared.coefficients(targets - base)
        shared[0] += base
        left = targets - self.features @ shared
        coefficients = np.tile(shared, (n_actions, 1))
        for action, (took, ridge) in self.of_action.items():
            coefficients[action] += ridge.coefficients(left[took])
        return np.asarray(self.asked @ coefficients.T)


class ValueModel:
    """Cross-fitted Q along the logs, under any policy.

    >>> rewards = np.arange(40) % 2 * 1.0
    >>> logs = Trajectories(np.zeros((40, 1)), np.arange(40) % 2, rewards, np.arange(41))
    >>> ValueModel(logs).q(np.full((40, 2), 0.5)).mean(axis=0).round(1)
    array([0., 1.])
    """

    def __init__(self, logs: Trajectories, discount: float = 1.0, seed: int = 0) -> None:
        self._logs, self._discount = logs, discount
        self._folds = min(FOLDS, logs.n_episodes)
        fold_of = np.random.default_rng(seed).permutation(logs.n_episodes) % self._folds
        self._fold_of_step = fold_of[logs.episode_of_step]
        self._steps = logs.step_numbers
        self._last = np.zeros(logs.n_steps, np.bool_)
        self._last[logs.offsets[1:] - 1] = True
        self._lowest, self._highest = self._ranges()
        self._contexts = _with_history(logs).contexts
        spread = self._contexts.std(axis=0, dtype=np.float64)
        self._centre = self._contexts.mean(axis=0, dtype=np.float64)
        self._scale = np.where(spread > 1e-6 * (1 + np.abs(self._centre)), spread, np.inf)
        self._cache: dict[tuple[int, int], _Regression] = {}
        self._cached_numbers = 0

    def q(self, probabilities: FloatArray) -> FloatArray:
        """Q [N, A] of the policy that has these probabilities [N, A] along the logs."""
        logs = self._logs
        result = np.zeros((logs.n_steps, logs.n_actions))
        for fold in range(self._folds):
            targets, values = np.array(logs.rewards), np.zeros(logs.n_steps)
            for step, rows in self._backwards():
                regression = self._regression(fold, step, rows)
                going_on = rows[~self._last[rows]]
                targets[going_on] += self._discount * values[going_on + 1]
                found = regression.predict(targets[regression.rows], logs.n_actions)
                q = np.clip(found, self._lowest[step], self._highest[step])
                values[rows] = (probabilities[rows] * q).sum(axis=1)
                unseen = self._fold_of_step[rows] == fold
                result[rows[unseen]] = q[unseen]
        return result

    def _backwards(self) -> Iterator[tuple[int, IntArray]]:
        order = np.argsort(self._steps, kind="stable")
        groups = np.split(order, np.searchsorted(self._steps[order], np.arange(1, self._steps.max() + 1)))
        return ((step, groups[step]) for step in reversed(range(len(groups))))

    def _regression(self, fold: int, step: int, rows: IntArray) -> _Regression:
        if (fold, step) in self._cache:
            return self._cache[fold, step]
        fitted = self._rows_to_fit(fold, step, rows)
        features = self._features(fitted)
        actions = self._logs.actions[fitted]
        of_action = {
            int(action): (actions == action, _Ridge.of(features[actions == action])) for action in np.unique(actions)
        }
        found = _Regression(fitted, features, self._features(rows), _Ridge.of(features), of_action)
        if self._cached_numbers + found.numbers <= CACHE_NUMBERS:
            self._cache[fold, step] = found
            self._cached_numbers += found.numbers
        return found

    def _features(self, rows: IntArray) -> FloatArray:
        return quadratic_features(self._contexts[rows], self._centre, self._scale)

    def _rows_to_fit(self, fold: int, step: int, rows: IntArray) -> IntArray:
        """The step's rows outside the fold; where few episodes get that far, those of the steps nearest to it too."""
        fitted: IntArray = rows[self._fold_of_step[rows] != fold]
        needed = min(FEWEST_ROWS, self._logs.n_episodes // 2)
        if len(fitted) >= max(needed, 1):
            return fitted
        outside = self._fold_of_step != fold
        others = np.flatnonzero(outside & (self._steps > step))
        if not len(fitted) and not len(others):
            others = np.flatnonzero(outside & (self._steps < step))
        nearest = others[np.argsort(np.abs(self._steps[others] - step), kind="stable")]
        return np.asarray(np.concatenate([fitted, nearest])[: max(needed, 1)], np.int64)

    def _ranges(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest return to go that the logs show, for each step."""
        to_go = np.array(self._logs.rewards)
        horizon = int(self._steps.max()) + 1
        lowest, highest = np.empty(horizon), np.empty(horizon)
        for step, rows in self._backwards():
            going_on = rows[~self._last[rows]]
            to_go[going_on] += self._discount * to_go[going_on + 1]
            lowest[step], highest[step] = to_go[rows].min(), to_go[rows].max()
        return lowest, highest


def _with_history(logs: Trajectories) -> Trajectories:
    """The last two steps and the first one, as features: what a value depends on need not show in one context."""
    if logs.n_features > MOST_FEATURES_WITH_HISTORY or logs.lengths.max() < 2:
        return logs
    return logs.with_history(steps=2, initial=True)
