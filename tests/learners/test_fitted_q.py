"""FittedQ against values worked out by hand, its path of temperatures, and the tumor task."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError, TrainingError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import MinimumProbability, Radius
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.learners.fitted_q import FittedQ
from poela.policies.valued import TiltedPolicy
from poela.regression import backward_induction
from poela.regression.ridge import Features
from poela.regression.step_regression import Chosen, RidgeColumns, StepRidge
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised

EXACT: dict[str, Any] = {"penalty": 1e-6, "history": 0}  # a quadratic fits a binary context exactly


def two_steps(seed: int = 0, episodes: int = 400) -> Trajectories:
    """x is 0 or 1, the same in both steps; first action 1 costs 1, then action 1 pays 4·x − 1; μ is (3/4, 1/4)."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.integers(2, size=episodes), 2)
    actions = (rng.random(2 * episodes) < 0.25).astype(int)
    first = np.arange(2 * episodes) % 2 == 0
    rewards = np.where(first, -1.0 * actions, actions * (4.0 * x - 1.0))
    chances = np.tile([0.75, 0.25], (2 * episodes, 1))
    return Trajectories(x[:, None], actions, rewards, np.arange(0, 2 * episodes + 1, 2), chances)


class Mu(Memoryless):
    def probabilities(self, contexts: Any) -> FloatArray:
        return np.tile([0.75, 0.25], (len(contexts), 1))


def by_hand() -> FloatArray:
    """Q at x = 0 and x = 1, for each step: [step, x, action]."""
    last = np.array([[0.0, -1.0], [0.0, 3.0]])
    first = np.array([[0.0, -1.0], [0.0, -1.0]]) + last.max(axis=1)[:, None]
    return np.stack([first, last])


def test_values_and_policy_equal_those_worked_out_by_hand() -> None:
    for temperature in (0.5, 3.0):
        policy: TiltedPolicy = FittedQ(temperature=temperature, **EXACT).fit(two_steps(), behavior=Mu())
        for step, q in enumerate(by_hand()):
            np.testing.assert_allclose(
                policy.values.q_at(np.array([[0.0], [1.0]], np.float32), np.array([step] * 2)), q, atol=1e-3
            )
            tilted = np.array([0.75, 0.25]) * np.exp(q / temperature)
            found = policy.probabilities([[0.0], [1.0]], steps=[step, step])
            np.testing.assert_allclose(found, tilted / tilted.sum(axis=1, keepdims=True), atol=1e-3)


