"""Regressions of one step, solved but for what they predict: one decomposition serves any number of targets.

Targets stand in the columns of [rows, P] and Q in [A, rows, P], so that taking rows copies whole lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray, readonly
from poela.regression.ridge import MOST_LEFT_OUT, PENALTIES, Features, Inputs, Ridge
from poela.regression.step_features import (
    FARTHEST,
    Coding,
    linear_features,
    n_quadratic,
    pairs_of,
    quadratic_features,
    with_fixed,
)
from poela.regression.step_values import CodedStep, RidgeStep, StepModel

Regressor = Literal["ridge", "boosted"]
ROWS_PER_FEATURE = 1.5
ALL_ACTIONS = -1
MOST_AT_HAND = (
    1 << 22
)  # features of a step that are at hand while it is fitted (32 MB); more are computed block by block
# Which of the penalties the regression of each action takes, and that of all actions together: [P], or [1] for all.
Chosen = Mapping[int, IntArray]


class Columns(Protocol):
    """One step's Q for each of P targets."""

    @property
    def chosen(self) -> Chosen:
        """The penalties that were taken."""

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""

    def model(self, column: int) -> StepModel:
        """That of one target, to be kept."""


class StepRegression(Protocol):
    """A regression of Q at one step, on rows that are known, for targets that are not yet."""

    def features(self, contexts: Float32Array) -> Features:
        """What it looks at."""

    def fit(self, features: Features, targets: FloatArray, chosen: Chosen | None = None) -> Columns:
        """For targets [rows, P] and the features of the contexts that it was prepared for."""

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""


@dataclass(frozen=True, eq=False)
class RidgeColumns:
    """Quadratic ridge regressions of one step for P targets."""

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    coefficients: FloatArray  # [A, p, P]
    chosen: Chosen
    coding: Coding | None = None
    linear: bool = False  # then p is 1 + d

    def q(self, inputs: Inputs) -> FloatArray:
        """[A, m, P]."""
        return np.asarray(inputs @ self.coefficients)

    def model(self, column: int) -> RidgeStep | CodedStep:
        """That of one target, to be kept."""
        own = self.coefficients[:, :, column]
        if self.linear:  # products count nothing
            own = np.pad(own, [(0, 0), (0, n_quadratic(len(self.center)) - own.shape[1])])
        kept = [readonly(part, np.float64) for part in (self.center, self.scale, own)]
        return RidgeStep(*kept) if self.coding is None else CodedStep(self.coding, *kept)

    def at_step(self, number: int) -> "RidgeColumns":
        """Without the last column of the contexts, which is the number of the step."""
        coding = self.coding and replace(self.coding, n_features=self.coding.n_features - 1)
        place = len(self.center) - 1 if coding is None else len(coding.plain)
        pairs = pairs_of(place + 1) if self.coding is None else self.coding.pairs
        left = pairs_of(place) if coding is None else coding.pairs
        z = float(np.clip((number - self.center[place]) / self.scale[place], -FARTHEST, FARTHEST))
        coefficients = with_fixed(self.coefficients, len(self.center), pairs, left, place, z)
        center, scale = np.delete(self.center, place), np.delete(self.scale, place)
        return RidgeColumns(center, scale, coefficients, self.chosen, coding)


