"""The value model and the metrics built on it, against answers that are known otherwise."""

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import weights_of
from poela.studies import value_model
from poela.studies.scoring import Scorer, Scoring, guarded_value, joined
from poela.studies.value_model import ValueModel


def two_step_logs(episodes: int, seed: int = 0, noise: float = 0.0) -> Trajectories:
    """Two states, two actions, two steps. Action 1 pays the state (1 or 3); state 1 follows action 1 surely."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, episodes)
    a0, a1 = rng.integers(0, 2, episodes), rng.integers(0, 2, episodes)
    second = a0
    contexts = np.stack([first, second], axis=1).reshape(-1, 1)
    actions = np.stack([a0, a1], axis=1).ravel()
    rewards = np.stack([a0 * (1 + 2 * first), a1 * (1 + 2 * second)], axis=1).ravel()
    return Trajectories(
        contexts,
        actions,
        rewards + noise * rng.normal(size=2 * episodes),
        np.arange(0, 2 * episodes + 1, 2),
        propensities=np.full((2 * episodes, 2), 0.5),
    )


def exact_q(contexts: np.ndarray, steps: np.ndarray, chance: float, discount: float) -> np.ndarray:
    """By hand: the second step pays the state times action; the first also leads there."""
    state = contexts[:, 0].astype(np.float64)
    pays = np.stack([np.zeros(len(state)), 1 + 2 * state], axis=1)
    following = discount * chance * np.array([1.0, 3.0])  # value of state 0 and of state 1
    return np.where(steps[:, None] == 0, pays + following, pays)


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_fitted_values_are_the_exact_ones(discount: float) -> None:
    logs, chance = two_step_logs(400), 0.8
    policy = np.tile([1 - chance, chance], (logs.n_steps, 1))
    found = ValueModel(logs, discount).q(policy[None])[0]
    np.testing.assert_allclose(found, exact_q(logs.contexts, logs.step_numbers, chance, discount), atol=1e-2)


def test_nothing_depends_on_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = two_step_logs(50, noise=0.3)
    policy = np.tile([0.3, 0.7], (logs.n_steps, 1))
    kept = ValueModel(logs).q(policy[None])
    monkeypatch.setattr(value_model, "CACHE_NUMBERS", 0)
    np.testing.assert_array_equal(ValueModel(logs).q(policy[None]), kept)


def test_values_stay_within_what_the_logs_have_shown() -> None:
    logs = two_step_logs(30, noise=1.0)
    q = ValueModel(logs).q(np.tile([0.0, 1.0], (1, logs.n_steps, 1)))[0]
    last = logs.step_numbers == 1
    assert q[last].max() <= logs.rewards[last].max()
    assert q[last].min() >= logs.rewards[last].min()
    assert q[~last].max() <= logs.returns().max()


def test_an_episode_has_no_say_in_its_own_values() -> None:
    logs = two_step_logs(40, noise=0.2)
    rewards = np.array(logs.rewards)
    rewards[-1] += 0.5 * (rewards.max() - rewards[-1])  # within the range that was there before
    changed = Trajectories(logs.contexts, logs.actions, rewards, logs.offsets, logs.propensities)
    policy = np.full((logs.n_steps, 2), 0.5)
    before, after = ValueModel(logs).q(policy[None])[0], ValueModel(changed).q(policy[None])[0]
    np.testing.assert_array_equal(before[-2:], after[-2:])
    assert not np.array_equal(before, after)


def test_ragged_and_tiny_logs_are_scored_without_a_word() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, size=7)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = offsets[-1]
    logs = Trajectories(
        rng.normal(size=(steps, 2)),
        rng.integers(0, 3, steps),
        rng.normal(size=steps),
        offsets,
        np.full((steps, 3), 1 / 3),
    )
    (metrics,) = Scorer(logs, Scoring()).score_probabilities(np.full((1, steps, 3), 1 / 3))
    assert all(value is not None for value in metrics.values())
    assert metrics["sntis"] == pytest.approx(logs.returns().mean())
    assert metrics["ess"] == pytest.approx(7)


def test_with_many_effective_episodes_the_guarded_value_is_wdr() -> None:
    logs = two_step_logs(2000, noise=0.5)
    (metrics,) = Scorer(logs, Scoring()).score_probabilities(np.full((1, logs.n_steps, 2), 0.5))
    assert metrics["ess"] == pytest.approx(2000)
    wdr, model = metrics["wdr"], metrics["model"]
    assert wdr is not None
    assert model is not None
    # Belief is 2000 / 2010 at every step.
    assert metrics["guarded"] == pytest.approx(model + 2000 / 2010 * (wdr - model), abs=1e-9)


def test_policies_scored_together_are_scored_as_alone() -> None:
    train, validation = two_step_logs(60, noise=0.5).split((0.5, 0.5), seed=0)
    scorer = Scorer(validation, Scoring(), train)
    steps = train.n_steps + validation.n_steps
    policies = np.stack([np.tile([1 - chance, chance], (steps, 1)) for chance in (0.2, 0.5, 0.9)])
    together = scorer.score_probabilities(policies)
    for policy, metrics in zip(policies, together, strict=True):
        (alone,) = scorer.score_probabilities(policy[None])
        assert metrics == pytest.approx(alone, rel=1e-9)


def test_training_episodes_help_to_fit_but_are_not_asked() -> None:
    logs = two_step_logs(60, noise=0.5)
    train, validation = logs.take(np.arange(40)), logs.take(np.arange(40, 60))
    policy = np.full((1, logs.n_steps, 2), 0.5)
    q = ValueModel(joined(train, validation), never_asked=40).q(policy)[0]
    assert not q[: train.n_steps].any()
    alone = ValueModel(validation).q(policy[:, train.n_steps :])[0]
    exact = exact_q(validation.contexts, validation.step_numbers, 0.5, 1.0)
    assert np.abs(q[train.n_steps :] - exact).mean() < np.abs(alone - exact).mean()


def test_metrics_agree_with_evaluate() -> None:
    logs = two_step_logs(200, noise=0.5)
    rows = np.tile([0.25, 0.75], (logs.n_steps, 1))

    class Policy:
        def probabilities(self, contexts: np.ndarray) -> np.ndarray:
            return rows

    scorer = Scorer(logs, Scoring())
    (metrics,) = scorer.score([Policy()])
    sntis = evaluate(Policy(), logs, estimator="sntis", interval=None)
    assert (metrics["sntis"], metrics["sntis_error"], metrics["ess"]) == (
        sntis.value,
        sntis.standard_error,
        sntis.ess,
    )
    assert scorer._model is not None
    q = scorer._model.q(rows[None])[0]

    class Model:
        def q(self, trajectories: Trajectories) -> np.ndarray:
            found: np.ndarray = q
            return found

    assert metrics["wdr"] == evaluate(Policy(), logs, estimator="wdr", q=Model(), interval=None).value


def test_guarded_value_by_hand() -> None:
    # One step, two episodes, weights 2 and 0: ESS 1, belief 1/11, correction = surprise of the first.
    logs = Trajectories([[0.0], [0.0]], [0, 1], [3.0, 5.0], [0, 1, 2], propensities=np.full((2, 2), 0.5))
    rows = np.array([[1.0, 0.0], [1.0, 0.0]])
    values = ModelValues(taken=np.array([2.0, 1.0]), expected=np.array([2.0, 2.0]))
    evidence = Evidence(weights_of(rows, logs), logs, values=values)
    value, error = guarded_value(evidence, squared_weights=np.array([0.25]))
    assert value == pytest.approx(2.0 + 1.0 / 11)
    corrected, fitted = np.var([1.0, 4.0]) * (1 / 11) ** 2, np.mean([1.0, 16.0]) * (10 / 11) ** 2 * 0.25
    assert error == pytest.approx(np.sqrt(corrected + fitted))


def test_squared_weights_are_those_of_the_fitted_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fitted value is linear in rewards, so its derivative by each reward is that reward's weight."""
    monkeypatch.setattr(value_model, "FOLDS", 1)
    monkeypatch.setattr(ValueModel, "_rows_to_fit", lambda self, fold, step, rows: rows)
    logs = two_step_logs(12, noise=0.4)
    policy = np.tile([0.3, 0.7], (logs.n_steps, 1))

    def model_of(rewards: np.ndarray) -> ValueModel:
        model = ValueModel(Trajectories(logs.contexts, logs.actions, rewards, logs.offsets, logs.propensities))
        model._lowest, model._highest = np.full(2, -np.inf), np.full(2, np.inf)  # clipping is not linear
        model._cache = first._cache  # nor is the choice of penalties
        return model

    first = ValueModel(logs)

    def value(rewards: np.ndarray) -> float:
        expected = (policy * model_of(rewards).q(policy[None])[0]).sum(axis=1)
        return float(expected[logs.offsets[:-1]].mean())

    steps = np.eye(logs.n_steps)
    weights = np.array([value(logs.rewards + step) - value(logs.rewards) for step in steps])
    by_step = [np.square(weights[logs.step_numbers == step]).sum() for step in range(2)]
    np.testing.assert_allclose(first.squared_weights(policy[None])[0], by_step, rtol=1e-6)


def test_squared_weights_near_one_over_n_on_the_logs_own_path_and_large_off_it() -> None:
    logs = two_step_logs(400, noise=0.2)
    own = ValueModel(logs).squared_weights(np.full((1, logs.n_steps, 2), 0.5))[0]
    np.testing.assert_allclose(own, 1 / 200, rtol=0.2)  # one of two folds
    always = ValueModel(logs).squared_weights(np.tile([0.0, 1.0], (1, logs.n_steps, 1)))[0]
    assert (always > 1.5 * own).all()


def test_a_policy_without_weight_is_scored_by_the_model_alone() -> None:
    logs = Trajectories(
        np.zeros((6, 1)), [0, 0, 0, 0, 0, 0], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], np.arange(7), np.full((6, 2), 0.5)
    )
    (metrics,) = Scorer(logs, Scoring(smoothing=0.0)).score_probabilities(np.tile([0.0, 1.0], (1, 6, 1)))
    assert metrics["sntis"] is None
    assert metrics["ess"] == 0.0
    assert metrics["guarded"] == metrics["model"]
