"""Episodes recombined from logged steps: what the weights' tail looks like beyond the episodes that were drawn.

A weight is a product over steps. A log of a thousand episodes holds a thousand products, but much more is known of
their distribution than that. Where the propensities of every action are known, each logged step might as well have met
another action: drawn anew from the logging policy, with the contexts as they were, the same steps give as many weights
as one likes, and their spread is nearly exact, even of one-step episodes and of patients who are unusual throughout.
Where only those of logged actions are known, the early steps of one episode go before the late steps of another whose
context was alike. This assumes that, given the context, early and late ratios have little to do with each other.

Recombined weights show how heavy the tail is where the log itself is silent, and the errors of estimates on logs made
of them show how far the estimate at hand may be off.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from poela.core.arrays import Float32Array, FloatArray, IntArray, with_sound
from poela.core.ragged import episode_of_step, lengths_of, step_numbers
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.stats.bounds import in_clusters
from poela.stats.contributions import Contributions
from poela.stats.weights import LogWeights, effective_share

STRETCHES = 4  # of steps that stay together
# Recombined episodes for each logged one: enough to show the tail, few enough to stay in the processor's cache.
COPIES = (4, 40)
_MANY = 120_000
# Among how many episodes those alike are sought, and how many distances that may take.
_CANDIDATES, _FEWEST, _PAIRS = 1000, 100, 5_000_000
_AT_ONCE = 1 << 18  # distances computed at once: few enough to stay in the processor's cache
_ONE_STEP = Trajectories([[0.0]], [0], [0.0], [0, 1])
_POOL = 1  # joined to the seed, so that the pool and draws from it have nothing in common


@dataclass(frozen=True, eq=False)
class Pool:
    """Recombined episodes: log weights, returns like those of logged episodes of such weight, and their clusters."""

    log_weights: FloatArray  # [m]
    returns: FloatArray  # [m]
    clusters: IntArray | None  # [m]
    redrawn: bool  # actions drawn anew, rather than stretches of steps spliced

    def contributions(self, estimator: Callable[[Evidence], Contributions], truncation: float) -> Contributions:
        """What an estimator of whole episodes makes of them."""
        steps = np.arange(len(self.returns) + 1)
        evidence = Evidence(LogWeights(self.log_weights, steps), _returns_alone(self.returns), truncation=truncation)
        return in_clusters(estimator(evidence), self.clusters)

    def expected_ess(self, n_units: int, truncation: float) -> float:
        """The effective sample size to expect of a log of so many episodes or clusters."""
        used = np.minimum(self.log_weights, np.log(truncation))
        share = effective_share(used, self.clusters)
        return share * n_units


def _returns_alone(returns: FloatArray) -> Trajectories:
    """Single steps that earned these returns [m], which are some that logged episodes have had."""
    n = len(returns)
    contexts, rewards = np.zeros((n, 1), np.float32), np.array(returns)
    actions, offsets, ids = np.zeros(n, np.int64), np.arange(n + 1), np.arange(n)
    how: Any = {"contexts": contexts, "actions": actions, "rewards": rewards, "offsets": offsets, "episode_ids": ids}
    return with_sound(_ONE_STEP, **how)


class Recombined:
    """Recombines the episodes of a log for any policies; what does not depend on the policy is drawn once."""

    def __init__(self, logs: Trajectories, seed: int, copies: int | None = None) -> None:
        self._logs, self._seed = logs, seed
        self._copies = copies or max(COPIES[0], min(COPIES[1], -(-_MANY // logs.n_episodes)))

    @property
    def redraws(self) -> bool:
        """Whether actions can be drawn anew."""
        return self._logs.all_propensities is not None

    @cached_property
    def _places(self) -> IntArray:
        """Actions [copies, N] of the logging policy at the logged contexts, by their places in [N, A] end to end."""
        known = self._logs.all_propensities
        assert known is not None
        rng = self._rng()
        rows, width = known.shape
        # Cumulative chances of all rows end to end: one search finds the action within its row.
        chances = np.cumsum(known, axis=1)
        ends = (chances / chances[:, -1:] + np.arange(rows)[:, None]).ravel()
        first = width * np.arange(rows)
        drawn = [
            np.clip(np.searchsorted(ends, np.arange(rows) + rng.random(rows), side="right"), first, first + width - 1)
            for _ in range(self._copies)
        ]
        return np.stack(drawn)

    @cached_property
    def _log_chances(self) -> FloatArray:
        """The logging policy's log probabilities [copies, N] of these actions."""
        known = self._logs.all_propensities
        assert known is not None
        with np.errstate(divide="ignore"):
            return np.log(known.take(self._places))

    def log_weights(self, evidence: Evidence) -> FloatArray:
        """Log weights [copies, n] of recombined episodes under a policy."""
        if self.redraws and evidence.probabilities is not None:
            return self._redrawn(evidence.probabilities)
        size = self._copies * self._logs.n_episodes
        spliced = recombined_weights(evidence.weights, size, self._rng(), self._logs.contexts)
        return spliced.reshape(self._copies, -1)

    def pool(self, evidence: Evidence) -> Pool:
        """Recombined episodes under a policy."""
        redrawn = self.redraws and evidence.probabilities is not None
        return pooled(self.log_weights(evidence), evidence, redrawn, self._seed)

    def _redrawn(self, probabilities: FloatArray) -> FloatArray:
        """Log weights [copies, n]."""
        first = self._logs.offsets[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(probabilities).ravel()
            drawn = zip(self._places, self._log_chances, strict=True)
            redrawn = np.stack([np.add.reduceat(logs.take(places) - chances, first) for places, chances in drawn])
        seen = self._logs.seen_weights
        return redrawn if seen is None else np.asarray(redrawn + seen)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng((self._seed, _POOL))


def pooled(log_weights: FloatArray, evidence: Evidence, redrawn: bool, seed: int) -> Pool:
    """Recombined log weights [copies, n] as a pool, with returns like those of logged episodes of such weight."""
    rng = np.random.default_rng((seed, _POOL))
    clusters, units = evidence.logs.clusters, evidence.logs.n_units
    numbers = None
    if clusters is None:
        drawn = log_weights.ravel()[rng.permutation(log_weights.size)]  # so that those in a row are in no order
    else:
        drawn = log_weights.ravel()
        apart = rng.permutation(units * len(log_weights)).reshape(-1, units)  # numbered in no order
        numbers = apart[:, clusters].ravel()
    logged, known = evidence.weights.episodes, evidence.returns
    if evidence.logs.lost is not None:  # which have no returns
        logged, known = logged[~evidence.logs.lost], known[~evidence.logs.lost]
    returns = returns_like(drawn, logged, known, rng)
    return Pool(drawn, returns, numbers, redrawn)


def recombined_weights(
    weights: LogWeights, size: int, rng: np.random.Generator, contexts: Float32Array | None = None
) -> FloatArray:
    """Log weights [size] of episodes spliced from stretches of different logged episodes.

    Where contexts [N, d] are given, an episode goes on as another did whose context was alike at that step.

    >>> logged = LogWeights(np.log([1.0, 2.0, 5.0, 7.0]), np.array([0, 2, 4]))
    >>> drawn = recombined_weights(logged, 100, np.random.default_rng(0))
    >>> sorted({round(float(weight)) for weight in np.exp(drawn)})
    [2, 7, 10, 35]
    """
    lengths, first = lengths_of(weights.offsets), weights.offsets[:-1]
    starts, sums = _stretches(weights)
    total, going_on = np.zeros(size), np.arange(size)
    chosen = rng.integers(len(lengths), size=size)
    for index, start in enumerate(starts):
        if index > 0:
            still = np.flatnonzero(lengths[chosen] > start)
            going_on, chosen = going_on[still], chosen[still]
            donors = np.flatnonzero(lengths > start)
            if contexts is None:
                others = rng.integers(len(donors), size=len(chosen))
            else:
                row = np.cumsum(lengths > start) - 1
                others = _alike(row[chosen], contexts[first[donors] + start], rng)
            chosen = donors[others]
        total[going_on] += sums[index, chosen]
    return total


def _stretches(weights: LogWeights) -> tuple[IntArray, FloatArray]:
    """The first step of each stretch, with about as many logged steps in each, and the log weights in them [B, n]."""
    lengths = lengths_of(weights.offsets)
    running = np.cumsum(np.bincount(lengths)[::-1])[::-1][1:]  # how many episodes have each step
    quarters = np.ceil(np.arange(1, STRETCHES) / STRETCHES * (len(weights.log_ratios) - 1))
    cuts = np.searchsorted(np.cumsum(running), quarters, side="right")
    starts = np.unique(np.concatenate([[0], cuts])).astype(np.int64)
    stretch_of_step = np.searchsorted(starts, np.arange(len(running)), side="right") - 1
    stretch = stretch_of_step[step_numbers(weights.offsets)]
    cell = stretch * weights.n_episodes + episode_of_step(weights.offsets)
    sums = np.bincount(cell, weights.log_ratios, weights.n_episodes * len(starts))
    return starts, np.asarray(sums, np.float64).reshape(len(starts), -1)


def _alike(rows: IntArray, contexts: Float32Array, rng: np.random.Generator) -> IntArray:
    """For each of some rows of the contexts [n, d] another that is drawn from the nearest of a random part of all."""
    n = len(contexts)
    candidates = rng.permutation(n)[: max(_FEWEST, min(_CANDIDATES, _PAIRS // n))]
    among = len(candidates)
    nearest = max(1, int(np.sqrt(among)))
    centred = contexts - contexts.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(np.square(centred).mean(axis=0))
    scaled = (centred / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    # One product gives squared distances, less what is the same for all candidates.
    others = np.c_[-2 * scaled[candidates], np.square(scaled[candidates]).sum(axis=1)].T
    scaled = np.c_[scaled, np.ones(n, np.float32)]
    # Equal contexts are many in finite problems: which of them counts as near is left to chance, anew in every row.
    chances = sliding_window_view(1e-3 * rng.random(n + among, np.float32), among)
    by_block = []
    for start in range(0, n, step := max(1, _AT_ONCE // among)):
        distances = scaled[start : start + step] @ others
        distances += chances[start : start + len(distances)]
        by_block.append(start * among + np.flatnonzero(distances <= _smallest(distances, nearest)[:, -1:]))
    near = np.concatenate(by_block)
    first = np.searchsorted(near, among * np.arange(n + 1))
    drawn = near[first[rows] + (rng.random(len(rows)) * np.diff(first)[rows]).astype(np.int64)]
    return np.asarray(candidates[drawn % among])


def _smallest(values: Float32Array, count: int) -> Float32Array:
    """The smallest values of each row, in order.

    Values are several times as fast to sort as their positions, and up to 256 at once faster than more.
    """
    pieces = np.array_split(values, -(-values.shape[1] // 256), axis=1)
    return np.sort(np.hstack([np.sort(piece, axis=1)[:, :count] for piece in pieces]), axis=1)[:, :count]


def returns_like(drawn: FloatArray, logged: FloatArray, returns: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A return for each drawn log weight: that of a logged episode of similar weight, moved along the common trend."""
    n = len(logged)
    order = np.argsort(logged, kind="stable")
    reach = int(np.sqrt(n))
    near = np.searchsorted(logged[order], drawn) + rng.integers(-reach, reach + 1, size=len(drawn))
    near = np.abs(near)
    near = order[np.minimum(near, 2 * (n - 1) - near)]  # reflected at both ends
    with np.errstate(invalid="ignore"):
        beyond = drawn - logged[near]
    moved = returns[near] + _trend(logged, returns) * np.where(np.isfinite(beyond), beyond, 0.0)
    return np.asarray(np.clip(moved, returns.min(), returns.max()))


def _trend(log_weights: FloatArray, returns: FloatArray) -> float:
    """How returns rise with the log weight, by least squares under the weights."""
    finite = np.isfinite(log_weights)
    if not finite.any():
        return 0.0
    x, y = log_weights[finite], returns[finite]
    shares = np.exp(x - x.max())
    shares = shares / shares.sum()
    x, y = x - shares @ x, y - shares @ y
    spread = float(shares @ np.square(x))
    return float(shares @ (x * y)) / spread if spread > 0 else 0.0
