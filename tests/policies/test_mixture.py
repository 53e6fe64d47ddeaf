"""One of several policies for each episode: weights, values and actions against those of its members."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import sample_actions
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.policies.mixture import EpisodeMixture
from poela.simulators.episodes import run
from poela.simulators.tabular import TablePolicy, TabularMDP

PROBLEM = TabularMDP(
    transitions=[[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.4]]],
    rewards=[[1.0, -0.5], [0.3, 2.0]],
    initial=[0.6, 0.4],
    horizon=4,
)
BEHAVIOR = TablePolicy(PROBLEM, [[0.4, 0.6], [0.6, 0.4]])
MEMBERS = (
    TablePolicy(PROBLEM, [[0.9, 0.1], [0.25, 0.75]]),
    TablePolicy(PROBLEM, [[0.0, 1.0], [0.5, 0.5]]),
    TablePolicy(PROBLEM, [[0.3, 0.7], [1.0, 0.0]]),
)
MIXTURE = EpisodeMixture(MEMBERS)


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(PROBLEM, BEHAVIOR, episodes=300, seed=0)


def likelihoods(rows: FloatArray, logs: Trajectories) -> FloatArray:
    return np.asarray(np.multiply.reduceat(rows[np.arange(logs.n_steps), logs.actions], logs.offsets[:-1]))


def test_the_weight_of_an_episode_is_the_mean_of_its_members_weights(logs: Trajectories) -> None:
    each = np.stack([likelihoods(member.along(logs), logs) for member in MEMBERS])
    assert (each == 0).any()
    np.testing.assert_allclose(likelihoods(MIXTURE.along(logs), logs), each.mean(axis=0), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(MIXTURE.along(logs).sum(axis=1), 1)


def test_long_episodes_do_not_underflow() -> None:
    steps = 3000
    rare, rarer = (TablePolicy(PROBLEM, [[1 - chance, chance]] * 2) for chance in (1e-3, 1e-4))
    long = Trajectories(np.tile([1.0, 0.0], (steps, 1)), [1] * steps, [0.0] * steps, [0, steps])
    rows = EpisodeMixture((rare, rarer)).along(long)
    assert rows[0, 1] == pytest.approx((1e-3 + 1e-4) / 2)
    assert rows[-1, 1] == pytest.approx(1e-3)  # by then it is nearly certain which one acts


def test_its_value_is_the_mean_of_its_members_values() -> None:
    expected = np.mean([PROBLEM.value(member) for member in MEMBERS])
    rolled_out = run(PROBLEM, MIXTURE, episodes=20_000, seed=1).returns()
    assert rolled_out.mean() == pytest.approx(expected, abs=4 * rolled_out.std() / np.sqrt(20_000))
    estimate = evaluate(MIXTURE, run(PROBLEM, BEHAVIOR, episodes=20_000, seed=2), interval=None)
    assert estimate.value == pytest.approx(expected, abs=4 * estimate.standard_error)


def test_what_was_done_tells_who_acts_and_its_actor_agrees(logs: Trajectories) -> None:
    whole = logs.take(np.flatnonzero(logs.lengths >= 3))
    along, actor = MIXTURE.along(whole), MIXTURE.actor(whole.n_episodes)
    for step in range(3):
        rows = whole.offsets[:-1] + step
        asked = [actor.probabilities(whole.contexts[rows]) for _ in range(2)]  # to ask twice is not to act twice
        np.testing.assert_array_equal(asked[0], asked[1])
        np.testing.assert_allclose(asked[0], along[rows], atol=1e-9)
        actor.record(whole.actions[rows])
    # In the first state the second member never takes action 0: who did so is one of the others, 0.9 to 0.3.
    states = whole.contexts.argmax(axis=1)
    first = whole.offsets[:-1]
    (shown,) = np.nonzero((states[first] == 0) & (whole.actions[first] == 0))
    tables = np.stack([member.table for member in MEMBERS])
    expected = 0.75 * tables[0, states[first + 1]] + 0.25 * tables[2, states[first + 1]]
    np.testing.assert_allclose(along[first + 1][shown], expected[shown])


def test_members_that_agree_are_one_policy(logs: Trajectories) -> None:
    np.testing.assert_allclose(EpisodeMixture((MEMBERS[0],) * 4).along(logs), MEMBERS[0].along(logs))


def test_frequencies_of_its_first_actions_are_the_mean_of_its_members() -> None:
    n = 30_000
    contexts = np.tile(np.array([1.0, 0.0], np.float32), (n, 1))
    actions = sample_actions(MIXTURE.actor(n).probabilities(contexts), np.random.default_rng(0))
    assert (actions == 1).mean() == pytest.approx((0.1 + 1.0 + 0.7) / 3, abs=0.01)


def test_loose_contexts_do_not_tell_who_acts() -> None:
    with pytest.raises(InputError, match=r"use along\(trajectories\) or actor\(n\)"):
        MIXTURE.probabilities(np.zeros((1, 2)))
