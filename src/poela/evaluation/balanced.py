"""Logs of several logging policies as one: balanced weights over whole episodes.

A pool of K logs of n_k episodes by policies π_k is a log by one policy, which draws k with probability n_k/n at the
start of each episode and then acts by π_k. Its propensities, given what was done so far, multiply to the balanced
denominator Σ_k n_k/n Π_t π_k (Agarwal et al., KDD 2018; Kallus, Saito & Uehara, ICML 2021), so that whatever works with
propensities works with a pool. It needs the probabilities of every logging policy along every log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import episode_sums, step_numbers
from poela.data.action_space import Finite
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import probabilities_along, rows_along
from poela.policies.mixture import mixed_along

AGREE = 1e-3  # a probability may be off by so much by being written down
EXACT = 1e-6
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Logger:
    """Who made a log: a policy, or without one whatever was done, known where it was logged alone."""

    name: str
    policy: Any = None


@dataclass(frozen=True, eq=False)
class Balanced:
    """A pool of logs with balanced propensities, and the log weights [n] of what is done now.

    Without these, one logging policy made all of them, and it is what is done now.
    """

    logs: Trajectories
    reference: FloatArray | None = None
    note: str = ""  # where a model had to stand in for a logging policy


def balanced(logs: Sequence[Trajectories], loggers: Sequence[Logger], current: str | None = None) -> Balanced:
    """One log of several, each by its logger; `current` names the logger that is what is done now (None: the last).

    >>> from poela.core.policy import Memoryless
    >>> class Coin(Memoryless):
    ...     def __init__(self, heads): self.heads = heads
    ...     def probabilities(self, contexts): return np.tile([1 - self.heads, self.heads], (len(contexts), 1))
    >>> first = Trajectories([[0.0]], [1], [1.0], [0, 1], [[0.8, 0.2]])
    >>> second = Trajectories([[0.0]] * 3, [0, 1, 1], [0.0, 1.0, 1.0], [0, 1, 2, 3], [[0.4, 0.6]] * 3)
    >>> pool = balanced([first, second], [Logger("a", Coin(0.2)), Logger("b", Coin(0.6))])
    >>> pool.logs.propensities[:, 1].round(9).tolist(), pool.logs.loggers.tolist()  # (0.2 + 3·0.6) / 4
    ([0.5, 0.5, 0.5, 0.5], [0, 1, 1, 1])
    >>> np.exp(pool.reference).round(9).tolist()
    [1.2, 0.8, 1.2, 1.2]
    """
    names = list(dict.fromkeys(logger.name for logger in loggers))
    if current is not None and current not in names:
        raise InputError(
            f"what is done now, {current}, made none of the logs that judge: these are by {', '.join(names)}"
        )
    known = [_with_own_propensities(one, logger) for one, logger in zip(logs, loggers, strict=True)]
    if len(names) == 1:
        return Balanced(joined(*known))
    for one in logs:
        one.action_space.must_be(
            Finite, "logs of several logging policies cannot be pooled where actions are real numbers: give one"
        )
    if any(one.recommended is not None for one in logs):
        raise InputError(
            "a log of what was done after recommendations cannot be weighed with those of other loggers, in which "
            "nobody knows what would have been done: learn from it alone"
        )
    pool = joined(*known)
    made_by = np.repeat([names.index(logger.name) for logger in loggers], [one.n_episodes for one in logs])
    first = {logger.name: logger for logger in reversed(loggers)}
    rows, guessed = [], []
    for number, name in enumerate(names):
        own = np.asarray((made_by == number)[pool.episode_of_step])
        found, exact = _along(first[name], pool, own, made_by == number)
        rows.append(found)
        guessed += [] if exact else [name]
    shares = np.log(np.bincount(made_by, minlength=len(names)) / len(made_by))
    mixed = mixed_along(np.stack(rows), pool.actions, pool.offsets, shares)
    logs_now = replace(pool.with_propensities(mixed, estimated=pool.estimated or bool(guessed)), loggers=made_by)
    place = names.index(current or loggers[-1].name)
    taken = np.arange(pool.n_steps), pool.actions
    with np.errstate(divide="ignore"):
        reference = episode_sums(np.log(rows[place][taken]) - np.log(mixed[taken]), pool.offsets)
    note = f"what {' and '.join(guessed)} would have done in the other logs is estimated" if guessed else ""
    return Balanced(logs_now, reference, note)


def _with_own_propensities(logs: Trajectories, logger: Logger) -> Trajectories:
    """The log with what its logger did: as logged, or as the policy says where nothing, or less, was logged."""
    rows = None if logger.policy is None or logs.recommended is not None else rows_along(logger.policy, logs)
    if rows is None:
        return logs
    if not logs.knows_logging_policy or logs.estimated:
        return logs.with_propensities(rows)
    logged = rows if logs.all_propensities is not None else rows[np.arange(len(rows)), logs.actions]
    off = np.abs(np.asarray(logs.propensities) - logged) > AGREE
    off = off.any(axis=1) if off.ndim == 2 else off
    if off.any():
        raise InputError(
            f"the propensities of {off.sum():,} of {logs.n_steps:,} decisions are not those of {logger.name}: the log "
            "was made by another policy, or not all of what was recommended was done; say who made it"
        )
    return logs.with_propensities(rows) if logs.all_propensities is None else logs


def _along(logger: Logger, pool: Trajectories, own: Any, episodes: Any) -> tuple[FloatArray, bool]:
    """The probabilities [N, A] of a logger along the pool, and whether they are exact."""
    logged = pool.all_propensities
    if logger.policy is not None:
        rows = probabilities_along(logger.policy, pool)
        return (rows if logged is None else np.where(own[:, None], logged, rows)), True
    if logged is None:
        raise InputError(
            f"to pool logs of several logging policies takes the propensities of every action by {logger.name}: log "
            "them, or give the policy"
        )
    rows, exact = practice_along(pool, own, np.flatnonzero(episodes))
    return np.where(own[:, None], logged, rows), exact


def practice_along(pool: Trajectories, own: Any, episodes: IntArray) -> tuple[FloatArray, bool]:
    """What was done in some episodes, as logged there, at every step of a pool [N, A]; and whether that is exact.

    A tree of the context and the step number, cross-fitted: exact where it gives back what was logged in episodes that
    it has not seen, as it does where propensities depend on a few ranges or categories, and where nothing in the pool
    is beyond these episodes, such as a category that none of them has.
    """
    from sklearn.tree import DecisionTreeRegressor

    seen = np.c_[pool.contexts, step_numbers(pool.offsets)]
    logged = np.asarray(pool.all_propensities)
    fold_of = np.full(pool.n_episodes, -1)
    fold_of[episodes] = np.arange(len(episodes)) % FOLDS
    fold_of_step = fold_of[pool.episode_of_step]
    worst = 0.0 if len(episodes) > 1 else np.inf  # a single episode checks nothing
    for fold in range(min(FOLDS, len(episodes))):
        fit, asked = own & (fold_of_step != fold), fold_of_step == fold
        if fit.any() and asked.any():
            tree = DecisionTreeRegressor(random_state=0).fit(seen[fit], logged[fit])
            worst = max(
                worst, float(np.abs(tree.predict(seen[asked]).reshape(logged[asked].shape) - logged[asked]).max())
            )
    rows = DecisionTreeRegressor(random_state=0, min_samples_leaf=1 if worst <= EXACT else 20).fit(
        seen[own], logged[own]
    )
    found = np.maximum(np.asarray(rows.predict(seen)).reshape(logged.shape), 0.0)
    return found / found.sum(axis=1, keepdims=True), worst <= EXACT and not _beyond(seen, own)


def _beyond(seen: FloatArray, own: Any) -> bool:
    """Whether rows have what no own one has: another value where all own ones are alike, or a later step.

    >>> wards = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> _beyond(wards, np.array([True, False, False])), _beyond(wards, np.array([True, True, True]))
    (True, False)
    """
    low, high = seen[own].min(axis=0), seen[own].max(axis=0)
    alike = low == high
    return bool((seen[:, alike] != low[alike]).any() or (seen[:, -1] > high[-1]).any())
