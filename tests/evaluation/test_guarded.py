"""The guarded value, and one evaluator for many policies, against answers that are known otherwise."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import guarded
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.scoring import Evaluator, Scoring
from poela.evaluation.weights import weights_of
from poela.stats.contributions import standard_error

ALL = ("sntis", "wdr", "guarded", "fqe")


class Fixed:
    """A policy that always does the same."""

    def __init__(self, *row: float) -> None:
        self._row = row

    def probabilities(self, contexts: FloatArray) -> FloatArray:
        return np.tile(self._row, (len(contexts), 1))


def values(evaluator: Evaluator, policy: Fixed) -> dict[str, float]:
    (evidence,) = evaluator.evidence([policy], ALL)
    return {name: evaluator.value(evidence, name)[0] for name in ALL}


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
    found = values(Evaluator(logs, Scoring(folds=2)), Fixed(1 / 3, 1 / 3, 1 / 3))
    assert np.isfinite(list(found.values())).all()
    assert found["sntis"] == pytest.approx(logs.returns().mean())


def test_with_many_effective_episodes_the_guarded_value_is_wdr() -> None:
    logs = two_step_logs(2000, noise=0.5)
    found = values(Evaluator(logs, Scoring()), Fixed(0.5, 0.5))
    # Belief is 2000 / 2010 at every step.
    expected = found["fqe"] + 2000 / 2010 * (found["wdr"] - found["fqe"])
    assert found["guarded"] == pytest.approx(expected, abs=1e-9)


def test_policies_scored_together_are_scored_as_alone() -> None:
    train, validation = two_step_logs(60, noise=0.5).split((0.5, 0.5), seed=0)
    evaluator = Evaluator(validation, Scoring(folds=2), beside=train)
    policies = [Fixed(1 - chance, chance) for chance in (0.2, 0.5, 0.9)]
    together = list(evaluator.evidence(policies, ALL))
    for policy, evidence in zip(policies, together, strict=True):
        assert {name: evaluator.value(evidence, name)[0] for name in ALL} == pytest.approx(values(evaluator, policy))


def test_values_are_those_of_evaluate() -> None:
    logs, policy = two_step_logs(200, noise=0.5), Fixed(0.25, 0.75)
    found = values(Evaluator(logs, Scoring()), policy)
    for name in ALL:
        assert found[name] == evaluate(policy, logs, estimator=name, interval=None).value


def test_whether_a_policy_is_smoothed_does_not_depend_on_episodes_beside_the_logs() -> None:
    logs = two_step_logs(60, noise=0.5)
    train, held_out = logs.take(np.arange(30)), logs.take(np.arange(30, 60))

    class GreedyThere(Fixed):
        """Greedy along these held-out logs alone."""

        def along(self, steps: Trajectories) -> FloatArray:
            rows = np.tile([0.5, 0.5], (steps.n_steps, 1))
            rows[-held_out.n_steps :] = [0.0, 1.0]
            return rows

        def actor(self, n: int) -> None:
            raise NotImplementedError

    scoring = Scoring(smoothing=0.2, folds=2)
    (beside,) = Evaluator(held_out, scoring, beside=train).evidence([GreedyThere()], ALL)
    (alone,) = Evaluator(held_out, scoring).evidence([GreedyThere()], ALL)
    assert beside.smoothing == alone.smoothing == 0.2
    np.testing.assert_array_equal(beside.weights.episodes, alone.weights.episodes)


def test_a_single_episode_is_valued_by_those_beside_it() -> None:
    logs = two_step_logs(80, noise=0.5)
    train, one = logs.take(np.arange(79)), logs.take([79])
    found = values(Evaluator(one, Scoring(folds=1), beside=train), Fixed(0.5, 0.5))
    assert np.isfinite(found["fqe"])


def test_guarded_value_by_hand() -> None:
    # One step, two episodes, weights 2 and 0: ESS 1, belief 1/11, correction = surprise of the first.
    logs = Trajectories([[0.0], [0.0]], [0, 1], [3.0, 5.0], [0, 1, 2], propensities=np.full((2, 2), 0.5))
    rows = np.array([[1.0, 0.0], [1.0, 0.0]])
    given = ModelValues(np.array([2.0, 1.0]), np.array([2.0, 2.0]), squared_weights=np.array([0.25]))
    found = guarded(Evidence(weights_of(rows, logs), logs, values=given))
    assert found.value == pytest.approx(2.0 + 1.0 / 11)
    # The correction varies as the surprises (1 and 4) would in one effective episode; the rest leans on the model.
    corrected, fitted = np.var([1.0, 4.0]) * (1 / 11) ** 2, np.mean([1.0, 16.0]) * (10 / 11) ** 2 * 0.25
    assert standard_error(found) == pytest.approx(np.sqrt(corrected + fitted))


def test_a_policy_without_weight_is_scored_by_the_model_alone() -> None:
    logs = Trajectories(
        np.zeros((6, 1)), [0, 0, 0, 0, 0, 0], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], np.arange(7), np.full((6, 2), 0.5)
    )
    found = values(Evaluator(logs, Scoring(folds=2)), Fixed(0.0, 1.0))
    assert np.isnan(found["sntis"])
    assert found["guarded"] == found["fqe"]
