"""The counter-examples solved exactly: every deterministic policy is listed, and the best by an objective is taken.

A deterministic policy matters only where it goes, so it is written as a plan: the actions it takes one after another.
Logs matter only through how often each kind of episode occurs in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.ragged import episode_sums
from poela.simulators.tabular import HiddenBranch

TIE = 1e-9


@dataclass(frozen=True, eq=False)
class Plans:
    """All plans of an example, and the kinds of episodes that logs consist of."""

    weights: FloatArray  # [plans, kinds]: the importance weight of an episode under a plan
    returns: FloatArray  # [kinds]
    chances: FloatArray  # [kinds]: under the logging policy
    first_actions: IntArray  # [plans]
    taken: BoolArray  # [plans, pairs]: the pairs of context and action that a plan takes
    logged: BoolArray  # [kinds, pairs]: those that an episode shows
    same_context: BoolArray  # [pairs, pairs]
    first_pairs: IntArray  # [actions]: the pairs of the first context, by action
    steps: "Steps"

    @classmethod
    def of(cls, example: HiddenBranch) -> "Plans":
        """List them."""
        logs, chances = example.episodes_of(example.behavior)
        episodes = [tuple(actions.tolist()) for actions in np.split(logs.actions, logs.offsets[1:-1])]
        beginnings = {episode[:length] for episode in episodes for length in range(len(episode))}
        plans = [episode for episode in dict.fromkeys(episodes) if episode not in beginnings]
        follows = np.array([[plan[: len(episode)] == episode for episode in episodes] for plan in plans])
        weights = np.exp(-episode_sums(np.log(logs.logged_propensities), logs.offsets))
        pairs, pair_of_step = np.unique(np.column_stack([logs.contexts, logs.actions]), axis=0, return_inverse=True)
        kind_of_step = logs.episode_of_step
        logged = np.zeros((len(episodes), len(pairs)), bool)
        logged[kind_of_step, pair_of_step] = True
        whole = [episodes.index(plan) for plan in plans]
        _, context_of_pair = np.unique(pairs[:, :-1], axis=0, return_inverse=True)
        return cls(
            weights=follows * weights,
            returns=logs.returns(),
            chances=chances,
            first_actions=np.array([plan[0] for plan in plans]),
            taken=logged[whole],
            logged=logged,
            same_context=context_of_pair[:, None] == context_of_pair,
            first_pairs=np.unique(pair_of_step[logs.offsets[:-1]]),
            steps=Steps.of(pair_of_step, kind_of_step, context_of_pair, logs.rewards),
        )

    def eligible(self, counts: IntArray) -> BoolArray:
        """[repeats, plans]: whether a plan takes only actions that were logged in its contexts.

        Where a context was never logged, every action is eligible.
        """
        seen = (counts > 0) @ self.logged
        barred = (seen @ self.same_context) & ~seen
        return ~(barred @ self.taken.T)

    def importance_sampling(self, counts: IntArray, penalty: float) -> FloatArray:
        """[repeats, plans]: IS − λ·sqrt(its variance)."""
        n = counts.sum(axis=1, keepdims=True)
        value = counts * self.returns @ self.weights.T / n
        squares = counts * self.returns**2 @ self.weights.T**2 / n
        return np.asarray(value - penalty * np.sqrt(np.maximum(squares - value**2, 0) / n))

    def self_normalised(self, counts: IntArray, penalty: float) -> FloatArray:
        """[repeats, plans]: SNIS − λ·sqrt(its variance); −inf where no episode has weight."""
        totals = counts @ self.weights.T
        some = totals > 0
        safe = np.where(some, totals, 1.0)
        value = counts * self.returns @ self.weights.T / safe
        moments = [counts * self.returns**power @ self.weights.T**2 for power in range(3)]
        squares = moments[2] - 2 * value * moments[1] + value**2 * moments[0]
        return np.where(some, value - penalty * np.sqrt(np.maximum(squares, 0)) / safe, -np.inf)

    def solved(self, objective: FloatArray) -> BoolArray:
        """[repeats]: whether the best plan starts with the best first action, and is best alone."""
        right = self.first_actions == HiddenBranch.best_first_action
        return np.asarray(objective[:, right].max(axis=1) > objective[:, ~right].max(axis=1) + TIE)

    def solved_by_values(self, counts: IntArray, horizon: int) -> BoolArray:
        """[repeats]: the same for a learner that takes contexts for Markov states, and acts by their values."""
        q = np.array([self.steps.q_values(log, horizon)[self.first_pairs] for log in counts])
        others = np.delete(q, HiddenBranch.best_first_action, axis=1)
        return np.asarray(q[:, HiddenBranch.best_first_action] > others.max(axis=1) + TIE)


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of all kinds of episodes, for a learner that values contexts as if they were Markov states."""

    pairs: IntArray  # [steps]
    kinds: IntArray
    rewards: FloatArray
    contexts_of_pairs: IntArray  # [pairs]
    following: IntArray  # [steps]: the context that comes next; one past the last where the episode ends

    @classmethod
    def of(cls, pairs: IntArray, kinds: IntArray, contexts_of_pairs: IntArray, rewards: FloatArray) -> "Steps":
        """Put together from flat episodes."""
        contexts = contexts_of_pairs[pairs]
        goes_on = np.append(kinds[1:] == kinds[:-1], False)
        end = contexts_of_pairs.max() + 1
        return cls(pairs, kinds, rewards, contexts_of_pairs, np.where(goes_on, np.roll(contexts, -1), end))

    def q_values(self, counts: IntArray, sweeps: int) -> FloatArray:
        """Backward induction on the observed frequencies of one log, [pairs]; −inf where nothing was logged."""
        often = counts[self.kinds]
        n_pairs, n_contexts = len(self.contexts_of_pairs), self.contexts_of_pairs.max() + 1
        visits = np.bincount(self.pairs, often, n_pairs)
        values = np.zeros(n_contexts + 1)
        q = np.full(n_pairs, -np.inf)
        for _ in range(sweeps):
            totals = np.bincount(self.pairs, often * (self.rewards + values[self.following]), n_pairs)
            q = np.divide(totals, visits, out=np.full(n_pairs, -np.inf), where=visits > 0)
            best = np.full(n_contexts, -np.inf)
            np.maximum.at(best, self.contexts_of_pairs, q)
            values = np.append(np.where(np.isfinite(best), best, 0.0), 0.0)
        return q


def drawn_counts(chances: FloatArray, episodes: int, repeats: int, seed: Sequence[int]) -> IntArray:
    """[repeats, kinds]: how often each kind of episode occurs in independent logs.

    >>> drawn_counts(np.array([0.5, 0.5]), 10, 3, seed=(0,)).sum(axis=1)
    array([10, 10, 10])
    """
    return np.asarray(np.random.default_rng(seed).multinomial(episodes, chances, repeats))
