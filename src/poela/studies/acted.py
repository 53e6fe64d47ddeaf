"""What was done in logged episodes and what a policy would do there, summed by episode: for groups of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.ragged import episode_sums
from poela.data.action_space import ActionName
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights, rows_along, weights_of
from poela.stats.weights import LogWeights
from poela.studies.groups import Move

MOST_ACTIONS = 30  # that are told apart
OTHERS = "all others"
MOST_MOVES = 10


@dataclass(frozen=True, eq=False)
class Acted:
    """Sums over the steps of each episode.

    `after` is what the policy does at each step, times the weight of the episode up to there: along the policy's own
    episodes, which reach other contexts than the logged ones do.
    """

    before: FloatArray  # [n, A], how often each action was taken; of doses, the amounts
    steps: FloatArray  # [n]
    after: FloatArray  # [n, A]
    weights: FloatArray  # [n], sums of weights
    changed: FloatArray | None  # [n], decisions that change, at logged contexts; None: not known
    moves: FloatArray | None  # [A, A], over all episodes: how much goes from which action to which; None: not known

    @classmethod
    def joined(cls, parts: "Sequence[Acted]") -> "Acted":
        """Of several logs, one after the other."""
        arrays: dict[str, Any] = {}
        for name in ("before", "steps", "after", "weights", "changed"):
            own = [getattr(part, name) for part in parts]
            arrays[name] = None if any(one is None for one in own) else np.concatenate(own)
        moves = [part.moves for part in parts if part.moves is not None]
        return cls(**arrays, moves=np.sum(moves, axis=0) if len(moves) == len(parts) else None)

    @property
    def amounts(self) -> bool:
        """Whether means are of amounts, rather than shares of decisions: of these it is known which change."""
        return self.changed is None

    def means(self, episodes: BoolArray) -> tuple[FloatArray, FloatArray, float | None]:
        """Of some episodes: shares (or mean amounts) before and after, and the share of decisions that change."""
        steps = self.steps[episodes].sum()
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN without any weight
            after = self.after[episodes].sum(axis=0) / self.weights[episodes].sum()
        changed = None if self.changed is None else float(self.changed[episodes].sum() / steps)
        return self.before[episodes].sum(axis=0) / steps, after, changed

    def largest_moves(self, names: Sequence[str]) -> tuple[Move, ...]:
        """Which action takes the place of which, the largest share of decisions first."""
        if self.moves is None:
            return ()
        shares = self.moves / self.steps.sum()
        order = np.argsort(-shares, axis=None, kind="stable")[:MOST_MOVES]
        pairs = ((int(place) // len(names), int(place) % len(names)) for place in order)
        return tuple(
            Move(names[old], names[new], min(float(shares[old, new]), 1.0))
            for old, new in pairs
            if shares[old, new] > 0
        )


def acted(policy: Any, logs: Trajectories, truncation: float) -> Acted:
    """A policy along logs that it did not learn from, which carry propensities or log densities.

    >>> logs = Trajectories([[0.0]] * 4, [0, 1] * 2, [0.0] * 4, [0, 2, 4], [[0.5, 0.5]] * 4)
    >>> class Mostly:
    ...     def probabilities(self, contexts):
    ...         return np.tile([0.2, 0.8], (len(contexts), 1))
    >>> before, after, changed = acted(Mostly(), logs, 1000.0).means(np.ones(2, bool))
    >>> before.tolist(), after.round(9).tolist(), round(changed, 9)
    ([0.5, 0.5], [0.2, 0.8], 0.3)
    """
    taken, doing = logs.action_space.columns(logs.actions), rows_along(policy, logs)
    if doing is None:  # amounts, of which there is no share that changes
        return _summed(logs, taken, policy.mean(logs.contexts), log_weights(policy, logs), truncation)
    weights, logging = weights_of(doing, logs), logs.all_propensities
    moves = None if logging is None else minimal_moves(logging, doing)
    return _summed(logs, taken, doing, weights, truncation, departures(weights, doing, logging), moves)


def _summed(
    logs: Trajectories,
    done: FloatArray,
    doing: FloatArray,
    weights: LogWeights,
    truncation: float,
    changed: FloatArray | None = None,
    moves: FloatArray | None = None,
) -> Acted:
    running = weights.running
    before = np.append(0.0, running[:-1])
    before[logs.offsets[:-1]] = 0.0
    reached = np.exp(np.minimum(before, np.log(truncation)))[:, None]  # [N, 1]

    def by_episode(rows: FloatArray) -> FloatArray:
        return np.stack([episode_sums(column, logs.offsets) for column in rows.T], axis=1)

    return Acted(
        by_episode(done),
        np.asarray(logs.lengths, np.float64),
        by_episode(reached * doing),
        by_episode(reached)[:, 0],
        None if changed is None else episode_sums(changed, logs.offsets),
        moves,
    )


def departures(weights: LogWeights, doing: FloatArray, logging: FloatArray | None) -> FloatArray:
    """The share [N] of each decision that changes: half of Σ|π − μ|.

    Where only the propensity of the logged action is known, (1 − π/μ)₊ of that action: on average over what was logged
    it is the same.

    >>> doing, logging = np.array([[0.2, 0.8]] * 2), np.array([[0.5, 0.5]] * 2)
    >>> weights = LogWeights(np.log([0.4, 1.6]), np.array([0, 1, 2]))  # each action once
    >>> departures(weights, doing, logging).mean().round(9), departures(weights, doing, None).mean().round(9)
    (np.float64(0.3), np.float64(0.3))
    """
    if logging is not None:
        return np.asarray(np.abs(doing - logging).sum(axis=1) / 2)
    return np.asarray(-np.expm1(np.minimum(weights.log_ratios, 0.0)))


def minimal_moves(logging: FloatArray, doing: FloatArray) -> FloatArray:
    """How much [A, A] has to go from which action to which, over all rows: no more than half of Σ|π − μ|.

    >>> minimal_moves(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]]))
    array([[0. , 0. , 0.3],
           [0. , 0. , 0. ],
           [0. , 0. , 0. ]])
    """
    less, more = np.maximum(logging - doing, 0.0), np.maximum(doing - logging, 0.0)
    total = more.sum(axis=1, keepdims=True)
    return np.asarray(less.T @ (more / np.where(total > 0, total, 1.0)))


def merged_actions(names: Sequence[ActionName], used: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """The actions that are used most, in their order, with the rest as one; and the matrix [shown, A] that adds up.

    >>> merged_actions(["a", "b"], np.array([1.0, 0.0]))[0]
    ('a', 'b')
    """
    if len(names) <= MOST_ACTIONS:
        return tuple(map(str, names)), np.eye(len(names))
    most_used = np.sort(np.argsort(-used, kind="stable")[: MOST_ACTIONS - 1])
    matrix = np.zeros((MOST_ACTIONS, len(names)))
    matrix[np.arange(len(most_used)), most_used] = 1.0
    matrix[-1] = 1.0 - matrix[:-1].sum(axis=0)
    return (*(str(names[place]) for place in most_used), OTHERS), matrix