@dataclass(frozen=True, eq=False)
class OwnRidge:
    """The regression of one action on what that of all actions leaves over."""

    rows: slice
    width: int  # how many of the features it looks at
    ridge: Ridge
    narrow: FloatArray | None  # [k, p]: all features in the space of its directions, where it looks at few

    @classmethod
    def of(
        cls, rows: slice, width: int, features: Features, gram: FloatArray, penalties: Sequence[float]
    ) -> "OwnRidge":
        """On features of its rows, of which gram is the Gram matrix [p, p]."""
        seen = features.part(rows, width)
        ridge = Ridge.of(seen, penalties, gram[:width, :width])
        if width == features.width:
            return cls(rows, width, ridge, None)
        every = gram[:width] if ridge.directions is None else features.part(rows).all()
        return cls(rows, width, ridge, (ridge.lift if ridge.directions is None else ridge.directions).T @ every)

    @property
    def against(self) -> FloatArray:
        """[k, p]: all features in the space of its directions."""
        return self.ridge.held[:, None] * self.ridge.lift.T if self.narrow is None else self.narrow

    def best(self, features: Features, targets: FloatArray, shared: FloatArray, projected: FloatArray) -> IntArray:
        """The penalties [P] that suit best what the coefficients `shared` leave over of targets [all rows, P]."""
        left = targets[self.rows].copy()
        most = MOST_LEFT_OUT if self.width == features.width else np.inf  # else blocks are others
        for rows, block in features.part(self.rows).blocks(most):
            left[rows] -= block @ shared
        return self.ridge.best(features.part(self.rows, self.width), left, projected)

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.ridge.numbers + (0 if self.narrow is None else self.narrow.size)


@dataclass(frozen=True, eq=False)
class StepRidge:
    """One ridge for all actions together, then one for each action on what it leaves over.

    So an action seen often gets its own regression, one seen rarely stays near the average, one never seen is average.
    An action with few rows for each quadratic feature gets a linear one: else the best of several actions is too often
    the one whose regression errs highest, and backward induction adds up such errors step by step.
    """

    center: FloatArray  # [d]
    scale: FloatArray  # [d]
    shared: Ridge
    of_action: Mapping[int, OwnRidge]
    n_actions: int
    coding: Coding | None = None
    linear: bool = False  # without products

    @classmethod
    def of(
        cls,
        contexts: Float32Array,
        actions: IntArray,
        n_actions: int,
        penalties: Sequence[float] = PENALTIES,
        coding: Coding | None = None,
        *,
        linear: bool = False,
    ) -> "StepRidge":
        """On contexts [rows, d] and the actions [rows] taken there, which stand in rising order."""
        columns = np.asarray(contexts if coding is None else coding.expand(contexts), np.float64)
        center, spread = columns.mean(axis=0), columns.std(axis=0)
        scale = np.where(spread > 1e-6 * (1 + np.abs(center)), spread, np.inf)
        features = _features(contexts, center, scale, coding, linear=linear)
        taken, starts = np.unique(actions, return_index=True)
        ends = [slice(int(start), int(end)) for start, end in pairwise([*starts, len(actions)])]
        grams = np.zeros((len(taken), features.width, features.width))
        lowest, highest = np.full((2, features.width), [[np.inf], [-np.inf]])
        for rows, block in features.blocks():
            lowest, highest = np.minimum(lowest, block.min(axis=0)), np.maximum(highest, block.max(axis=0))
            for place, part in _parts(rows, ends):
                grams[place] += block[part].T @ block[part]
        informative = int((highest > lowest).sum())
        of_action = {}
        for action, rows, gram in zip(taken, ends, grams, strict=True):
            enough = rows.stop - rows.start >= ROWS_PER_FEATURE * informative
            width = features.width if enough else 1 + columns.shape[1]
            of_action[int(action)] = OwnRidge.of(rows, width, features, gram, penalties)
        shared = Ridge.of(features, penalties, grams.sum(axis=0))
        return cls(center, scale, shared, of_action, n_actions, coding, linear)

    def features(self, contexts: Float32Array) -> Features:
        """Quadratic features, or linear ones."""
        return _features(contexts, self.center, self.scale, self.coding, linear=self.linear)

    def fit(self, features: Features, targets: FloatArray, chosen: Chosen | None = None) -> RidgeColumns:
        """For targets [rows, P], each with the penalties that suit it best, or all with those chosen before."""
        mean = targets.mean(axis=0)
        centred = targets - mean
        # One look at the rows serves the ridge of all actions and those of each: what the first takes off the targets
        # of the others is known from their decompositions.
        projected = self._projected(features, centred)
        taken = dict(chosen or {ALL_ACTIONS: self.shared.best(features, centred, projected[ALL_ACTIONS])})
        shared = self.shared.coefficients(projected[ALL_ACTIONS], taken[ALL_ACTIONS])
        coefficients = np.repeat(shared[None], self.n_actions, axis=0)
        for action, own in self.of_action.items():
            left = projected[action] - own.against @ shared
            if chosen is None:
                taken[action] = own.best(features, centred, shared, left)
            coefficients[action, : own.width] += own.ridge.coefficients(left, taken[action])
        coefficients[:, 0] += mean
        return RidgeColumns(self.center, self.scale, coefficients, taken, self.coding, self.linear)

    def _projected(self, features: Features, targets: FloatArray) -> dict[int, FloatArray]:
        """Targets [rows, P] in the space of the directions of each ridge."""
        owners = list(self.of_action.values())
        crossed = np.zeros((len(owners), features.width, targets.shape[1]))
        for rows, block in features.blocks():
            for place, part in _parts(rows, [own.rows for own in owners]):
                crossed[place] += block[part].T @ targets[rows][part]
        projected = {ALL_ACTIONS: _in_directions(self.shared, crossed.sum(axis=0), targets)}
        for action, own, sums in zip(self.of_action, owners, crossed, strict=True):
            projected[action] = _in_directions(own.ridge, sums[: own.width], targets[own.rows])
        return projected

    def weights(self, features: Features, wanted: FloatArray, chosen: Chosen) -> FloatArray:
        """What each row's target weighs [rows, P] in the sums Σ_a asked_a · coefficients_a, for asked [A, p, P]."""
        weights = np.zeros((len(features), wanted.shape[2]))
        total = wanted.sum(axis=0)
        left = total.copy()
        for action, own in self.of_action.items():
            shares = own.ridge.shares(wanted[action, : own.width], chosen[action])
            own.ridge.add_weights(weights[own.rows], features.part(own.rows, own.width), shares)
            left -= own.against.T @ shares
        self.shared.add_weights(weights, features, self.shared.shares(left, chosen[ALL_ACTIONS]))
        # The mean of the targets is taken off before the ridges and given back to the intercept.
        weights += (total[0] - weights.sum(axis=0)) / len(weights)
        return weights

    def settle(self) -> None:
        """Forget what only the choice of penalties needs: it grows with the rows."""
        for ridge in (self.shared, *(own.ridge for own in self.of_action.values())):
            ridge.unleveraged.clear()

    @property
    def numbers(self) -> int:
        """How many numbers are kept in memory."""
        return self.shared.numbers + sum(own.numbers for own in self.of_action.values())


