"""Backward induction over a finite horizon: one regression of Q for each step, from the last to the first.

No Markov assumption hides in a shared time index: each step has its own regression. What is worth following a step is
the caller's choice (`best`, `soft`, `expected`), for many policies or temperatures at once: they differ only in what
the regressions predict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.ragged import returns_to_go, rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.regression.departures import Departure
from poela.regression.ridge import PENALTIES, Features
from poela.regression.step_boosted import StepBoosted
from poela.regression.step_features import Coding
from poela.regression.step_foreign import Predictor, StepForeign
from poela.regression.step_regression import (
    Chosen,
    Columns,
    RidgeColumns,
    StepRegression,
    StepRidge,
)
from poela.regression.step_values import StepQ, rows_by_step

# A step that fewer episodes reach borrows the rows of the steps after it: two rows are no regression.
FEWEST_ROWS = 50
# Pooled regressions borrow as many as so many steps of all episodes would have.
POOLED_STEPS = 4
Kind = Literal["linear", "ridge", "pooled", "coded", "shallow", "boosted"]
# The values [m, P] of being at rows [m], from their Q [A, m, P].
Following = Callable[[IntArray, FloatArray], FloatArray]
T = TypeVar("T")
NO_ROWS = np.empty(0, np.int64)
MOST_NUMBERS = 2e7  # values that are computed together: 160 MB
MOST_PREPARED = 5e7  # 400 MB of prepared regressions; what goes beyond is prepared anew each time


def best(mask: BoolArray | None = None) -> Following:
    """Of the best action, among those that `mask` [N, A] allows."""
    if mask is None:
        return lambda rows, q: q.max(axis=0)
    return lambda rows, q: np.where(mask[rows].T[:, :, None], q, -np.inf).max(axis=0)


def soft(chances: FloatArray, temperatures: Sequence[float]) -> Following:
    """Of the most that can be gained after a price of τ for each nat of departure from `chances` [N, A].

    A context is worth τ·log Σ_a chances(a)·exp(Q(a)/τ), in one column for each temperature τ.
    """
    tau = np.asarray(temperatures, np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(chances).T[:, :, None]  # [A, N, 1]
    return lambda rows, q: tau * np.logaddexp.reduce(logs[:, rows] + q / tau, axis=0)


def departing(behavior: FloatArray, counts: FloatArray, departures: Sequence[Departure]) -> Following:
    """Of departing so from `behavior` [N, A], given counts [N, A]: in one column for each departure."""

    def values(rows: IntArray, q: FloatArray) -> FloatArray:
        values_here = np.empty(q.shape[1:])
        for column, departure in enumerate(departures):
            own = np.ascontiguousarray(q[:, :, column].T)
            values_here[:, column] = (departure.act(own, behavior[rows], counts[rows]) * own).sum(axis=1)
        return values_here

    return values


def expected(probabilities: FloatArray) -> Following:
    """Of policies that have these probabilities [A, N, P]."""
    return lambda rows, q: np.einsum("amp,amp->mp", probabilities[:, rows], q)


@dataclass(frozen=True, eq=False)
class FittedStep:
    """Q at one step for P columns, between bounds where it is held."""

    step: int
    regression: StepRegression
    columns: Columns
    bounds: tuple[float, float] | None = None

    def q(self, features: Features) -> Iterator[tuple[slice, FloatArray]]:
        """[A, m, P] of some rows at a time."""
        for rows, inputs in features.blocks():
            q = self.columns.q(inputs)
            yield rows, q if self.bounds is None else np.clip(q, *self.bounds, out=q)


class BackwardInduction:
    """The regressions of every step of these episodes, prepared once for any number of passes.

    With `held`, Q at a step stays within the range of the returns to go that its rows have shown, so that nothing is
    believed because of an extrapolation. Of the ridge `penalties` each regression takes the one that predicts best when
    each row is left out in turn. Ridges are quadratic, or "linear"; "pooled" ones borrow the rows of later steps, which
    tells more about what actions do where that changes little from step to step, and look at the step's number; "coded"
    ones do so too, with indicators for columns of codes; "boosted" are trees, "shallow" ones have at most three tests
    in a row; an object with `fit` and `predict` is fitted on contexts and one column for each action. Prepared
    regressions of up to `keep` numbers are kept for the next pass. `episodes` are the numbers of those to fit on; by
    default all.

    >>> contexts, actions = np.zeros((400, 1)), np.arange(400) // 2 % 2
    >>> logs = Trajectories(contexts, actions, np.where(actions == 1, 3.0, 1.0), np.arange(0, 401, 2))
    >>> ((values, _),) = BackwardInduction(logs).values(best())
    >>> values.q_at(np.zeros((1, 1), np.float32), np.array([1])).round(1)
    array([[1., 3.]])
    """

    def __init__(
        self,
        train: Trajectories,
        *,
        regressor: Kind | Predictor = "ridge",
        discount: float = 1.0,
        penalties: Sequence[float] = PENALTIES,
        held: bool = False,
        keep: float = MOST_PREPARED,
        seed: int = 0,
        episodes: IntArray | None = None,
    ) -> None:
        if isinstance(regressor, str) and regressor not in get_args(Kind):
            raise InputError(f"regressor {regressor!r} is unknown: choose from {', '.join(get_args(Kind))}")
        self._train, self._regressor, self._discount = train, regressor, discount
        self._penalties, self._room, self._seed = penalties, keep, seed
        every = np.arange(train.n_episodes) if episodes is None else episodes
        self._n_episodes, (rows, _) = len(every), rows_of_episodes(every, train.offsets)
        # By action within each step, as the regressions want them.
        rows = rows[np.argsort(train.actions[rows], kind="stable")]
        self._steps = [rows[places] for _, places in rows_by_step(train.step_numbers[rows])]
        # Where in the step before those rows stand that each step follows.
        self._going_on = [_places_before(before, after) for before, after in pairwise(self._steps)]
        self._going_on.append(np.empty(0, np.int32))
        self._rows_before = np.cumsum([0, *map(len, self._steps)])  # each step, and after the last
        self._last = np.zeros(train.n_steps, np.bool_)
        self._last[train.offsets[1:] - 1] = True
        self._pools = regressor in ("pooled", "coded")
        # Pooled rows look at the number of their step, unless their history tells it.
        self._counts = self._pools and self.horizon > 1 and "elapsed_steps" not in train.feature_names
        numbers = train.step_numbers[:, None].astype(np.float32)
        self._contexts = np.hstack([train.contexts, numbers]) if self._counts else train.contexts
        self._coding = Coding.of(train.contexts[rows]) if regressor == "coded" else None
        if self._coding is not None and self._counts:
            self._coding = self._coding.with_step()
        self._to_go = returns_to_go(train.rewards, train.offsets, discount) if held else None
        self._prepared: dict[int, StepRegression] = {}
        self._chosen: dict[int, Chosen] = {}

    @property
    def contexts(self) -> Float32Array:
        """What Q looks at [N, d]: of every episode of the log, also of those that it is not fitted on."""
        return self._train.contexts

    @property
    def horizon(self) -> int:
        """How many steps the longest episode has."""
        return len(self._steps)

    def values(self, following: Following, columns: int = 1) -> list[tuple[StepQ, FloatArray]]:
        """For each column Q to be kept, and its values [N, A] in training."""
        train = self._train
        steps: list[Columns] = []
        q = np.empty((train.n_actions, train.n_steps, columns))

        def noted(rows: IntArray, here: FloatArray) -> FloatArray:
            q[:, rows] = here
            return following(rows, here)

        for fitted in self.backward(noted, columns):
            steps.insert(0, self._kept(fitted))
        models = [tuple(step.model(column) for step in steps) for column in range(columns)]
        names = train.n_actions, train.feature_names, train.action_names
        return [(StepQ(own, *names), q[:, :, column].T) for column, own in enumerate(models)]

    def values_along(
        self, following: Callable[[Sequence[T]], Following], path: Sequence[T]
    ) -> Iterator[tuple[StepQ, FloatArray]]:
        """The same for each point of a path, one column each: as many at once as memory allows."""
        together = max(int(MOST_NUMBERS / (self._train.n_steps * self._train.n_actions)), 1)
        for start in range(0, len(path), together):
            some = path[start : start + together]
            yield from self.values(following(some), len(some))

    def backward(self, following: Following, columns: int = 1) -> Iterator[FittedStep]:
        """Each step from the last to the first, fitted for that many columns; `following` sees some rows at a time."""
        train = self._train
        carried = np.zeros((0, columns))
        targets: dict[int, FloatArray] = {}  # of each step, since what lies together is quick to reach
        for step in reversed(range(self.horizon)):
            safe_point()
            rows, pool = self._steps[step], self.pool(step)
            targets[step] = np.repeat(train.rewards[rows, None], columns, axis=1)
            targets[step][self._going_on[step]] += carried
            regression = self.regression(step)
            features = regression.features(self._contexts[pool])
            fitted = regression.fit(features, self._pooled(step, targets), self._chosen.get(step))
            fitted_step = FittedStep(step, regression, fitted, self._bounds(pool))
            own = features if pool is rows else regression.features(self._contexts[rows])
            carried = np.empty((len(rows), columns))
            for some, q in fitted_step.q(own):
                np.multiply(following(rows[some], q), self._discount, out=carried[some])
            yield fitted_step

    def _kept(self, fitted: FittedStep) -> Columns:
        """Of contexts alone: the number of the step is known."""
        if not self._counts:
            return fitted.columns
        assert isinstance(fitted.columns, RidgeColumns)
        return fitted.columns.at_step(fitted.step)

    def elsewhere(self, rows: IntArray) -> dict[int, IntArray]:
        """Rows of other episodes, by the step whose regression values them; the last values later ones too."""
        last = np.minimum(self._train.step_numbers[rows], self.horizon - 1)
        return {step: rows[places] for step, places in rows_by_step(last)}

    def valued(
        self, elsewhere: Mapping[int, IntArray], following: Following, columns: int = 1
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows that were not fitted on (see `elsewhere`), some at a time, with their Q [A, m, P]."""
        for fitted in self.backward(following, columns):
            rows = elsewhere.get(fitted.step, NO_ROWS)
            for some, q in fitted.q(fitted.regression.features(self._contexts[rows])):
                yield rows[some], q

    def fix_penalties(self, following: Following) -> None:
        """Choose the penalties here and now, by these values (of one column), for whatever comes later."""
        chosen: dict[int, Chosen] = {}
        for fitted in self.backward(following):
            chosen[fitted.step] = fitted.columns.chosen
            if isinstance(fitted.regression, StepRidge):
                fitted.regression.settle()
        self._chosen = chosen

    def weights(self, step: int, rows: FloatArray) -> FloatArray:
        """With fixed penalties, what the target of each row of the pool weighs [rows, P] in Σ_a asked_a·coefficients_a.

        `rows` is [A, p, P]; regressions must be ridges, whose coefficients are sums of targets.
        """
        regression = self.regression(step)
        assert isinstance(regression, StepRidge)
        features = regression.features(self._contexts[self.pool(step)])
        return regression.weights(features, rows, self._chosen[step])

    def going_on(self, step: int) -> tuple[IntArray, BoolArray]:
        """The rows of the step's pool, and which of them are not the last of their episode."""
        pool = self.pool(step)
        return pool, ~self._last[pool]

    def pool(self, step: int) -> IntArray:
        """The rows that the step's regression is fitted on: its own, with whole later steps where they are few."""
        last = self._last_pooled(step)
        if last == step:
            return self._steps[step]
        rows = np.concatenate(self._steps[step : last + 1])
        return np.asarray(rows[np.argsort(self._train.actions[rows], kind="stable")])

    def _pooled(self, step: int, by_step: Mapping[int, FloatArray]) -> FloatArray:
        """Numbers of each step, in the order of the step's pool."""
        last = self._last_pooled(step)
        if last == step:
            return by_step[step]
        rows = np.concatenate(self._steps[step : last + 1])
        numbers = np.concatenate([by_step[later] for later in range(step, last + 1)])
        return np.asarray(numbers[np.argsort(self._train.actions[rows], kind="stable")])

    def _last_pooled(self, step: int) -> int:
        before = int(self._rows_before[step])
        wanted = POOLED_STEPS * self._n_episodes if self._pools else min(FEWEST_ROWS, self._n_episodes)
        needed = min(wanted, int(self._rows_before[-1]) - before)
        return int(np.searchsorted(self._rows_before, before + needed)) - 1

    def regression(self, step: int) -> StepRegression:
        """The step's regression, prepared."""
        if step in self._prepared:
            return self._prepared[step]
        pool, train = self.pool(step), self._train
        regression: StepRegression
        actions = train.actions[pool]
        if not isinstance(self._regressor, str):
            regression = StepForeign(actions, train.n_actions, self._regressor, self._seed)
        elif self._regressor in ("boosted", "shallow"):
            regression = StepBoosted(actions, train.n_actions, self._seed, shallow=self._regressor == "shallow")
        else:
            how = train.n_actions, self._penalties, self._coding
            regression = StepRidge.of(self._contexts[pool], actions, *how, linear=self._regressor == "linear")
        if regression.numbers <= self._room:
            self._prepared[step] = regression
            self._room -= regression.numbers
        return regression

    def _bounds(self, pool: IntArray) -> tuple[float, float] | None:
        if self._to_go is None:
            return None
        return float(self._to_go[pool].min()), float(self._to_go[pool].max())


def _places_before(before: IntArray, after: IntArray) -> IntArray:
    """Where among the rows of a step those stand that each row of the next one follows; copies follow their own.

    >>> _places_before(np.array([4, 0, 0, 6]), np.array([1, 7, 1])).tolist()
    [1, 3, 2]
    """
    order = np.argsort(before, kind="stable")
    places: NDArray[Any] = np.empty(len(after), np.int32)
    places[np.argsort(after, kind="stable")] = order[np.isin(before[order] + 1, after)]
    return places
