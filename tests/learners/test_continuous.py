"""Learning real-valued actions: known optima, the floor of effective episodes, clipped steps, and the penalty."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from poela import ContinuousClone, ContinuousPOELA, GaussianBehavior, Trajectories, evaluate
from poela.core.arrays import FloatArray
from poela.eligibility.continuous import ContinuousEligibility, fitted
from poela.evaluation.rollouts import true_value
from poela.evaluation.weights import log_weights
from poela.learners.advantages import generalised_advantages, returns_to_go
from poela.learners.implicit_q import IQL
from poela.simulators.doses import Dosing, Titration
from poela.simulators.registry import simulate
from poela.stats.weights import effective_sample_size
from poela.studies.runs import SHARES, ambition_path


def bandit(n: int = 3000, seed: int = 0) -> Trajectories:
    """One dose without a context that matters: worth 10 − (dose − 3)², logged around 2."""
    rng = np.random.default_rng(seed)
    doses = 2 + rng.normal(size=(n, 1))
    worth = 10 - np.square(doses[:, 0] - 3) + 0.5 * rng.normal(size=n)
    densities = -np.square(doses[:, 0] - 2) / 2 - np.log(2 * np.pi) / 2
    return Trajectories(rng.normal(size=(n, 1)), doses, worth, range(n + 1), log_densities=densities)


@pytest.mark.parametrize("radius", [None, "q100"])
def test_a_bandit_is_solved_within_two_percent(radius: str | None) -> None:
    policy = ContinuousPOELA(hidden=(16,), least_ess=200, radius=radius, steps=400).fit(bandit(), seed=0)
    contexts = np.random.default_rng(1).normal(size=(20_000, 1))
    doses = policy.sample(contexts, np.random.default_rng(2))
    worth = 10 - np.square(doses[:, 0] - 3)
    assert worth.mean() > 0.98 * 10  # of the optimum
    assert policy.moments(contexts)[0].mean() == pytest.approx(3.0, rel=0.05)


def test_the_best_dose_of_each_patient_is_found() -> None:
    simulator = Dosing()
    policy = ContinuousPOELA(least_ess=150, steps=400).fit(simulate("dosing", episodes=2000), seed=0)
    found = true_value(policy, simulator, episodes=5000)
    before, best = simulator.value(simulator.behavior), 10.0
    assert found.value > before + 0.75 * (best - before)


def test_the_floor_of_effective_episodes_is_kept() -> None:
    logs = simulate("titration", episodes=400)
    bold, careful = (
        ContinuousPOELA(hidden=(16,), least_ess=least, steps=200, clone_steps=300).fit(logs) for least in (0.0, 200.0)
    )
    ess = [effective_sample_size(log_weights(policy, logs).episodes) for policy in (bold, careful)]
    assert ess[0] < 100 < 180 < ess[1]


def test_clipped_steps_stay_near_and_improve() -> None:
    simulator, logs = Titration(), simulate("titration", episodes=400)
    policy = ContinuousPOELA(ratios="step", hidden=(32,), steps=150, value_steps=300, clone_steps=400).fit(logs, seed=0)
    ratios = log_weights(policy, logs).log_ratios
    assert effective_sample_size(ratios) > 0.7 * logs.n_steps
    found = true_value(policy, simulator, episodes=4000)
    assert found.value > simulator.value(simulator.behavior) + 0.3


def test_long_episodes_are_learned_by_steps() -> None:
    logs = simulate("titration", episodes=80)
    long = Trajectories(logs.contexts, logs.actions, logs.rewards, range(0, 801, 40), log_densities=logs.log_densities)
    auto, by_step, whole = (
        ContinuousPOELA(ratios=ratios, hidden=(4,), steps=3, value_steps=5, clone_steps=5).fit(long)
        for ratios in ("auto", "step", "episode")
    )
    densities = [policy.log_density(long.contexts, long.actions) for policy in (auto, by_step, whole)]
    np.testing.assert_array_equal(densities[0], densities[1])
    assert not np.array_equal(densities[0], densities[2])


def test_the_penalty_draws_actions_towards_logged_ones() -> None:
    logs = simulate("dosing", episodes=500)
    logged = fitted(ContinuousEligibility(0.0, neighbours=32), logs)

    def distance(penalty: float) -> float:
        policy = ContinuousPOELA(distance_penalty=penalty, hidden=(16,), steps=150, clone_steps=200).fit(logs)
        return float(logged.distances(logs.contexts, policy.sample(logs.contexts, np.random.default_rng(0))).mean())

    assert distance(5.0) < 0.8 * distance(0.0)


def test_advantages_are_the_sums_by_definition() -> None:
    rng = np.random.default_rng(0)
    rewards, values, offsets = rng.normal(size=6), rng.normal(size=6), np.array([0, 2, 3, 6])
    found = generalised_advantages(rewards, values, offsets, discount=0.9, trace=0.8)

    def by_hand(step: int, end: int) -> float:
        total = 0.0
        for k in range(step, end):
            following = values[k + 1] if k + 1 < end else 0.0
            total += (0.9 * 0.8) ** (k - step) * (rewards[k] + 0.9 * following - values[k])
        return total

    expected = [by_hand(step, end) for start, end in [(0, 2), (2, 3), (3, 6)] for step in range(start, end)]
    np.testing.assert_allclose(found, expected)
    logs = Trajectories(np.zeros((6, 1)), np.zeros((6, 1)), rewards, offsets)
    assert returns_to_go(logs, 0.5)[3] == pytest.approx(rewards[3:] @ [1, 0.5, 0.25])


def test_iql_improves_on_the_logging_policy() -> None:
    simulator = Dosing()
    policy = IQL(hidden=(32,), steps=500).fit(simulate("dosing", episodes=1000), seed=0)
    found = true_value(policy, simulator, episodes=4000)
    assert found.value > simulator.value(simulator.behavior) + 0.5


def test_the_clone_is_the_logging_policy() -> None:
    simulator, logs = Titration(), simulate("titration", episodes=500)
    policy = ContinuousClone().fit(logs, seed=0)
    fresh = simulate("titration", episodes=500, seed=9)
    assert evaluate(policy, fresh, interval=None).ess > 0.8 * 500
    found = true_value(policy, simulator, episodes=4000)
    assert found.value == pytest.approx(simulator.value(simulator.behavior), abs=0.35)


def test_a_linear_form_is_taken_where_it_is_as_likely() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    straight, bent = x @ [[1.0], [-0.5]], np.abs(2 * x[:, :1])
    for mean, rows, linear in ((straight, 150, True), (bent, 800, False)):
        doses = mean + 0.5 * rng.normal(size=(800, 1))
        logs = Trajectories(x[:rows], doses[:rows], np.zeros(rows), np.arange(rows + 1))
        model = GaussianBehavior(max_steps=500).fit(logs)
        assert (model.network.shape.hidden == ()) == linear
        assert np.abs(model.moments(x)[0] - mean).mean() < 0.2
    assert GaussianBehavior(max_steps=50, linear=False).fit(logs.take(range(100))).network.shape.hidden == (32, 32)


def test_annotation_is_cross_fitted_and_near_the_truth() -> None:
    logs = simulate("dosing", episodes=600)
    behavior = GaussianBehavior(hidden=(16,), steps=300)
    estimated = behavior.annotate(logs.with_log_densities(None), folds=3)
    assert estimated.estimated
    off = np.asarray(estimated.log_densities) - np.asarray(logs.log_densities)
    assert np.abs(off).mean() < 0.2
    within = behavior.fit(logs).log_density(logs.contexts, logs.actions)
    assert not np.array_equal(within, np.asarray(estimated.log_densities))


class Constant:
    """Any density policy can be evaluated, not ours alone."""

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        return np.full(len(np.asarray(contexts)), -1.0)

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        return np.zeros((len(np.asarray(contexts)), 1))


def test_the_path_leads_from_the_logging_policy_to_what_was_learned() -> None:
    logs = simulate("titration", episodes=200)
    learner = ContinuousPOELA(hidden=(16,), steps=60, radius="q100")
    checkpoints = list(learner.fit_path(logs))
    path = ambition_path(learner, checkpoints, logs, learner.clone(logs, 0))
    ess = [effective_sample_size(log_weights(point.policy, logs).episodes) for point in path]
    assert len(path) == len(SHARES)
    assert ess[0] > 0.85 * 200
    assert ess == sorted(ess, reverse=True)
    last, learned = (one.log_density(logs.contexts, logs.actions) for one in (path[-1].policy, checkpoints[-1].policy))
    np.testing.assert_allclose(last, learned)
    assert evaluate(Constant(), logs, interval=None).n_episodes == 200