def _features(
    contexts: Float32Array, center: FloatArray, scale: FloatArray, coding: Coding | None, *, linear: bool = False
) -> Features:
    """Quadratic features of contexts [rows, d], or linear ones."""
    width = n_quadratic(contexts.shape[1]) if coding is None else coding.n_products
    compute = quadratic_features if coding is None else coding.features
    if linear:
        width, compute = 1 + contexts.shape[1], linear_features
    if len(contexts) * width <= MOST_AT_HAND:
        return Features.known(compute(contexts, center, scale))
    return Features(slice(0, len(contexts)), width, lambda rows: compute(contexts[rows], center, scale))


def _parts(block: slice, of_actions: Sequence[slice]) -> Iterator[tuple[int, slice]]:
    """The actions whose rows are in a block, each with the part of the block that holds them."""
    for place, rows in enumerate(of_actions):
        start, stop = max(rows.start, block.start), min(rows.stop, block.stop)
        if start < stop:
            yield place, slice(start - block.start, stop - block.start)


def _in_directions(ridge: Ridge, crossed: FloatArray, targets: FloatArray) -> FloatArray:
    """Targets [rows, P] in the space of the directions [k, P], with crossed = features.T @ targets [p, P]."""
    return np.asarray(ridge.lift.T @ crossed if ridge.directions is None else ridge.directions.T @ targets)
