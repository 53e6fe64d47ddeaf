"""Values of many single decisions: once for all policies, and the same as by induction step by step."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation import value_model
from poela.evaluation.value_model import ValueModel, is_single
from poela.regression.step_regression import Regressor


def logs_of(count: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(count, 3)).astype(np.float32)
    actions = rng.integers(3, size=count)
    rewards = contexts[:, 0] * actions + rng.normal(size=count)
    return Trajectories(contexts, actions, rewards, np.arange(count + 1), np.full((count, 3), 1 / 3))


def policies_of(logs: Trajectories) -> list[FloatArray]:
    rng = np.random.default_rng(1)
    return [rng.dirichlet(np.ones(3), size=logs.n_steps) for _ in range(2)]


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_values_of_single_decisions_are_those_of_induction(
    monkeypatch: pytest.MonkeyPatch, regressor: Regressor
) -> None:
    logs, beside = logs_of(300, 2), logs_of(400, 3)
    own, others = policies_of(logs), policies_of(beside)
    plain = ValueModel(logs, beside=beside, regressor=regressor).values(
        [np.concatenate(both) for both in zip(others, own, strict=True)]
    )
    monkeypatch.setattr(value_model, "MANY_SINGLE", 100)
    once = ValueModel(logs, beside=beside, regressor=regressor).values(own)
    for one, other in zip(plain, once, strict=True):
        assert other.logged is not None
        assert one.logged is not None
        np.testing.assert_allclose(other.taken, one.taken, rtol=1e-8)
        np.testing.assert_allclose(other.expected, one.expected, rtol=1e-8)
        np.testing.assert_allclose(other.logged, one.logged, rtol=1e-8)
        if one.squared_weights is not None:
            assert other.squared_weights is not None
            np.testing.assert_allclose(other.squared_weights, one.squared_weights, rtol=1e-6)


def test_without_episodes_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_of(300, 4)
    plain = ValueModel(logs).values(policies_of(logs))
    monkeypatch.setattr(value_model, "MANY_SINGLE", 100)
    once = ValueModel(logs).values(policies_of(logs))
    np.testing.assert_allclose(once[1].expected, plain[1].expected, rtol=1e-8)
    assert once[1].squared_weights is not None
    assert plain[1].squared_weights is not None
    np.testing.assert_allclose(once[1].squared_weights, plain[1].squared_weights, rtol=1e-6)


def test_values_of_a_part_are_as_good_and_saw_no_episode_that_they_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_model, "MANY_SINGLE", 100)
    monkeypatch.setattr(value_model, "MOST_FITTED", 1500)
    logs, beside = logs_of(2000, 5), logs_of(8000, 6)
    (values,) = ValueModel(logs, beside=beside).values([np.full((2000, 3), 1 / 3)])
    known = logs.contexts[:, 0] * logs.actions
    assert np.abs(values.taken - known).mean() < 0.2
    # Surprises of what no regression has seen average to nothing for every action.
    surprises = logs.rewards - values.taken
    assert abs(surprises.mean()) < 4 * surprises.std() / np.sqrt(len(surprises))


def test_long_or_few_decisions_are_valued_step_by_step() -> None:
    many = Trajectories(np.zeros((30_000, 1)), np.zeros(30_000), np.zeros(30_000), np.arange(30_001))
    long = Trajectories(np.zeros((30_000, 1)), np.zeros(30_000), np.zeros(30_000), np.arange(0, 30_001, 2))
    assert is_single(many, None)
    assert not is_single(long, None)
    assert not is_single(many, long)