def test_zero_temperature_is_greedy_and_the_limit_of_low_ones() -> None:
    greedy = FittedQ(**EXACT).fit(two_steps(), behavior=Mu())
    nearly = FittedQ(temperature=1e-3, **EXACT).fit(two_steps(), behavior=Mu())
    np.testing.assert_array_equal(greedy.probabilities([[0.0], [1.0]], steps=[1, 1]), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(greedy.probabilities([[0.0], [1.0]], steps=[0, 0]), [[1, 0], [1, 0]])
    logs = two_steps(seed=1)
    np.testing.assert_allclose(nearly.along(logs), greedy.along(logs), atol=1e-12)


def test_an_infinite_temperature_would_be_the_logging_policy() -> None:
    logs = two_steps()
    np.testing.assert_allclose(FittedQ(temperature=1e9).fit(logs).along(logs), Mu().along(logs), atol=1e-6)


def test_barred_actions_do_not_enter_the_values() -> None:
    logs = two_steps()
    rule = MinimumProbability(0.5)  # bars action 1 everywhere
    policy = FittedQ(rule=rule, temperature=1.0, **EXACT).fit(logs, behavior=Mu())
    np.testing.assert_array_equal(policy.along(logs), np.tile([1.0, 0.0], (logs.n_steps, 1)))
    first = policy.values.q_at(np.array([[1.0]], np.float32), np.array([0]))
    np.testing.assert_allclose(first, [[0.0, -1.0]], atol=1e-3)  # 3 is not to be had


def test_actions_that_the_logging_policy_never_takes_stay_at_zero_where_others_are_eligible() -> None:
    class Never(Memoryless):
        def probabilities(self, contexts: Any) -> FloatArray:
            return np.tile([1.0, 0.0], (len(contexts), 1))

    logs = two_steps()
    for temperature in (0.0, 0.5):
        rows = FittedQ(temperature=temperature, **EXACT).fit(logs, behavior=Never()).along(logs)
        np.testing.assert_array_equal(rows, np.tile([1.0, 0.0], (logs.n_steps, 1)))
    only_one = logs.take(np.flatnonzero(np.add.reduceat(logs.actions, logs.offsets[:-1]) == 2))  # all took action 1
    rows = FittedQ(rule=Radius(0.1), **EXACT).fit(only_one, behavior=Never()).along(only_one)
    np.testing.assert_array_equal(rows, np.tile([0.0, 1.0], (only_one.n_steps, 1)))


def test_the_path_falls_to_the_temperature_with_one_set_of_regressions() -> None:
    path = list(FittedQ(temperature=0.3).fit_path(two_steps()))
    temperatures = [point.policy.temperature for point in path]
    assert temperatures == sorted(temperatures, reverse=True)
    assert temperatures[-1] == 0.3
    assert all(point.policy.values is path[0].policy.values for point in path)
    assert path[-1].note == "temperature 0.3"
    given = FittedQ(temperatures=(4.0, 1.0, 0.1), temperature=0.5).fit_path(two_steps())
    assert [point.policy.temperature for point in given] == [4.0, 1.0, 0.5]


def test_the_default_path_does_not_depend_on_the_units_of_rewards() -> None:
    logs = two_steps()
    scaled = replace(logs, rewards=logs.rewards * 1000)
    paths = [list(FittedQ().fit_path(train)) for train in (logs, scaled)]
    assert len(paths[0]) == len(paths[1]) > 10
    for one, other in zip(*paths, strict=True):
        np.testing.assert_allclose(one.policy.along(logs), other.policy.along(logs), atol=1e-6)


def test_the_default_path_starts_where_log_weights_vary_by_about_a_half() -> None:
    train, logs = two_steps(), two_steps(seed=3, episodes=4000)
    mild = next(iter(FittedQ(**EXACT).fit_path(train, behavior=Mu()))).policy
    rows = np.arange(logs.n_steps)
    ratios = np.log(mild.along(logs)[rows, logs.actions] / logs.logged_propensities)
    assert np.add.reduceat(ratios, logs.offsets[:-1]).std() == pytest.approx(0.5, abs=0.1)


def test_the_nearest_logged_propensities_stand_in_for_a_behavior_model() -> None:
    logs = two_steps()
    known, nearest = (FittedQ(temperature=1.0).fit(logs, behavior=behavior) for behavior in (Mu(), None))
    np.testing.assert_allclose(known.along(logs), nearest.along(logs), atol=1e-12)


@pytest.mark.parametrize("kept", ["none", "logged"])
def test_without_all_propensities_a_behavior_model_is_asked_for(kept: str) -> None:
    logs = two_steps()
    poorer = logs.with_propensities(None if kept == "none" else logs.logged_propensities)
    with pytest.raises(InputError, match="give a behavior model"):
        FittedQ().fit(poorer)
    FittedQ().fit(poorer, behavior=Mu())


def test_loose_contexts_need_their_step_and_history_needs_episodes() -> None:
    without = FittedQ(history=0).fit(two_steps())
    with pytest.raises(InputError, match="give the step numbers"):
        without.probabilities([[0.0]])
    with pytest.raises(InputError, match=r"along\(trajectories\) or actor\(n\)"):
        FittedQ(history=1).fit(two_steps()).probabilities([[0.0]], steps=[0])


def test_history_finds_what_the_current_context_hides() -> None:
    rng = np.random.default_rng(0)
    signal = rng.integers(2, size=500)
    contexts = np.zeros((1000, 1))
    contexts[::2, 0] = signal  # shown first, needed second
    actions = rng.integers(2, size=1000)
    rewards = np.where(np.arange(1000) % 2 == 1, actions == np.repeat(signal, 2), 0.0)
    logs = Trajectories(contexts, actions, rewards, np.arange(0, 1001, 2), np.full((1000, 2), 0.5))
    blind, seeing = (FittedQ(history=steps).fit(logs).along(logs)[1::2] for steps in (0, 1))
    np.testing.assert_array_equal(seeing.argmax(axis=1), signal)
    assert len(np.unique(blind, axis=0)) == 1


def test_wrong_settings_are_listed_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        FittedQ(temperature=-1.0, temperatures=(1.0, -2.0), history=-1, discount=0.0, penalty=0.0)
    assert len(caught.value.problems) == 5
    with pytest.raises(InputError, match="falling order"):
        FittedQ(temperatures=(1.0, 2.0))


def test_values_beyond_every_return_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def wild(self: StepRidge, features: Features, targets: FloatArray, chosen: Chosen | None = None) -> RidgeColumns:
        coefficients = np.full((2, features.width, targets.shape[1]), 1e6)
        return RidgeColumns(self.center, self.scale, coefficients, {})

    monkeypatch.setattr(StepRidge, "fit", wild)
    with pytest.raises(TrainingError, match="FittedQ: values diverged"):
        FittedQ(history=0).fit(two_steps())


def test_all_temperatures_at_once_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def path() -> list[FloatArray]:
        learner = FittedQ(backup="soft", temperatures=(2.0, 1.0, 0.5), temperature=0.25, history=1)
        return [point.policy.along(logs) for point in learner.fit_path(logs)]

    logs = two_steps()
    together = path()
    monkeypatch.setattr(backward_induction, "MOST_NUMBERS", 1)
    np.testing.assert_allclose(together, path(), atol=1e-9)
    for temperature, policy in zip((2.0, 1.0, 0.5, 0.25), together, strict=True):
        alone = FittedQ(backup="soft", temperatures=(), temperature=temperature, history=1).fit(logs)
        np.testing.assert_allclose(policy, alone.along(logs), atol=1e-9)


def test_a_behavior_that_cannot_be_saved_is_named(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="cannot be saved, since it is made of Mu"):
        FittedQ().fit(two_steps(), behavior=Mu()).save(tmp_path / "policy")


def test_the_tumor_path_leads_from_verifiable_to_valuable() -> None:
    simulator = TumorGrowth()
    train, validation = (run(simulator, TumorBehavior(), 400, seed=seed) for seed in (11, 12))
    values, sizes = [], []
    for point in FittedQ(temperatures=(4.0, 2.0, 1.0, 0.25)).fit_path(train, behavior=TumorBehavior()):
        values.append(normalised(true_value(point.policy, simulator, 300).value))
        estimate = evaluate(point.policy, validation, interval=None)
        sizes.append(estimate.ess)
    # The logging policy is worth 48; the path of the same learner on 1000 episodes is 64, 74, 86, 98 (and greedy).
    assert values[:4] == sorted(values[:4])
    assert values[0] > 58
    assert values[3] > 90
    assert sizes[:4] == sorted(sizes[:4], reverse=True)
    assert sizes[0] > 100
    # Importance sampling cannot verify the greedy end, and says so.
    assert estimate.ess == 0
    assert np.isnan(estimate.value)
    assert any("every weight is zero" in warning for warning in estimate.warnings)


def test_learners_on_one_log_share_their_decompositions(monkeypatch: pytest.MonkeyPatch) -> None:
    decomposed: list[int] = []
    prepare = StepRidge.of

    def counted(*given: Any, **named: Any) -> StepRidge:
        decomposed.append(1)
        return prepare(*given, **named)

    monkeypatch.setattr(StepRidge, "of", counted)
    logs = two_steps()
    alone = FittedQ(backup="soft", regressor="ridge").fit(two_steps()).along(logs)
    assert len(decomposed) == 2  # one for each step, for all temperatures
    FittedQ(regressor="ridge").fit(logs)
    shared = FittedQ(backup="soft", regressor="ridge").fit(logs).along(logs)
    assert len(decomposed) == 4
    np.testing.assert_array_equal(shared, alone)
    FittedQ(discount=0.5, regressor="ridge").fit(logs)
    FittedQ(penalty=5.0, regressor="ridge").fit(logs)
    assert len(decomposed) == 8


@pytest.mark.parametrize("history", [0, 1])
def test_what_is_kept_for_a_log_goes_with_it(history: int) -> None:
    logs = two_steps()
    learner = FittedQ(history=history)
    kept = weakref.ref(learner.induction(logs, seed=0, chances=Mu().along(logs)))
    assert kept() is learner.induction(logs, seed=1, chances=Mu().along(logs))
    del logs
    gc.collect()
    assert kept() is None
