"""History features: the flat computation, the running record and the policy adapter all say the same."""

import numpy as np
import pytest

from poela.behavior.multinomial import MultinomialBehavior, MultinomialModel
from poela.core.errors import InputError
from poela.core.policy import Memoryless, sample_actions
from poela.data.history import HistoryFeatures, WithHistory
from poela.data.trajectories import Trajectories


def logs_of(lengths: list[int], seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    rows = rng.dirichlet(np.ones(3), n)
    return Trajectories(
        rng.normal(size=(n, 2)),
        rng.integers(0, 3, n),
        rng.normal(size=n),
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=rows,
        feature_names=["pulse", "age"],
        action_names=["a", "b", "c"],
        episode_ids=[f"id{i}" for i in range(len(lengths))],
    )


def features_by_hand(logs: Trajectories, steps: int, initial: bool) -> np.ndarray:
    rows = []
    for start, end in zip(logs.offsets[:-1], logs.offsets[1:], strict=True):
        for now in range(start, end):
            row = list(logs.contexts[now])
            for lag in range(1, steps + 1):
                then = now - lag
                if then >= start:
                    row += [*logs.contexts[then], *np.eye(3)[logs.actions[then]], 1.0]
                else:
                    row += [0.0] * 6
            row.append(now - start)
            if initial:
                row += list(logs.contexts[start])
            rows.append(row)
    return np.array(rows, np.float32)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("initial", [False, True])
def test_features_equal_those_made_row_by_row(steps: int, initial: bool) -> None:
    logs = logs_of([1, 4, 2, 7])
    result = logs.with_history(steps=steps, initial=initial)
    np.testing.assert_array_equal(result.contexts, features_by_hand(logs, steps, initial))
    assert result.n_features == HistoryFeatures(steps, 2, 3, initial).width


def test_all_but_the_contexts_is_kept() -> None:
    logs = logs_of([3, 2])
    result = logs.with_history(steps=1)
    for name in ("actions", "rewards", "offsets", "propensities", "episode_ids"):
        np.testing.assert_array_equal(getattr(result, name), getattr(logs, name))
    assert result.action_names == logs.action_names
    assert result.feature_names == (
        *("pulse", "age", "pulse[-1]", "age[-1]"),
        *("action=a[-1]", "action=b[-1]", "action=c[-1]", "exists[-1]", "elapsed_steps"),
    )


def test_history_twice_and_no_history_are_refused() -> None:
    logs = logs_of([3])
    with pytest.raises(InputError, match="history features already"):
        logs.with_history(steps=2).with_history(steps=1)
    with pytest.raises(InputError, match="at least 1 step"):
        logs.with_history(steps=0)


class LooksBack(Memoryless):
    """Probabilities that depend on every history feature."""

    def __init__(self, width: int) -> None:
        self.weights = np.random.default_rng(5).normal(size=(width, 3))

    def probabilities(self, contexts: "np.typing.ArrayLike") -> np.ndarray:
        scores = np.exp(np.tanh(np.asarray(contexts, np.float64) @ self.weights))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("initial", [False, True])
def test_the_adapter_follows_logs_and_acts_alike(initial: bool) -> None:
    logs = logs_of([6, 6, 6])
    inner = LooksBack(HistoryFeatures(2, 2, 3, initial).width)
    policy = WithHistory.of(inner, logs, steps=2, initial=initial)
    along = policy.along(logs)
    np.testing.assert_array_equal(along, inner.probabilities(logs.with_history(2, initial).contexts))
    contexts, actions = logs.contexts.reshape(3, 6, 2), logs.actions.reshape(3, 6)
    actor = policy.actor(3)
    for step in range(6):
        live = actor.probabilities(contexts[:, step])
        np.testing.assert_allclose(live, along.reshape(3, 6, 3)[:, step], rtol=1e-12)
        np.testing.assert_array_equal(live, actor.probabilities(contexts[:, step]))  # asking twice changes nothing
        actor.record(actions[:, step])


def test_the_adapter_refuses_what_it_cannot_do() -> None:
    logs = logs_of([3])
    policy = WithHistory.of(LooksBack(9), logs, steps=1)
    with pytest.raises(InputError, match="loose contexts"):
        policy.probabilities(logs.contexts)
    with pytest.raises(InputError, match="2 plain features"):
        policy.along(logs.with_history(steps=1))
    with pytest.raises(InputError, match="2 plain features"):
        policy.actor(1).probabilities(np.zeros((1, 9), np.float32))


def test_sampling_from_the_actor_needs_no_log() -> None:
    logs = logs_of([3])
    actor = WithHistory.of(LooksBack(9), logs, steps=1).actor(4)
    rng = np.random.default_rng(0)
    for _ in range(3):
        rows = actor.probabilities(rng.normal(size=(4, 2)).astype(np.float32))
        np.testing.assert_allclose(rows.sum(axis=1), 1)
        actor.record(sample_actions(rows, rng))


def test_the_adapter_comes_back_from_its_stored_form() -> None:
    logs = logs_of([6, 6, 6, 4])
    model = MultinomialBehavior().fit(logs.with_history(steps=2, initial=True))
    policy = WithHistory.of(model, logs, steps=2, initial=True)
    again = WithHistory.from_stored(policy.stored(), MultinomialModel.from_stored)
    assert again.features == policy.features
    assert again.action_names == policy.action_names
    np.testing.assert_array_equal(again.along(logs), policy.along(logs))


def test_an_inner_policy_can_refuse_another_order_of_features() -> None:
    logs = logs_of([6, 6, 6, 4])
    policy = WithHistory.of(MultinomialBehavior().fit(logs.with_history(steps=1)), logs, steps=1)
    turned = Trajectories(logs.contexts, logs.actions, logs.rewards, logs.offsets, feature_names=["age", "pulse"])
    with pytest.raises(InputError, match="another order"):
        policy.along(turned)
