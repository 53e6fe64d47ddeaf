"""The loop that runs policies: whose random numbers, ragged ends, memory, propensities."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import GeneratorNoise, Noise, StepNoise, run


@dataclass(frozen=True)
class Walk:
    """Shows luck and step number; ends early by luck, at once with action 2. State: columns of the context."""

    feature_names: ClassVar[tuple[str, ...]] = ("luck", "step")
    action_names: ClassVar[tuple[str, ...]] = ("left", "right", "stop")
    horizon: ClassVar[int] = 8

    def reset(self, n: int, noise: Noise) -> FloatArray:
        return np.concatenate([noise.uniform(1), np.zeros((n, 1))], axis=1)

    def contexts(self, state: FloatArray) -> Float32Array:
        return state.astype(np.float32)

    def step(self, state: FloatArray, actions: IntArray, noise: Noise) -> tuple[FloatArray, FloatArray, BoolArray]:
        luck, second = noise.uniform(2).T
        number = state[:, 1] + 1
        ended = (luck < 0.2) | (actions == 2) | (number == self.horizon)
        return np.stack([luck, number], axis=1), second + actions, ended


class Fixed(Memoryless):
    def __init__(self, *chances: float) -> None:
        self.logging_probabilities = chances

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.tile(self.logging_probabilities, (len(np.asarray(contexts)), 1))


class OneAfterTheOther:
    """A policy of the history: right where the last action was left, and the other way round."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        raise AssertionError("a policy with memory acts through its actor")

    def along(self, trajectories: Any) -> FloatArray:
        raise AssertionError("nothing is logged yet")

    def actor(self, n: int) -> "Alternating":
        return Alternating(n)


class Alternating:
    def __init__(self, n: int) -> None:
        self.last = np.ones(n, np.int64)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        assert len(contexts) == len(self.last)
        return np.eye(3)[1 - self.last]

    def record(self, actions: IntArray) -> None:
        self.last = actions


def assert_equal(first: Trajectories, second: Trajectories) -> None:
    for name in ("contexts", "actions", "rewards", "offsets", "propensities"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


RANDOM = Fixed(0.45, 0.45, 0.1)


def test_equal_seeds_give_equal_bits_and_other_seeds_others() -> None:
    assert_equal(run(Walk(), RANDOM, 50, seed=3), run(Walk(), RANDOM, 50, seed=3))
    assert not np.array_equal(run(Walk(), RANDOM, 50, seed=3).rewards, run(Walk(), RANDOM, 50, seed=4).rewards)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_the_batch_size_does_not_matter(batch: int) -> None:
    assert_equal(run(Walk(), RANDOM, 50, seed=3), run(Walk(), RANDOM, 50, seed=3, batch=batch))


def test_more_episodes_leave_the_first_ones_alone() -> None:
    assert_equal(run(Walk(), RANDOM, 20, seed=3), run(Walk(), RANDOM, 50, seed=3).take(np.arange(20)))


def test_all_policies_meet_the_same_luck() -> None:
    left, right = run(Walk(), Fixed(1, 0, 0), 100, seed=3), run(Walk(), Fixed(0, 1, 0), 100, seed=3)
    np.testing.assert_array_equal(left.contexts, right.contexts)
    np.testing.assert_allclose(right.rewards - left.rewards, 1, rtol=1e-12)


def test_similar_policies_choose_alike() -> None:
    some, more = run(Walk(), Fixed(0.5, 0.5, 0), 1000, seed=3), run(Walk(), Fixed(0.4, 0.6, 0), 1000, seed=3)
    changed = some.actions != more.actions
    assert (more.actions[changed] == 1).all()
    assert stats.binomtest(int(changed.sum()), some.n_steps, 0.1).pvalue > 1e-4


def test_actions_do_not_follow_the_luck_of_the_environment() -> None:
    logs = run(Walk(), RANDOM, 4000, seed=0)
    assert abs(np.corrcoef(logs.contexts[:, 0], logs.actions)[0, 1]) < 4 / np.sqrt(logs.n_steps)
    assert abs(np.corrcoef(logs.rewards - logs.actions, logs.actions)[0, 1]) < 4 / np.sqrt(logs.n_steps)


@pytest.mark.parametrize("noise", [StepNoise(5, 1, 0, 4000), GeneratorNoise(np.random.default_rng(5), 4000)])
def test_every_call_gives_new_numbers(noise: Noise) -> None:
    first, second = noise.uniform(1)[:, 0], noise.uniform(1)[:, 0]
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(4000)


def test_episodes_end_where_the_simulator_says() -> None:
    logs = run(Walk(), RANDOM, 4000, seed=0)
    last = logs.offsets[1:] - 1
    inner = np.delete(np.arange(logs.n_steps), last)
    assert (logs.actions[inner] != 2).all()
    # The chance to go on is 0.8 × 0.9 a step, so lengths are geometric, cut at 8.
    expected = sum(0.72**step for step in range(8))
    assert abs(logs.lengths.mean() - expected) < 4 * logs.lengths.std() / np.sqrt(4000)
    assert logs.lengths.max() == 8
    np.testing.assert_array_equal(logs.contexts[:, 1], logs.step_numbers)


def test_propensities_are_those_of_every_action_and_are_acted_on() -> None:
    logs = run(Walk(), RANDOM, 4000, seed=1)
    np.testing.assert_array_equal(logs.propensities, np.tile([0.45, 0.45, 0.1], (logs.n_steps, 1)))
    counts = np.bincount(logs.actions, minlength=3)
    assert stats.chisquare(counts, np.array([0.45, 0.45, 0.1]) * logs.n_steps).pvalue > 1e-4


def test_a_policy_with_memory_follows_its_own_actions() -> None:
    logs = run(Walk(), OneAfterTheOther(), 30, seed=0, batch=11)
    np.testing.assert_array_equal(logs.actions, logs.step_numbers % 2)


def test_anything_with_probabilities_will_do() -> None:
    class Bare:
        def probabilities(self, contexts: ArrayLike) -> Any:
            return [[0.45, 0.45, 0.1]] * len(np.asarray(contexts))

    assert_equal(run(Walk(), Bare(), 20, seed=0), run(Walk(), RANDOM, 20, seed=0))


def test_names_come_from_the_simulator() -> None:
    logs = run(Walk(), Fixed(1, 0, 0), 5, seed=0)
    assert logs.feature_names == ("luck", "step")
    assert logs.action_names == ("left", "right", "stop")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Fixed(0.5, 0.5), r"shape \(4, 2\) where \(4, 3\)"),
        (Fixed(0.5, 0.4, 0.0), "4 of 4 rows"),
        (Fixed(1.5, -0.5, 0.0), "4 of 4 rows"),
        (Fixed(np.nan, 0.5, 0.5), "4 of 4 rows"),
    ],
)
def test_a_policy_that_gives_no_distribution_is_refused(policy: Fixed, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(Walk(), policy, 4)


@pytest.mark.parametrize(("episodes", "batch"), [(0, 10), (10, 0)])
def test_no_episodes_or_empty_batches_are_refused(episodes: int, batch: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        run(Walk(), RANDOM, episodes, batch=batch)


@pytest.mark.parametrize("noise", [StepNoise(5, 1, 0, 20_000), GeneratorNoise(np.random.default_rng(5), 20_000)])
def test_noise_has_the_distribution_it_names(noise: Noise) -> None:
    assert stats.kstest(noise.uniform(1)[:, 0], "uniform").pvalue > 1e-4
    first, second = noise.normal(2).T
    assert stats.kstest(first, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(20_000)
