"""Cloning networks on logs whose behavior is known."""

import numpy as np
import pytest

from poela.behavior.annotation import annotation
from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior, RecurrentCloneModel
from poela.behavior.model import mean_log_likelihood
from poela.core.errors import InputError, TrainingError
from poela.data.trajectories import Trajectories

SMALL = RecurrentCloneBehavior(hidden=(12,), learning_rate=0.02, steps=60)


def repeating_logs(episodes: int = 150, seed: int = 0) -> Trajectories:
    """The behavior repeats its last action with probability 0.9; ragged episodes, with a clock and a noise feature."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 12, episodes)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    changes = rng.random(n) < 0.1
    changes[offsets[:-1]] = rng.random(episodes) < 0.5
    first = np.repeat(offsets[:-1], lengths)
    flips = np.cumsum(changes)
    actions = (flips - flips[first] + changes[first]) % 2
    months = np.arange(n) - first
    contexts = np.stack([rng.normal(size=n), months], axis=1)
    return Trajectories(contexts, actions, np.zeros(n), offsets, feature_names=["noise", "month"])


def best_likelihood(logs: Trajectories) -> float:
    first = logs.step_numbers == 0
    repeats = np.concatenate([[False], logs.actions[1:] == logs.actions[:-1]])
    chances = np.where(first, 0.5, np.where(repeats, 0.9, 0.1))
    return float(np.log(chances).mean())


def test_the_recurrent_clone_finds_what_the_memoryless_one_cannot() -> None:
    train, test = repeating_logs(), repeating_logs(seed=1)
    recurrent = mean_log_likelihood(SMALL.fit(train).along(test), test.actions)
    memoryless = mean_log_likelihood(
        CloneBehavior(hidden=(12,), learning_rate=0.02, steps=60).fit(train).along(test), test.actions
    )
    assert memoryless < -0.65  # no better than a coin
    assert recurrent == pytest.approx(best_likelihood(test), abs=0.05)


def test_the_memoryless_clone_finds_a_known_behavior_and_stops_by_itself() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(4000, 2))
    chances = np.exp(contexts @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.5]])
    chances /= chances.sum(axis=1, keepdims=True)
    actions = (np.cumsum(chances, axis=1) < rng.random((4000, 1))).sum(axis=1)
    logs = Trajectories(contexts, actions, np.zeros(4000), np.arange(0, 4001, 5))
    model = CloneBehavior(hidden=(16, 16, 16), learning_rate=3e-3, max_steps=1500).fit(logs)
    assert np.abs(model.along(logs) - chances).sum(axis=1).mean() / 2 < 0.08


@pytest.mark.parametrize("behavior", [SMALL, CloneBehavior(hidden=(8, 8, 8), max_steps=100)])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(behavior: CloneBehavior) -> None:
    logs = repeating_logs(30)
    once, again, other = (behavior.fit(logs, seed=seed).along(logs) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert np.abs(once - other).max() > 1e-4


def test_a_recurrent_model_acts_as_it_follows() -> None:
    rng = np.random.default_rng(0)
    logs = Trajectories(rng.normal(size=(24, 2)), rng.integers(0, 3, 24), np.zeros(24), np.arange(0, 25, 6))
    model = RecurrentCloneBehavior(hidden=(7, 7), steps=20).fit(logs)
    along = model.along(logs).reshape(4, 6, 3)
    actor = model.actor(4)
    for step in range(6):
        contexts = logs.contexts.reshape(4, 6, 2)[:, step]
        actor.probabilities(contexts[::-1])  # a question alone must leave no trace
        np.testing.assert_allclose(actor.probabilities(contexts), along[:, step], atol=1e-6)
        actor.record(logs.actions.reshape(4, 6)[:, step])


def test_episodes_do_not_depend_on_their_neighbours() -> None:
    logs = repeating_logs(20)
    model = SMALL.fit(logs)
    alone = np.concatenate([model.along(logs.take([episode])) for episode in range(20)])
    np.testing.assert_allclose(model.along(logs), alone, atol=1e-6)


def test_a_recurrent_model_refuses_loose_contexts_and_shuffled_steps() -> None:
    logs = repeating_logs(30)
    model = SMALL.fit(logs)
    assert isinstance(model, RecurrentCloneModel)
    assert model.clock == 1
    with pytest.raises(InputError, match="needs whole episodes in step order"):
        model.probabilities(logs.contexts)
    order = np.arange(logs.n_steps)
    order[[0, 1]] = [1, 0]
    shuffled = Trajectories(
        logs.contexts[order], logs.actions[order], logs.rewards, logs.offsets, feature_names=logs.feature_names
    )
    with pytest.raises(InputError, match=r"the steps seem shuffled: 'month' .* at 1 steps here, first at step 1"):
        model.along(shuffled)
    with pytest.raises(InputError, match="steps seem shuffled"):
        model.annotate(shuffled)


def test_logs_without_a_clock_are_followed_as_they_stand() -> None:
    logs = repeating_logs(30)
    noise = Trajectories(logs.contexts[:, :1], logs.actions, logs.rewards, logs.offsets)
    model = SMALL.fit(noise)
    assert isinstance(model, RecurrentCloneModel)
    assert model.clock is None
    assert model.along(noise.take([3, 1])).shape == (noise.lengths[[3, 1]].sum(), 2)


def test_one_action_and_one_episode() -> None:
    logs = repeating_logs(3)
    constant = Trajectories(logs.contexts, np.zeros(logs.n_steps), logs.rewards, logs.offsets)
    np.testing.assert_array_equal(SMALL.fit(constant).along(constant), 1.0)
    logs = repeating_logs(100)
    changes = [len(np.unique(logs.take([episode]).actions)) for episode in range(100)]
    one = logs.take([int(np.argmax(changes))])
    np.testing.assert_allclose(RecurrentCloneBehavior(hidden=(4,)).fit(one).along(one).sum(axis=1), 1)


def test_cross_fitting_follows_whole_episodes() -> None:
    logs = repeating_logs(60)
    report = annotation(SMALL, logs, folds=2)
    assert report.calibration.log_likelihood > -0.6  # a coin has −0.69


def test_a_breakdown_is_named_and_leaves_the_last_good_model() -> None:
    logs = repeating_logs(30)
    with pytest.raises(TrainingError, match="CloneBehavior: the loss or its gradient became NaN") as caught:
        CloneBehavior(hidden=(8,), learning_rate=1e30, max_steps=100).fit(logs)
    assert np.isfinite(caught.value.last_good.along(logs)).all()
