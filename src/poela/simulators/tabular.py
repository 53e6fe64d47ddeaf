"""Finite decision problems whose values are known exactly: by backward induction, or by listing every episode."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.policy import Memoryless, MemorylessActor, as_policy
from poela.core.ragged import episode_sums, rows_of_episodes
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import TOLERANCE, Noise, RowDraws

MOST_EPISODES = 1_000_000  # that are listed before giving up


@dataclass(frozen=True, eq=False)
class TabularState:
    """The hidden states [n] of n episodes after so many steps."""

    states: IntArray
    steps: int


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A finite decision problem over a horizon; equal observations of different states make it non-Markov.

    >>> coin = TabularMDP(transitions=np.zeros((1, 2, 1)), rewards=[[0.0, 1.0]], initial=[1.0], horizon=1)
    >>> coin.value([[0.5, 0.5]])
    0.5
    >>> coin.optimal()[0]
    1.0
    """

    transitions: FloatArray  # [S, A, S]; what a row lacks to 1 is the chance that the episode ends
    rewards: FloatArray  # [S, A]
    initial: FloatArray  # [S]
    horizon: int
    final: FloatArray  # [S], paid for the state that a full horizon ends in
    observations: Float32Array  # [S, d]

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike,
        horizon: int,
        final: ArrayLike | None = None,
        observations: ArrayLike | None = None,
    ) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("transitions", readonly(transitions, np.float64))
        keep("rewards", readonly(rewards, np.float64))
        keep("initial", readonly(initial, np.float64))
        keep("horizon", int(horizon))
        n_states = len(self.initial)
        keep("final", readonly(np.zeros(n_states) if final is None else final, np.float64))
        keep("observations", readonly(np.eye(n_states) if observations is None else observations, np.float32))
        problems = _problems(self)
        if problems:
            raise InputError(problems)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each column of the observations."""
        return tuple(f"x{column}" for column in range(self.observations.shape[1]))

    @property
    def action_names(self) -> tuple[int, ...]:
        """One for each action."""
        return tuple(range(self.rewards.shape[1]))

    @cached_property
    def _draws(self) -> tuple[RowDraws, RowDraws]:
        n_states = len(self.initial)
        return RowDraws(self.initial[None]), RowDraws(self.transitions.reshape(-1, n_states))

    def reset(self, n: int, noise: Noise) -> TabularState:
        """n episodes at their first states."""
        first, _ = self._draws
        return TabularState(first(np.zeros(n, np.int64), noise.uniform(1)[:, 0]), 0)

    def contexts(self, state: TabularState) -> Float32Array:
        """The observations of the hidden states, [n, d]."""
        return self.observations[state.states]

    def step(self, state: TabularState, actions: IntArray, noise: Noise) -> tuple[TabularState, FloatArray, BoolArray]:
        """One transition."""
        _, following = self._draws
        n_states, n_actions = self.rewards.shape
        drawn = following(state.states * n_actions + actions, noise.uniform(1)[:, 0])
        ended = drawn == n_states
        states, steps = np.where(ended, state.states, drawn), state.steps + 1
        rewards = self.rewards[state.states, actions]
        if steps == self.horizon:
            rewards = rewards + np.where(ended, 0.0, self.final[states])
        return TabularState(states, steps), rewards, ended | (steps == self.horizon)

    def q_values(self, table: ArrayLike) -> FloatArray:
        """What is still to come, [H, S, A], from each step, state and action under a table [S, A] or [H, S, A]."""
        tables = np.broadcast_to(np.asarray(table, np.float64), (self.horizon, *self.rewards.shape))
        values, result = self.final, np.empty(tables.shape)
        for step in reversed(range(self.horizon)):
            result[step] = self.rewards + self.transitions @ values
            values = (tables[step] * result[step]).sum(axis=1)
        return result

    def value(self, policy: Any) -> float:
        """The exact value of a table [S, A] or [H, S, A] of probabilities, or of a policy of what is observed."""
        if not hasattr(policy, "probabilities"):
            table = np.broadcast_to(np.asarray(policy, np.float64), (self.horizon, *self.rewards.shape))
            return float(self.initial @ (table[0] * self.q_values(table)[0]).sum(axis=1))
        actor = as_policy(policy).actor(len(self.observations))
        if isinstance(actor, MemorylessActor):  # it may still count steps
            return self.value([self._table_of(actor) for _ in range(self.horizon)])
        logs, chances = self.episodes_of(policy)
        return float(chances @ logs.returns())

    def _table_of(self, actor: MemorylessActor) -> FloatArray:
        """A row of probabilities for each state, after which the actor counts one step."""
        table = actor.probabilities(self.observations)
        actor.record(np.zeros(len(table), np.int64))
        return table

    def optimal(self) -> tuple[float, FloatArray]:
        """The best value that knowing the hidden state allows, and a policy [H, S, A] that reaches it."""
        values, table = self.final, np.zeros((self.horizon, *self.rewards.shape))
        for step in reversed(range(self.horizon)):
            q = self.rewards + self.transitions @ values
            np.put_along_axis(table[step], q.argmax(axis=1)[:, None], 1.0, axis=1)
            values = q.max(axis=1)
        return float(self.initial @ values), table

    def every_episode(self) -> tuple[Trajectories, FloatArray]:
        """Every episode that some policy can see, and the part of its probability that is not the policy's.

        Times the product of a policy's probabilities along it, that is the probability of the episode.
        """
        paths = _every_path(self)
        states = np.concatenate([path.states.ravel() for path in paths])
        actions = np.concatenate([path.actions.ravel() for path in paths])
        rewards = np.concatenate([path.rewards.ravel() for path in paths])
        lengths = np.concatenate([np.full(len(path.chances), path.states.shape[1]) for path in paths])
        logs = Trajectories(
            contexts=self.observations[states],
            actions=actions,
            rewards=rewards,
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            action_names=self.action_names,
            feature_names=self.feature_names,
        )
        return logs, np.concatenate([path.chances for path in paths])

    def episodes_of(self, policy: Any) -> tuple[Trajectories, FloatArray]:
        """Every episode of a policy, with its propensities, and the probability of each; they sum to 1.

        >>> coin = TabularMDP(np.zeros((1, 2, 1)), rewards=[[0.0, 1.0]], initial=[1.0], horizon=1)
        >>> logs, chances = coin.episodes_of(TablePolicy(coin, [[0.25, 0.75]]))
        >>> logs.returns(), chances
        (array([0., 1.]), array([0.25, 0.75]))
        """
        logs, chances = self.every_episode()
        along = as_policy(policy).along(logs)
        with np.errstate(divide="ignore"):
            steps = np.log(np.take_along_axis(along, logs.actions[:, None], axis=1)[:, 0])
        chances = chances * np.exp(episode_sums(steps, logs.offsets))
        possible = np.flatnonzero(chances > 0)
        rows, _ = rows_of_episodes(possible, logs.offsets)
        return logs.take(possible).with_propensities(along[rows]), chances[possible]


class TablePolicy(Memoryless):
    """A table [S, A] as a policy of what is observed: the row of the nearest observation.

    >>> problem = TabularMDP(np.zeros((2, 2, 2)), rewards=np.eye(2), initial=[0.5, 0.5], horizon=1)
    >>> TablePolicy(problem, [[0.9, 0.1], [0.2, 0.8]]).probabilities([[0.0, 1.0]])
    array([[0.2, 0.8]])
    """

    def __init__(self, problem: TabularMDP, table: ArrayLike) -> None:
        self.observations = problem.observations.astype(np.float64)
        self.table = readonly(table, np.float64)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        seen = np.asarray(contexts, np.float64)
        distances = (self.observations**2).sum(axis=1) - 2 * seen @ self.observations.T
        return np.asarray(self.table[distances.argmin(axis=1)])


@dataclass(frozen=True, eq=False)
class _Paths:
    """Beginnings of episodes of one length: states, actions and rewards [n, length]."""

    chances: FloatArray
    states: IntArray
    actions: IntArray
    rewards: FloatArray
    ahead: IntArray  # [n]: the state to act in next


def _every_path(problem: TabularMDP) -> list[_Paths]:
    """The finished episodes, grouped by length."""
    first = np.flatnonzero(problem.initial)
    none = np.empty((len(first), 0))
    paths = _Paths(problem.initial[first], none.astype(np.int64), none.astype(np.int64), none, first)
    finished: list[_Paths] = []
    for step in range(problem.horizon):
        done, paths = _extended(problem, paths, last=step == problem.horizon - 1)
        finished.append(done)
        if sum(len(part.chances) for part in (*finished, paths)) > MOST_EPISODES:
            raise InputError(
                f"there are more than {MOST_EPISODES} different episodes: use value(table) or shorten the horizon"
            )
    return [part for part in finished if len(part.chances)]


def _extended(problem: TabularMDP, paths: _Paths, *, last: bool) -> tuple[_Paths, _Paths]:
    """All paths by one more action and outcome: those that have ended, and those that go on."""
    n_states = len(problem.initial)
    lacking = 1 - problem.transitions.sum(axis=2)
    outcomes = np.dstack([problem.transitions, np.where(lacking < TOLERANCE, 0.0, lacking)])
    path, action, state = np.nonzero(outcomes[paths.ahead])
    here = paths.ahead[path]
    ended = state == n_states
    rewards = problem.rewards[here, action]
    if last:
        rewards = rewards + np.where(ended, 0.0, problem.final[np.where(ended, 0, state)])
    longer = _Paths(
        chances=paths.chances[path] * outcomes[here, action, state],
        states=np.column_stack([paths.states[path], here]),
        actions=np.column_stack([paths.actions[path], action]),
        rewards=np.column_stack([paths.rewards[path], rewards]),
        ahead=state,
    )
    over = ended | last
    return _taken(longer, over), _taken(longer, ~over)


def _taken(paths: _Paths, which: BoolArray) -> _Paths:
    return _Paths(
        chances=paths.chances[which],
        states=paths.states[which],
        actions=paths.actions[which],
        rewards=paths.rewards[which],
        ahead=paths.ahead[which],
    )


def _problems(problem: TabularMDP) -> list[str]:
    n_states = len(problem.initial)
    if problem.rewards.ndim != 2 or len(problem.rewards) != n_states:
        return [f"rewards must have shape ({n_states}, actions), not {problem.rewards.shape}"]
    due = (n_states, problem.rewards.shape[1], n_states)
    if problem.transitions.shape != due:
        return [f"transitions must have shape {due}, not {problem.transitions.shape}"]
    problems = []
    totals = problem.transitions.sum(axis=2)
    if (problem.transitions < 0).any() or (totals > 1 + TOLERANCE).any():
        problems.append("transitions must be non-negative and their rows sum to at most 1")
    if (problem.initial < 0).any() or abs(problem.initial.sum() - 1) > TOLERANCE:
        problems.append("initial must be non-negative and sum to 1")
    if problem.horizon < 1:
        problems.append(f"horizon must be at least 1, not {problem.horizon}")
    if problem.final.shape != (n_states,):
        problems.append(f"final must have shape ({n_states},), not {problem.final.shape}")
    if problem.observations.ndim != 2 or len(problem.observations) != n_states:
        problems.append(f"observations must have shape ({n_states}, features), not {problem.observations.shape}")
    return problems


# The paper's small problems on which importance sampling overfits, with values that are known exactly.
# In each, a learner that maximises an importance-weighted estimate does best on paper by leaving the logged actions
# of unlucky contexts alone: those contexts then carry no weight. Restricting it to eligible actions closes that way
# out.

SAFE, GAMBLE, DECOY = 0, 1, 2  # the first actions of the sequential examples
LOSS = -5.0


class Bandit(TabularMDP):
    """Example 1 (section 4): contexts and logged actions are uniform, and the best value is 0.

    In half of the contexts one action pays 1 and the others nothing; in the other half, half of the actions pay −1 and
    the others −5.

    >>> bandit = Bandit(n_contexts=4, n_actions=2)
    >>> bandit.optimal()[0], bandit.value(bandit.behavior)
    (0.0, -1.25)
    """

    best_value: ClassVar[float] = 0.0

    def __init__(self, n_contexts: int = 20, n_actions: int = 10) -> None:
        if n_contexts < 2 or n_contexts % 2 or n_actions < 2 or n_actions % 2:
            raise InputError(f"n_contexts ({n_contexts}) and n_actions ({n_actions}) must be even and at least 2")
        context, action = np.indices((n_contexts, n_actions))
        # The paying actions move on from context to context, so that no action is good everywhere.
        turn = (action - context) % n_actions
        gains = np.where(turn == 0, 1.0, 0.0)
        losses = np.where(turn < n_actions // 2, -1.0, LOSS)
        super().__init__(
            transitions=np.zeros((n_contexts, n_actions, n_contexts)),
            rewards=np.where(context < n_contexts // 2, gains, losses),
            initial=np.full(n_contexts, 1 / n_contexts),
            horizon=1,
        )

    @property
    def behavior(self) -> TablePolicy:
        """The logging policy: uniform."""
        return TablePolicy(self, np.full(self.rewards.shape, 1 / self.rewards.shape[1]))


class HiddenBranch(TabularMDP):
    """Examples 2 and 3 (appendix A): the longer the horizon H, the more ways not to see where a hidden branch leads.

    Half of the patients are lucky: either first action pays 1 and ends. For the others action 0 pays −1 and ends, and
    action 1 leads through H − 1 further choices, all of which end in −5. So starting with action 0 is worth 0, the
    best; starting with action 1 is worth −2. A context is the history: whether the branch was entered, and each choice
    made there as ±1.

    With `decoy=True` this is example 3: action 0 pays its ±1 one step later, and a third first action leads to the same
    observation and then to −5; whoever values contexts takes one for the other. After the first step only two actions
    are on offer: the third, never logged there, would act as the second.

    >>> example = HiddenBranch(horizon=4)
    >>> example.optimal()[0], example.value(example.behavior)
    (0.0, -1.0)
    """

    best_value: ClassVar[float] = 0.0
    best_first_action: ClassVar[int] = SAFE

    def __init__(self, horizon: int = 4, decoy: bool = False) -> None:
        if not 2 <= horizon <= 11:
            raise InputError(f"horizon must be from 2 to 11, not {horizon}: its tree has 2 to that power of leaves")
        root = 5 if decoy else 2
        n_states, n_actions = root + 2 ** (horizon - 1) - 1, 3 if decoy else 2
        transitions = np.zeros((n_states, n_actions, n_states))
        rewards = np.zeros((n_states, n_actions))
        observations = np.zeros((n_states, horizon if decoy else horizon - 1))
        lucky, unlucky = 0, 1
        rewards[lucky, [SAFE, GAMBLE]] = 1.0
        rewards[unlucky, SAFE] = -1.0
        transitions[unlucky, GAMBLE, root] = 1.0
        if decoy:
            # Three states that look alike, and pay one step late: safe and lucky, safe and unlucky, decoyed.
            rewards[[lucky, unlucky], SAFE] = 0.0
            transitions[[lucky, unlucky], SAFE, [2, 3]] = 1.0
            transitions[[lucky, unlucky], DECOY, 4] = 1.0
            rewards[2:5] = [[1.0], [-1.0], [LOSS]]
            observations[2:5, -1] = 1.0
        _grow_tree(transitions, rewards, observations, root, horizon)
        initial = np.zeros(n_states)
        initial[[lucky, unlucky]] = 0.5
        super().__init__(transitions, rewards, initial, horizon, observations=observations)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each column of the contexts."""
        choices = tuple(f"choice_{number}" for number in range(1, self.horizon - 1))
        return ("branch", *choices, *(("waiting",) if len(self.action_names) == 3 else ()))

    @property
    def behavior(self) -> TablePolicy:
        """The logging policy: uniform over the actions on offer."""
        on_offer = np.ones(self.rewards.shape)
        on_offer[2:, 2:] = 0.0
        return TablePolicy(self, on_offer / on_offer.sum(axis=1, keepdims=True))


def _grow_tree(transitions: FloatArray, rewards: FloatArray, observations: FloatArray, root: int, horizon: int) -> None:
    """The choices of the branch, one node for each history; the last choice always ends in the loss."""
    observations[root, 0] = 1.0
    rewards[root + 2 ** (horizon - 2) - 1 :] = LOSS
    for depth in range(horizon - 2):
        for node in range(2**depth - 1, 2 ** (depth + 1) - 1):
            left, right = root + 2 * node + 1, root + 2 * node + 2
            transitions[root + node, 0, left] = 1.0
            transitions[root + node, 1:, right] = 1.0
            observations[[left, right]] = observations[root + node]
            observations[[left, right], depth + 1] = [-1.0, 1.0]
