"""Objects where actions are real numbers: policies, learners and models of the logging policy from elsewhere."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, uniform
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import poela
from poela.behavior.normal import RegressorBehavior
from poela.core.errors import InputError
from poela.core.policy import log_prob_of
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights
from poela.policies.foreign import as_ruled
from poela.simulators.doses import Dosing

QUICK: dict[str, Any] = {"folds": 2, "no_audit": True, "backend": "inline"}


class Flat:
    """Doses evenly between two ends, whatever the context: no Gaussian."""

    def __init__(self, low: float = 0.0, high: float = 3.0) -> None:
        self.low, self.high = low, high

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(uniform(self.low, self.high - self.low).logpdf(np.asarray(actions)[:, 0]))

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.uniform(self.low, self.high, (len(np.asarray(contexts)), 1))


class Shifted:
    """A normal dose half a unit above the mean of its training doses."""

    def fit(self, logs: Trajectories) -> "Shifted":
        self.mean = logs.actions.mean() + 0.5
        return self

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(norm(self.mean, 1.0).logpdf(np.asarray(actions)[:, 0]))

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.normal(self.mean, 1.0, (len(np.asarray(contexts)), 1))


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return poela.simulate("dosing", episodes=300, seed=1)


def test_every_policy_tells_the_logarithm_of_what_it_does(logs: Trajectories) -> None:
    np.testing.assert_array_equal(log_prob_of(Flat(), logs), Flat().log_density(logs.contexts, logs.actions))
    np.testing.assert_allclose(log_weights(Flat(), logs).log_ratios, log_prob_of(Flat(), logs) - logs.log_propensities)
    finite = poela.simulate("tumor", episodes=20, seed=0)
    policy = poela.Consensus().fit(finite)
    rows = np.arange(finite.n_steps)
    np.testing.assert_array_equal(policy.log_prob(finite), np.log(policy.along(finite)[rows, finite.actions]))
    gaussian = poela.ContinuousClone(clone_steps=20).fit(logs)
    np.testing.assert_array_equal(gaussian.log_prob(logs), gaussian.log_density(logs.contexts, logs.actions))


def test_a_policy_that_only_tells_log_probabilities_has_weights() -> None:
    logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 1.0], [0, 1, 2], propensities=[0.5, 0.5])

    class Told:
        def log_prob(self, logs: Trajectories) -> NDArray[np.float64]:
            return np.log([0.25, 0.75])

    np.testing.assert_allclose(np.exp(log_weights(Told(), logs).episodes), [0.5, 1.5])
    Told.log_prob = lambda self, logs: np.array([np.nan, 0.0])  # type: ignore[method-assign]
    with pytest.raises(InputError, match="1 of the policy's log probabilities are NaN"):
        log_weights(Told(), logs)


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_study_of_doses_takes_policies_learners_and_functions(logs: Trajectories, backend: str) -> None:
    learners = [Flat(), Shifted(), lambda logs: Shifted().fit(logs)]
    study = poela.learn(logs, learners=learners, **{**QUICK, "backend": backend, "jobs": 1})
    assert {run.status for run in study.runs.values()} == {"done"}
    assert {run.message for run in study.runs.values()} == {""}
    own = [point for point in study.points if study.origin(point)[0].candidate.learner == "Flat"]
    policy = study.fold_policy(own[-1], 0)
    np.testing.assert_array_equal(policy.log_prob(logs), log_prob_of(Flat(), logs))  # the last one is no blend
    half = study.fold_policy(own[5], 0)
    assert half.share == 0.4
    other = half.behavior.log_density(logs.contexts, logs.actions)
    mixed = 0.4 * np.exp(log_prob_of(Flat(), logs)) + 0.6 * np.exp(other)
    np.testing.assert_allclose(np.exp(half.log_prob(logs)), mixed)
    decided = half.decide({name: [0.1, 0.2, 0.1] for name in logs.feature_names} | {"case": ["a", "b", "c"]})
    alone = half.decide({name: [0.2] for name in logs.feature_names} | {"case": ["b"]})
    (dose,) = map(str, logs.action_names)
    assert decided[dose][1].as_py() == alone[dose][0].as_py()  # whatever other rows are beside it
    told = half.log_density([[0.1] * logs.n_features], [[decided[dose][0].as_py()]])[0]
    assert decided["log_density"][0].as_py() == pytest.approx(told)
    with pytest.raises(InputError, match="made of Flat, an object of this Python session"):
        half.save("nowhere")
    with pytest.raises(InputError, match="the likeliest amount of ForeignDoses"):
        half.decide({name: [0.1] for name in logs.feature_names}, likeliest=True, unproven=True)


def test_draws_follow_the_density(logs: Trajectories) -> None:
    policy = as_ruled(Flat(), logs)
    contexts = np.zeros((4000, logs.n_features), np.float32)
    drawn = policy.drawn_by(contexts, np.random.default_rng(0).random((4000, 1)))
    assert np.abs(np.quantile(drawn, [0.1, 0.5, 0.9]) - [0.3, 1.5, 2.7]).max() < 0.1
    assert policy.mean(contexts[:5]) == pytest.approx(np.full((5, 1), 1.5), abs=0.5)


def test_a_regressor_is_a_model_of_logged_doses() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    actions = np.stack([1 + 2 * x[:, 0], x[:, 1]], axis=1) + rng.normal(size=(4000, 2)) * [0.5, 2.0]
    logs = Trajectories(x, actions, np.zeros(4000), np.arange(4001))
    model = RegressorBehavior(LinearRegression()).fit(logs)
    mean, std = model.moments([[1.0, 1.0]])
    np.testing.assert_allclose(mean, [[3.0, 1.0]], atol=0.1)
    np.testing.assert_allclose(std, [[0.5, 2.0]], rtol=0.05)
    truth = norm([[3.0, 1.0]], [[0.5, 2.0]]).logpdf([[2.5, 0.0]]).sum()
    assert model.log_density([[1.0, 1.0]], [[2.5, 0.0]])[0] == pytest.approx(truth, abs=0.1)
    # Out of sample: a forest that fits its own rows closely does not look surer than it is.
    forest = RegressorBehavior(RandomForestRegressor(10, min_samples_leaf=1)).fit(logs.take(np.arange(800)))
    assert forest.moments([[0.0, 0.0]])[1][0, 1] > 1.9


@pytest.mark.parametrize("behavior", [poela.GaussianBehavior(hidden=()), LinearRegression()])
def test_a_study_of_doses_takes_a_model_of_the_logging_policy(behavior: Any, logs: Trajectories) -> None:
    bare = logs.with_log_densities(None)
    study = poela.learn(bare, learners=[Shifted()], behavior=behavior, **QUICK)
    assert {run.status for run in study.runs.values()} == {"done"}
    assert f"by {type(behavior).__name__}(" in study.record.data.propensities


def test_what_is_no_model_of_doses_is_refused(logs: Trajectories) -> None:
    with pytest.raises(InputError, match=r"LogisticRegression.* leave it at auto.* or a regressor"):
        poela.learn(logs, learners=[Flat()], behavior=LogisticRegression(), **QUICK)
    finite = poela.simulate("tumor", episodes=20, seed=0).with_propensities(None)
    with pytest.raises(InputError, match="is a model of real-valued actions, and these are a finite set"):
        poela.learn(finite, learners=["consensus"], behavior=poela.GaussianBehavior(), **QUICK)
    with pytest.raises(InputError, match="give a name, a behavior model"):
        poela.learn(finite, behavior=3, **QUICK)


def test_a_policy_of_the_other_kind_is_refused(logs: Trajectories) -> None:
    finite = poela.simulate("tumor", episodes=20, seed=0)
    with pytest.raises(InputError, match="needs real-valued actions, and these logs have a finite set"):
        poela.learn(finite, learners=[Flat()], **QUICK)
    study = poela.learn(logs, learners=[lambda logs: object(), Flat()], **QUICK)  # which only shows when it is fitted
    messages = {run.message for run in study.runs.values() if run.status == "failed"}
    assert messages == {
        "object is no policy of real-valued actions: it has no methods log_density(contexts, actions) and "
        "sample(contexts, rng)"
    }


def test_what_it_answers_is_checked(logs: Trajectories) -> None:
    class Wide(Flat):
        def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> NDArray[np.float64]:
            return np.zeros((len(np.asarray(actions)), 1))

    class Short(Flat):
        def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
            return np.zeros(len(np.asarray(contexts)))

    with pytest.raises(InputError, match=r"log densities of shape \(300, 1\)"):
        as_ruled(Wide(), logs)
    with pytest.raises(InputError, match=r"sample\(contexts, rng\) must return \[2, 1\]"):
        as_ruled(Short(), logs).sample(np.zeros((2, logs.n_features)), np.random.default_rng(0))


def test_settings_of_models_of_doses_have_params() -> None:
    settings = poela.GaussianBehavior(hidden=(4,))
    assert clone(settings).get_params() == settings.get_params()
    assert settings.set_params(steps=3).steps == 3
    assert repr(clone(RegressorBehavior(LinearRegression()))) == "RegressorBehavior(regressor=LinearRegression())"


def test_a_foreign_policy_of_doses_is_rolled_out_and_evaluated(logs: Trajectories) -> None:
    policy = Shifted().fit(logs)
    truth = poela.true_value(policy, Dosing(), episodes=4000)
    estimate = poela.evaluate(policy, poela.simulate("dosing", episodes=3000, seed=2))
    assert abs(estimate.value - truth.value) < 4 * estimate.standard_error
