"""Fitted-Q evaluation of many policies on the same logs.

Each step has quadratic ridge regressions, as in `learners.step_regression`. The regressions of all policies share
their features and differ only in what they predict, so they are decomposed once, and every further policy costs a few
products. An episode's values come from regressions that have not seen it, and are held within the range of what the
logs have shown from that step on, so that nothing is believed because of an extrapolation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.interruption import safe_point
from poela.data.trajectories import Trajectories
from poela.learners.step_regression import FEWEST_ROWS, quadratic_features

FOLDS = 2
NO_FOLD = -1
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
MOST_FEATURES_WITH_HISTORY = 8  # wider contexts are taken to tell the past themselves
CACHE_NUMBERS = 5e7  # 400 MB; what goes beyond is solved anew for each policy


@dataclass(frozen=True, eq=False)
class _Regression:
    """The ridges of one step in one fold, solved but for their targets.

    One is for all actions together, and one for each action on what that leaves over. A solver takes features' products
    with targets to coefficients.
    """

    fitted: IntArray  # which of the step's (or of all) rows
    features: FloatArray  # of those rows
    shared: FloatArray  # a solver [p, p]
    of_action: dict[int, tuple[slice, FloatArray]]  # where its rows are (fitted rows stand action by action), a solver

    @property
    def numbers(self) -> int:
        return self.shared.size * (1 + len(self.of_action)) + self.features.size

    @classmethod
    def of(cls, fitted: IntArray, features: FloatArray, actions: IntArray, typical: FloatArray) -> "_Regression":
        """With penalties that suit typical targets."""
        base = typical.mean()
        shared = _solver(features, typical - base)
        left = typical - base - features @ (shared @ (features.T @ (typical - base)))
        of_action = {}
        for action in np.unique(actions):
            rows = slice(*np.searchsorted(actions, [action, action + 1]))
            of_action[int(action)] = (rows, _solver(features[rows], left[rows]))
        return cls(fitted, features, shared, of_action)

    def coefficients(self, targets: FloatArray, n_actions: int) -> FloatArray:
        """[A, p, P], for the targets [rows, P] of P policies."""
        base = targets.mean(axis=0)
        shared = self.shared @ (self.features.T @ (targets - base))
        shared[0] += base
        left = targets - self.features @ shared
        found = np.tile(shared, (n_actions, 1, 1))
        for action, (rows, solver) in self.of_action.items():
            found[action] += solver @ (self.features[rows].T @ left[rows])
        return found

    def weights(self, asked: FloatArray) -> FloatArray:
        """The weight [rows, P] of each fitted row's target in Σ_a asked_a · coefficients_a, for sums [A, p, P]."""
        of_action = np.zeros((len(self.features), asked.shape[2]))
        for action, (rows, solver) in self.of_action.items():
            of_action[rows] = self.features[rows] @ (solver @ asked[action])
        total = asked.sum(axis=0)
        found = of_action + self.features @ (self.shared @ (total - self.features.T @ of_action))
        # The mean of the targets is taken off before the ridges and given back to the intercept.
        return np.asarray(found + (total[0] - found.sum(axis=0)) / len(found))


def _solver(features: FloatArray, targets: FloatArray) -> FloatArray:
    """(FᵀF + λI)⁻¹ with the λ that predicts best when each row is left out in turn."""
    squares, vectors = np.linalg.eigh(features.T @ features)
    scores = features @ vectors
    inverse = 1 / (np.maximum(squares, 0.0) + np.array(PENALTIES)[:, None])  # [penalties, components]
    predicted = (inverse * (scores.T @ targets)) @ scores.T
    kept = np.maximum(1 - inverse @ np.square(scores).T, 1e-6)
    best = np.square((targets - predicted) / kept).sum(axis=1).argmin()
    return np.asarray((vectors * inverse[best]) @ vectors.T)


