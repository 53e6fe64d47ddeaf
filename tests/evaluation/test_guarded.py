"""Validation metrics against answers that are known otherwise."""

import numpy as np
import pytest
from poela.studies.scoring import Scorer, Scoring, guarded_value

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import weights_of


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


def test_metrics_are_those_of_evaluate() -> None:
    logs = two_step_logs(200, noise=0.5)
    rows = np.tile([0.25, 0.75], (logs.n_steps, 1))

    class Policy:
        def probabilities(self, contexts: np.ndarray) -> np.ndarray:
            return rows

    (metrics,) = Scorer(logs, Scoring()).score([Policy()])
    found = {name: evaluate(Policy(), logs, estimator=name, interval=None) for name in ("sntis", "wdr", "fqe")}
    for name in ("sntis", "wdr"):
        assert (metrics[name], metrics[f"{name}_error"]) == (found[name].value, found[name].standard_error)
    assert metrics["model"] == found["fqe"].value
    assert metrics["ess"] == found["sntis"].ess


def test_a_single_validation_episode_is_valued_by_those_of_training() -> None:
    logs = two_step_logs(80, noise=0.5)
    train, validation = logs.take(np.arange(79)), logs.take([79])
    (metrics,) = Scorer(validation, Scoring(), train).score_probabilities(np.full((1, logs.n_steps, 2), 0.5))
    assert metrics["model"] is not None


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


def test_a_policy_without_weight_is_scored_by_the_model_alone() -> None:
    logs = Trajectories(
        np.zeros((6, 1)), [0, 0, 0, 0, 0, 0], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], np.arange(7), np.full((6, 2), 0.5)
    )
    (metrics,) = Scorer(logs, Scoring(smoothing=0.0)).score_probabilities(np.tile([0.0, 1.0], (1, 6, 1)))
    assert metrics["sntis"] is None
    assert metrics["ess"] == 0.0
    assert metrics["guarded"] == metrics["model"]
