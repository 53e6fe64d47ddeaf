"""Weights of real-valued actions: against SciPy, closed forms, and an enumerated problem of one dose."""

import numpy as np
import pytest
from scipy import integrate, stats

from poela import InputError, Trajectories, evaluate
from poela.core.arrays import FloatArray
from poela.core.policy import gaussian_log_density, standard_normal
from poela.evaluation.rollouts import true_value
from poela.evaluation.weights import log_weights
from poela.simulators.doses import Dosing, LinearGaussian, Titration
from poela.simulators.episodes import run
from poela.simulators.registry import simulate


def test_gaussian_densities_are_scipys() -> None:
    rng = np.random.default_rng(0)
    actions, mean, std = rng.normal(size=(50, 3)), rng.normal(size=(50, 3)), rng.uniform(0.1, 3, size=(50, 3))
    expected = [
        stats.multivariate_normal(m, np.diag(s**2)).logpdf(a) for a, m, s in zip(actions, mean, std, strict=True)
    ]
    np.testing.assert_allclose(gaussian_log_density(actions, mean, std), expected, rtol=1e-9)
    assert stats.kstest(standard_normal((5000,), rng), "norm").pvalue > 0.001


def test_log_weights_are_differences_of_scipys_log_densities() -> None:
    logs = simulate("titration", episodes=20)
    target, behavior = LinearGaussian(0.1, (0.9, 1.8), 0.5), Titration().behavior
    ratios = [
        stats.norm(policy.mean(logs.contexts)[:, 0], policy.std).logpdf(logs.actions[:, 0])
        for policy in (target, behavior)
    ]
    weights = log_weights(target, logs)
    np.testing.assert_allclose(weights.log_ratios, ratios[0] - ratios[1], atol=1e-9)
    sums = (ratios[0] - ratios[1]).reshape(20, 10).sum(axis=1)
    np.testing.assert_allclose(weights.episodes, sums, atol=1e-8)
    used = np.minimum(np.exp(sums), 1000.0)
    by_hand = (used * logs.returns()).sum() / used.sum()
    estimate = evaluate(target, logs)
    assert estimate.value == pytest.approx(by_hand)
    assert estimate.ess == pytest.approx(used.sum() ** 2 / np.square(used).sum())


def test_the_logging_policy_weighs_one_everywhere() -> None:
    logs = simulate("titration", episodes=50)
    estimate = evaluate(Titration().behavior, logs)
    assert estimate.ess == pytest.approx(50.0)
    assert estimate.value == pytest.approx(logs.returns().mean())
    assert estimate.gain is not None
    assert estimate.gain.value == pytest.approx(0.0, abs=1e-12)


def test_the_mean_weight_and_its_variance_are_the_closed_form() -> None:
    # For N(δ, 1) against N(0, 1), E[w²] = exp(δ²), so that the effective share is exp(−δ²).
    rng, shift = np.random.default_rng(1), 0.5
    actions = rng.normal(size=(200_000, 1))
    logs = Trajectories(
        np.zeros((len(actions), 1)),
        actions,
        actions[:, 0],
        range(len(actions) + 1),
        log_densities=stats.norm.logpdf(actions[:, 0]),
    )
    policy = LinearGaussian(shift, (0.0,), 1.0)
    weights = np.exp(log_weights(policy, logs).episodes)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    estimate = evaluate(policy, logs, interval=None)
    assert estimate.ess / len(actions) == pytest.approx(np.exp(-(shift**2)), abs=0.01)
    assert estimate.value == pytest.approx(shift, abs=0.02)


class Three:
    """Three kinds of patients, each with its own dose and spread."""

    means, stds = np.array([0.2, 1.0, 2.5]), np.array([0.6, 0.8, 0.7])

    def _of(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        kind = np.asarray(contexts)[:, 0].astype(int)
        return self.means[kind][:, None], self.stds[kind][:, None]

    def log_density(self, contexts: FloatArray, actions: FloatArray) -> FloatArray:
        return gaussian_log_density(actions, *self._of(contexts))

    def sample(self, contexts: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean, std = self._of(contexts)
        return mean + std * standard_normal(mean.shape, rng)


class Other(Three):
    means, stds = np.array([0.5, 0.8, 2.0]), np.array([0.5, 0.6, 0.6])


def test_an_enumerated_problem_of_one_dose() -> None:
    """Kinds of patients are counted, doses integrated: the estimate comes within its error of that."""
    best, chances = np.array([1.0, 0.5, 2.0]), np.array([0.5, 0.3, 0.2])

    def value(kind: int) -> float:
        mean, std = Other.means[kind], Other.stds[kind]
        worth = integrate.quad(
            lambda dose: np.sin(dose - best[kind]) * stats.norm.pdf(dose, mean, std), mean - 9 * std, mean + 9 * std
        )
        return float(worth[0])

    exact = sum(chance * value(kind) for kind, chance in enumerate(chances))
    rng, n = np.random.default_rng(3), 20_000
    kinds = rng.choice(3, n, p=chances)
    contexts, behavior = kinds[:, None].astype(np.float64), Three()
    doses = behavior.sample(contexts, rng)
    rewards = np.sin(doses[:, 0] - best[kinds])
    logs = Trajectories(contexts, doses, rewards, range(n + 1), log_densities=behavior.log_density(contexts, doses))
    estimate = evaluate(Other(), logs)
    assert estimate.value == pytest.approx(exact, abs=4 * estimate.standard_error)
    assert estimate.standard_error < 0.02


@pytest.mark.parametrize("simulator", [Dosing(), Titration()])
def test_simulators_have_the_value_that_they_say(simulator: Dosing | Titration) -> None:
    for policy in (simulator.behavior, LinearGaussian(0.5, (1.2, 1.9), 0.4)):
        found = true_value(policy, simulator, episodes=20_000)
        assert found.value == pytest.approx(simulator.value(policy), abs=4 * found.standard_error)


def test_the_truth_is_found_from_logs_of_another_policy() -> None:
    simulator, target = Titration(), LinearGaussian(0.0, (0.6, 1.6), 0.55)
    estimate = evaluate(target, run(simulator, simulator.behavior, 2000, seed=5))
    assert estimate.low is not None
    assert estimate.low < simulator.value(target) < estimate.high  # type: ignore[operator]
    assert estimate.verdict == "trust"


def test_what_needs_more_says_so_in_one_sentence() -> None:
    logs = simulate("dosing", episodes=30)
    policy = Dosing().behavior
    with pytest.raises(InputError, match="rests on a model of values needs a finite set of actions"):
        evaluate(policy, logs, estimator="wdr")
    with pytest.raises(InputError, match="these logs carry no log densities"):
        evaluate(policy, logs.with_log_densities(None))
    with pytest.raises(InputError, match="is no policy of real-valued actions"):
        evaluate(object(), logs)  # type: ignore[arg-type]

    class Lost(LinearGaussian):
        def log_density(self, contexts: object, actions: object) -> FloatArray:
            return np.full(30, np.nan)

    with pytest.raises(InputError, match="30 of the policy's log densities are NaN"):
        evaluate(Lost(0.0, (0.0, 0.0), 1.0), logs)
    with pytest.raises(InputError, match="cannot act here: actions are real numbers"):
        run(Dosing(), object(), 3)  # type: ignore[arg-type]
    assert isinstance(simulate("bandit", episodes=3), Trajectories)
