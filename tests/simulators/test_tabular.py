"""Finite decision problems: draws, exact values and the list of every episode."""

import numpy as np
import pytest

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps, MemorylessActor
from poela.core.ragged import episode_sums
from poela.simulators.episodes import RowDraws, run
from poela.simulators.tabular import TablePolicy, TabularMDP


@pytest.fixture
def chain() -> TabularMDP:
    """Two states; action 0 stays, action 1 moves on or ends, with a final payment."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0] = [0.9, 0.1]
    transitions[0, 1] = [0.0, 0.5]
    transitions[1, 0] = [0.2, 0.8]
    transitions[1, 1] = [0.3, 0.3]
    return TabularMDP(transitions, [[0.0, 1.0], [2.0, -1.0]], [0.25, 0.75], horizon=3, final=[5.0, -5.0])


def value_by_recursion(problem: TabularMDP, table: FloatArray, state: int, step: int) -> float:
    """The Bellman equation, written out as a plain recursion."""
    if step == problem.horizon:
        return float(problem.final[state])
    total = sum(
        table[state, action]
        * (
            problem.rewards[state, action]
            + sum(
                problem.transitions[state, action, following] * value_by_recursion(problem, table, following, step + 1)
                for following in range(len(problem.initial))
            )
        )
        for action in range(problem.rewards.shape[1])
    )
    return float(total)


def test_value_is_that_of_the_plain_recursion(chain: TabularMDP) -> None:
    table = np.array([[0.3, 0.7], [0.6, 0.4]])
    expected = sum(chain.initial[state] * value_by_recursion(chain, table, state, 0) for state in range(2))
    assert chain.value(table) == pytest.approx(expected, abs=1e-12)
    assert chain.value(TablePolicy(chain, table)) == pytest.approx(expected, abs=1e-12)


def test_optimal_is_the_best_of_all_deterministic_policies(chain: TabularMDP) -> None:
    codes = range(2 ** (chain.horizon * 2))
    choices = [np.array([(code >> bit) & 1 for bit in range(chain.horizon * 2)]).reshape(3, 2) for code in codes]
    values = [chain.value(np.eye(2)[choice]) for choice in choices]
    best, table = chain.optimal()
    assert best == pytest.approx(max(values), abs=1e-12)
    assert chain.value(table) == pytest.approx(best, abs=1e-12)


def test_every_episode_of_a_policy_is_listed_once_and_gives_its_value(chain: TabularMDP) -> None:
    table = np.array([[0.3, 0.7], [0.0, 1.0]])
    logs, chances = chain.episodes_of(TablePolicy(chain, table))
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances @ logs.returns() == pytest.approx(chain.value(table), abs=1e-12)
    assert set(logs.lengths.tolist()) == {1, 2, 3}


def test_importance_sampling_is_unbiased_over_every_episode(chain: TabularMDP) -> None:
    behavior, target = np.array([[0.5, 0.5], [0.8, 0.2]]), np.array([[0.1, 0.9], [0.3, 0.7]])
    logs, chances = chain.episodes_of(TablePolicy(chain, behavior))
    probabilities = TablePolicy(chain, target).along(logs)
    ratios = np.take_along_axis(probabilities, logs.actions[:, None], axis=1)[:, 0] / logs.logged_propensities
    weights = np.exp(episode_sums(np.log(ratios), logs.offsets))
    assert chances @ (weights * logs.returns()) == pytest.approx(chain.value(target), abs=1e-12)


class Alternating:
    """Takes action 0, 1, 0, …: a policy of the step number."""

    def probabilities(self, contexts: object) -> FloatArray:
        raise AssertionError("a policy with memory must be asked along an episode")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        steps = np.arange(len(trajectories.actions)) - np.repeat(
            trajectories.offsets[:-1], np.diff(trajectories.offsets)
        )
        return np.eye(2)[steps % 2]

    def actor(self, n: int) -> Actor:
        return AlternatingActor(n)


class AlternatingActor:
    def __init__(self, n: int) -> None:
        self.n, self.step = n, 0

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.tile(np.eye(2)[self.step % 2], (self.n, 1))

    def record(self, actions: IntArray) -> None:
        self.step += 1


def test_value_of_a_policy_with_memory(chain: TabularMDP) -> None:
    by_step = np.eye(2)[[0, 1, 0]][:, None].repeat(2, axis=1)  # [H, S, A]
    assert chain.value(Alternating()) == pytest.approx(chain.value(by_step), abs=1e-12)


class CountingActor(MemorylessActor):
    """Asked about loose contexts, but knows the step."""

    step = 0

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return np.tile(np.eye(2)[self.step % 2], (len(contexts), 1))

    def record(self, actions: IntArray) -> None:
        self.step += 1


class Counting(Alternating):
    def actor(self, n: int) -> Actor:
        return CountingActor(self)


def test_value_of_a_policy_that_counts_steps(chain: TabularMDP) -> None:
    assert chain.value(Counting()) == pytest.approx(chain.value(Alternating()), abs=1e-12)


def test_episodes_that_are_run_have_the_exact_mean(chain: TabularMDP) -> None:
    table = np.array([[0.3, 0.7], [0.6, 0.4]])
    returns = run(chain, TablePolicy(chain, table), episodes=40_000, seed=1).returns()
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - chain.value(table)) < 4 * error


def test_draws_have_the_chances_of_their_rows() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.full(6, 0.3), size=50) * rng.uniform(0.2, 1, size=(50, 1))
    matrix[matrix < 0.02] = 0
    rows = np.repeat(np.arange(50), 4000)
    # Midpoints of a grid instead of random numbers: every frequency is right to one grid step per bound.
    uniform = np.tile((np.arange(4000) + 0.5) / 4000, 50)
    drawn = RowDraws(matrix)(rows, uniform)
    frequencies = np.stack([np.bincount(drawn[rows == row], minlength=7) for row in range(50)]) / 4000
    expected = np.hstack([matrix, 1 - matrix.sum(axis=1, keepdims=True)])
    assert np.abs(frequencies - expected).max() <= 1 / 4000 + 1e-9


def test_draws_at_the_edge_stay_in_their_row() -> None:
    draws = RowDraws(np.tile([0.0, 1.0, 0.0], (100_000, 1)))
    rows = np.array([0, 99_999, 65_536])
    assert draws(rows, np.full(3, np.nextafter(1, 0))).tolist() == [1, 1, 1]
    assert draws(rows, np.zeros(3)).tolist() == [1, 1, 1]


def test_same_observation_of_two_states_hides_them() -> None:
    problem = TabularMDP(
        np.zeros((2, 2, 2)), [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], horizon=1, observations=[[0.0], [0.0]]
    )
    assert problem.optimal()[0] == 1.0
    assert problem.value(TablePolicy(problem, [[1.0, 0.0], [0.0, 1.0]])) == 0.5


def test_bad_tables_are_all_named() -> None:
    with pytest.raises(InputError) as caught:
        TabularMDP(np.full((1, 1, 1), 1.5), [[0.0]], [0.5], horizon=0, final=[0.0, 1.0], observations=[0.0])
    assert len(caught.value.problems) == 5
    with pytest.raises(InputError, match=r"shape \(2, 1, 2\)"):
        TabularMDP(np.zeros((1, 1, 1)), [[0.0], [0.0]], [0.5, 0.5], horizon=1)
    with pytest.raises(InputError, match="rewards must have shape"):
        TabularMDP(np.zeros((1, 1, 1)), [0.0], [1.0], horizon=1)


def test_too_many_episodes_are_refused() -> None:
    problem = TabularMDP(np.full((2, 4, 2), 0.5), np.zeros((2, 4)), [0.5, 0.5], horizon=8)
    with pytest.raises(InputError, match="more than 1000000 different episodes"):
        problem.every_episode()