class ValueModel:
    """Cross-fitted Q along the logs, under any policies.

    The first `never_asked` episodes only help to fit: their own values are not wanted, so they need no fold.

    >>> rewards = np.arange(40) % 2 * 1.0
    >>> logs = Trajectories(np.zeros((40, 1)), np.arange(40) % 2, rewards, np.arange(41))
    >>> ValueModel(logs).q(np.full((1, 40, 2), 0.5))[0].mean(axis=0).round(1)
    array([0., 1.])
    """

    def __init__(self, logs: Trajectories, discount: float = 1.0, never_asked: int = 0, seed: int = 0) -> None:
        self._logs, self._discount = logs, discount
        asked = logs.n_episodes - never_asked
        self._folds = min(FOLDS, asked)
        folds = np.random.default_rng(seed).permutation(asked) % self._folds
        self._fold_of_step = np.concatenate([np.full(never_asked, NO_FOLD), folds])[logs.episode_of_step]
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
        # Penalties are chosen once, on the logging policy's values; those of other policies are about as smooth.
        self._typical = np.zeros((self._folds, logs.n_steps))
        self._backward(_logging_probabilities(logs)[None], self._typical)

    def q(self, probabilities: FloatArray) -> FloatArray:
        """Q [P, N, A] of the policies that have these probabilities [P, N, A] along the logs."""
        return self._backward(probabilities)

    def squared_weights(self, probabilities: FloatArray) -> FloatArray:
        """Σ_i d_ti² [P, H], where d are the weights of episodes in the fitted values of policies, step by step.

        A fitted value is a weighted sum of rewards, as every linear regression is. Where the policy stays with the
        logs the weights are near 1/n; where the regressions extrapolate they are large, of both signs, and rest on a
        few episodes. Times the variance of a step's surprises they give the variance of the fitted value, whose ratio
        to that of a plain mean is the restricted χ²-divergence of Duan, Jia & Wang (2020).
        """
        policies = len(probabilities)
        squares = np.zeros((policies, int(self._steps.max()) + 1))
        steps = sorted(self._backwards())
        rows = steps[0][1]
        rows = rows[self._fold_of_step[rows] != NO_FOLD]
        weights = np.full((len(rows), policies), 1 / len(rows))
        for step, rows_of_step in steps:
            chosen = weights.T[:, :, None] * probabilities[:, rows]  # [P, rows, A]
            asked = np.tensordot(self._features(rows), chosen, axes=(0, 1)).transpose(2, 0, 1)  # [A, p, P]
            regression = self._regression(0, step, rows_of_step)
            weights = regression.weights(asked)
            squares[:, step] = np.square(weights).sum(axis=0)
            going_on = ~self._last[regression.fitted]
            rows, weights = regression.fitted[going_on] + 1, weights[going_on]
        return squares

    def _backward(self, probabilities: FloatArray, typical: FloatArray | None = None) -> FloatArray:
        """From the last step to the first; the targets [folds, N] of the first policy are noted in `typical`."""
        logs, policies = self._logs, len(probabilities)
        result = np.zeros((policies, logs.n_steps, logs.n_actions))
        targets = np.tile(logs.rewards, (self._folds, policies, 1))
        values = np.zeros((self._folds, policies, logs.n_steps))
        for step, rows in self._backwards():
            safe_point()
            features = self._features(rows)
            going_on = rows[~self._last[rows]]
            targets[:, :, going_on] += self._discount * values[:, :, going_on + 1]
            if typical is not None:
                typical[:, rows] = targets[:, 0, rows]
            for fold in range(self._folds):
                regression = self._regression(fold, step, rows)
                coefficients = regression.coefficients(targets[fold][:, regression.fitted].T, logs.n_actions)
                found = np.einsum("mp,apk->kma", features, coefficients, optimize=True)
                q = np.clip(found, self._lowest[step], self._highest[step])
                values[fold][:, rows] = (probabilities[:, rows] * q).sum(axis=2)
                unseen = self._fold_of_step[rows] == fold
                result[:, rows[unseen]] = q[:, unseen]
        return result

    def _backwards(self) -> Iterator[tuple[int, IntArray]]:
        order = np.argsort(self._steps, kind="stable")
        groups = np.split(order, np.searchsorted(self._steps[order], np.arange(1, self._steps.max() + 1)))
        return ((step, groups[step]) for step in reversed(range(len(groups))))

    def _regression(self, fold: int, step: int, rows: IntArray) -> _Regression:
        if (fold, step) in self._cache:
            return self._cache[fold, step]
        fitted = self._rows_to_fit(fold, step, rows)
        fitted = fitted[np.argsort(self._logs.actions[fitted], kind="stable")]
        found = _Regression.of(fitted, self._features(fitted), self._logs.actions[fitted], self._typical[fold, fitted])
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


def _logging_probabilities(logs: Trajectories) -> FloatArray:
    """Of the logging policy [N, A]: as known, or else all on the logged action."""
    if logs.propensities is not None and logs.propensities.ndim == 2:
        return logs.propensities
    return np.eye(logs.n_actions)[logs.actions]


def _with_history(logs: Trajectories) -> Trajectories:
    """The last two steps and the first one, as features: what a value depends on need not show in one context."""
    if logs.n_features > MOST_FEATURES_WITH_HISTORY or logs.lengths.max() < 2:
        return logs
    return logs.with_history(steps=2, initial=True)
