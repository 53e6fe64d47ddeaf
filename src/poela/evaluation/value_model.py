"""Fitted-Q evaluation of many policies on the same logs, cross-fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from poela.behavior.staying import repeats
from poela.core.arrays import FloatArray, IntArray, first_bad
from poela.core.errors import InputError
from poela.data.folds import fold_numbers
from poela.data.history import with_history
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import ModelValues
from poela.regression.backward_induction import MOST_PREPARED, BackwardInduction, expected
from poela.regression.ridge import rows_at_once
from poela.regression.step_regression import Regressor

# Values along logs of a Q model that the caller gives.


@runtime_checkable
class QValues(Protocol):
    """Any model of Q: the value of each action at each logged step."""

    def q(self, trajectories: Trajectories) -> FloatArray:
        """[N, A]."""


def given_values(model: Any, probabilities: FloatArray, logs: Trajectories) -> ModelValues:
    """The caller's model under the target policy, after checking what it gives.

    >>> class Zero:
    ...     def q(self, trajectories):
    ...         return np.zeros((trajectories.n_steps, trajectories.n_actions))
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> given_values(Zero(), np.full((2, 2), 0.5), logs).expected
    array([0., 0.])
    """
    if not isinstance(model, QValues):
        raise InputError(f"{type(model).__name__} is no Q model: it has no method q(trajectories)")
    q = np.asarray(model.q(logs), np.float64)
    if q.shape != (logs.n_steps, logs.n_actions):
        raise InputError(f"the Q model gives shape {q.shape} where the logs need {(logs.n_steps, logs.n_actions)}")
    if not np.isfinite(q).all():
        count, first = first_bad(~np.isfinite(q))
        raise InputError(f"{count} rows of the Q model are NaN or infinite, first at step {first} of the flat log")
    return ModelValues.under(probabilities, q, logs.actions)


FOLDS = 5
# Logs of more single decisions are valued once, whatever the policy: nothing follows that a policy could change. Their
# regressions are fitted on so many episodes at most, drawn at random: any values are unbiased, more are hardly better.
MANY_SINGLE, MOST_FITTED = 25_000, 100_000
MOST_FEATURES_WITH_HISTORY = 8  # wider contexts are taken to tell the past themselves


@dataclass(frozen=True, eq=False)
class _Fold:
    """The regressions that value the episodes of one fold, fitted on all others."""

    induction: BackwardInduction
    valued: dict[int, IntArray]  # the rows that each of its steps values; the last values later ones too


class ValueModel:
    """Q along logs, under any policies: an episode's values come from regressions that saw neither it nor its cluster.

    Each step has its own regression, which sees `history` earlier steps and the first context beside the current one:
    logs are seldom Markov. By default that is one step, or none where contexts are wide: then it costs more than it
    tells. All policies share the regressions and their penalties, and differ only in what is
    predicted, so every further policy costs a few products. Values are held within the range of what the fitted
    episodes have shown from that step on, so that nothing is believed because of an extrapolation.
    `beside` are further episodes that only help to fit: their own values are not wanted.

    >>> rewards = np.arange(40) % 2 * 1.0
    >>> logs = Trajectories(np.zeros((40, 1)), np.arange(40) % 2, rewards, np.arange(41))
    >>> (values,) = ValueModel(logs).values(np.full((1, 40, 2), 0.5))
    >>> values.expected.mean().round(2)
    np.float64(0.5)
    """

    def __init__(
        self,
        logs: Trajectories,
        *,
        discount: float = 1.0,
        beside: Trajectories | None = None,
        folds: int = FOLDS,
        history: int | None = None,
        regressor: Regressor = "ridge",
        seed: int = 0,
    ) -> None:
        if beside is not None:
            folds = min(folds, logs.n_units)  # one: fitted on the episodes beside alone
        fold_of = (
            fold_numbers(logs, folds, seed) if folds > 1 or beside is None else np.zeros(logs.n_episodes, np.int64)
        )
        self._single = is_single(logs, beside)
        if self._single and beside is not None:
            beside = beside.take(_some_of(np.arange(beside.n_episodes), seed))
        self._logs = logs if beside is None else joined(beside, logs)
        self._own_rows = slice(self._logs.n_steps - logs.n_steps, None)
        self._horizon = int(logs.lengths.max())
        seen = _with_history(self._logs, history)
        self._contexts, self._regressor = seen.contexts, regressor
        fold_of = np.concatenate([np.full(self._logs.n_episodes - logs.n_episodes, -1), fold_of])
        # Probabilities and values stand step by step: rows that are used together lie together.
        self._by_step = np.argsort(seen.step_numbers, kind="stable")
        self._place = np.empty_like(self._by_step)
        self._place[self._by_step] = np.arange(seen.n_steps)
        self._logging = _columns_last(_logging_probabilities(self._logs)[None], self._by_step)
        typical = expected(self._logging)
        how: Any = {"regressor": regressor, "discount": discount, "seed": seed, "keep": MOST_PREPARED / folds}
        seen_weights = self._logs.seen_weights
        # Those seen stand for others like them who were not, as often as their weight says.
        counts = np.ones(len(fold_of), np.int64) if seen_weights is None else repeats(np.exp(seen_weights), seed)
        self._folds = []
        for fold in range(folds):
            others = np.flatnonzero(fold_of != fold)
            others = _some_of(others, seed) if self._single else others
            fitted_on = np.repeat(others, counts[others])
            induction = BackwardInduction(seen, held=True, episodes=fitted_on, **how)
            valued = np.flatnonzero((fold_of == fold)[seen.episode_of_step])
            self._folds.append(_Fold(induction, induction.elsewhere(valued)))
            if regressor == "ridge":
                # Values of other policies are about as smooth as those of the logging policy.
                induction.fix_penalties(lambda rows, q: typical(self._place[rows], q))

    def values(self, probabilities: Sequence[FloatArray] | FloatArray) -> list[ModelValues]:
        """Of the policies that have these probabilities [P, N, A] along `beside`, if any, and the logs.

        Of many single decisions (`is_single`) they are those along the logs alone. Values know how well they were
        fitted (see `squared_weights`) where the regressions are ridges.
        """
        if self._single:
            return self._of_single(probabilities)
        columns = _columns_last(probabilities, self._by_step)
        taken, mean, logged = np.empty((3, self._logs.n_steps, len(probabilities)))
        following = expected(columns)

        def of_rows(rows: IntArray, q: FloatArray) -> FloatArray:
            return following(self._place[rows], q)

        for fold in self._folds:
            for rows, q in fold.induction.valued(fold.valued, of_rows, len(probabilities)):
                places = self._place[rows]
                taken[places] = q[self._logs.actions[rows], np.arange(len(rows))]
                mean[places] = following(places, q)
                logged[places] = np.einsum("am,amp->mp", self._logging[:, places, 0], q)
        # Of steps that only the episodes beside have, no surprises are at hand to weigh.
        squares = self._squared_weights(columns)[:, : self._horizon] if self._regressor == "ridge" else None
        places = self._place[self._own_rows]
        return [
            ModelValues(
                taken[places, column],
                mean[places, column],
                None if squares is None else squares[column],
                logged[places, column],
            )
            for column in range(len(probabilities))
        ]

    def _of_single(self, probabilities: Sequence[FloatArray] | FloatArray) -> list[ModelValues]:
        """The same of single decisions, whose Q no policy changes."""
        q, actions = self._q_of_single, self._logs.actions[self._own_rows]
        taken = q[actions, np.arange(len(actions))]
        logged = np.einsum("an,an->n", self._logging[:, self._own_rows, 0], q)
        squares = None
        if self._regressor == "ridge":
            columns = _columns_last(probabilities, np.arange(len(actions)))
            squares = self._squared_weights(columns, self._own_rows.start)
        return [
            ModelValues(taken, np.einsum("na,an->n", own, q), None if squares is None else squares[column], logged)
            for column, own in enumerate(probabilities)
        ]

    @cached_property
    def _q_of_single(self) -> FloatArray:
        """Q [A, n] of single decisions along the logs."""
        found = np.empty((self._logs.n_actions, self._logs.n_steps - self._own_rows.start))

        def nothing(rows: IntArray, q: FloatArray) -> FloatArray:
            return np.zeros((len(rows), 1))

        for fold in self._folds:
            for rows, q in fold.induction.valued(fold.valued, nothing):
                found[:, rows - self._own_rows.start] = q[:, :, 0]
        return found

    def squared_weights(self, probabilities: Sequence[FloatArray] | FloatArray) -> FloatArray:
        """Σ_i d_ti² [P, H], where d are the weights of episodes in the fitted values of policies, step by step.

        A fitted value is a weighted sum of rewards, as every linear regression is. Where the policy stays with the
        logs the weights are near 1/n; where the regressions extrapolate they are large, of both signs, and rest on a
        few episodes. Times the variance of a step's surprises they give the variance of the fitted value, whose ratio
        to that of a plain mean is the restricted χ²-divergence of Duan, Jia & Wang (2020). They are those of the first
        fold's regressions, clipping aside. Boosted trees are no weighted sums: with them this is an `InputError`.
        """
        if self._regressor != "ridge":
            raise InputError("boosted values are no weighted sums of rewards: use regressor='ridge' for their weights")
        if self._single:
            return self._squared_weights(
                _columns_last(probabilities, np.arange(len(probabilities[0]))), self._own_rows.start
            )
        return self._squared_weights(_columns_last(probabilities, self._by_step))

    def _squared_weights(self, columns: FloatArray, first: int = 0) -> FloatArray:
        """The same from probabilities [A, N, P], step by step, of the rows from the `first` one on."""
        induction, n_policies = self._folds[0].induction, columns.shape[2]
        squares = np.zeros((int(self._logs.step_numbers.max()) + 1, n_policies))
        rows = self._logs.offsets[:-1][self._logs.offsets[:-1] >= self._own_rows.start]
        weights = np.full((len(rows), n_policies), 1 / len(rows))
        for step in range(induction.horizon):
            features = induction.regression(step).features(self._contexts[rows])
            wanted = np.zeros((len(columns), features.width, n_policies))
            for some, block in features.blocks():
                wanted += block.T @ (weights[some] * columns[:, self._place[rows[some]] - first])
            weights = induction.weights(step, wanted)
            squares[step] = np.square(weights).sum(axis=0)
            fitted, going_on = induction.going_on(step)
            rows, weights = fitted[going_on] + 1, weights[going_on]
        return squares.T


def state_values(logs: Trajectories, beside: Trajectories, discount: float = 1.0, seed: int = 0) -> ModelValues:
    """What is to come of each context of logs under the logging policy, whatever the action: for real-valued ones.

    >>> kind = np.arange(200) % 2 * 1.0
    >>> logs = Trajectories(kind[:, None], np.zeros(200), kind, np.arange(201))
    >>> state_values(logs, logs).expected[:2].round(1)
    array([0., 1.])
    """

    def idle(own: Trajectories) -> Trajectories:
        nothing = np.zeros(own.n_steps, np.int64)
        more: dict[str, Any] = {"n_actions": 1, "clusters": own.clusters, "staying": own.staying}
        return Trajectories(own.contexts, nothing, own.rewards, own.offsets, **more)

    model = ValueModel(idle(logs), beside=idle(beside), discount=discount, seed=seed)
    (values,) = model.values([np.ones((logs.n_steps + beside.n_steps, 1))])
    return values


def is_single(logs: Trajectories, beside: Trajectories | None) -> bool:
    """Whether a model of these values asks for probabilities along the logs alone: of many single decisions.

    >>> many = Trajectories(np.zeros((30_000, 1)), np.zeros(30_000), np.zeros(30_000), np.arange(30_001))
    >>> is_single(many, None), is_single(many.take(np.arange(100)), None)
    (True, False)
    """
    every = [logs] if beside is None else [logs, beside]
    steps = sum(one.n_steps for one in every)
    return steps > MANY_SINGLE and steps == sum(one.n_episodes for one in every)


def _some_of(episodes: IntArray, seed: int) -> IntArray:
    """These, or as many of them as regressions of single decisions are fitted on."""
    if len(episodes) <= MOST_FITTED:
        return episodes
    return np.sort(np.random.default_rng((seed, 4)).permutation(episodes)[:MOST_FITTED])


def _columns_last(probabilities: Sequence[FloatArray] | FloatArray, order: IntArray) -> FloatArray:
    """[A, N, P] in another order of rows from [P, N, A], a block of rows at a time so that it stays in the cache.

    >>> _columns_last(np.array([[[0.1, 0.9]], [[0.2, 0.8]]]), np.array([0])).tolist()
    [[[0.1, 0.2]], [[0.9, 0.8]]]
    """
    columns = np.empty((probabilities[0].shape[1], len(order), len(probabilities)))
    together = rows_at_once(len(columns) * len(probabilities))
    for start in range(0, len(order), together):
        block = slice(start, start + together)
        columns[:, block] = np.stack([own[order[block]] for own in probabilities]).transpose(2, 1, 0)
    return columns


def _logging_probabilities(logs: Trajectories) -> FloatArray:
    """Of the logging policy [N, A]: as known, or else all on the logged action."""
    if logs.propensities is not None and logs.propensities.ndim == 2:
        return logs.propensities
    return np.asarray(np.eye(logs.n_actions)[logs.actions])


def _with_history(logs: Trajectories, steps: int | None) -> Trajectories:
    """Logs that show what came before, unless they do so already."""
    if steps is None:
        steps = int(logs.n_features <= MOST_FEATURES_WITH_HISTORY)
    if not steps or logs.lengths.max() < 2 or "elapsed_steps" in logs.feature_names:
        return logs
    return with_history(logs, steps, initial=True)
