"""One kernel: every estimator by one name has one number; what leans, is estimated or rare is said to be."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import ESTIMATORS, guarded
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.scoring import Evaluator, Scoring
from poela.stats.bounds import Bounds
from poela.stats.contributions import standard_error
from poela.stats.weights import LogWeights

LEANING = [name for name, estimator in ESTIMATORS.items() if estimator.leans]


class Chooser(Memoryless):
    """Takes action 1 with probability p."""

    def __init__(self, p: float) -> None:
        self.p = p

    def probabilities(self, contexts: object) -> FloatArray:
        return np.tile([1 - self.p, self.p], (len(np.asarray(contexts)), 1))


class Linear:
    """A model of values that somebody gives."""

    def q(self, trajectories: Trajectories) -> FloatArray:
        return np.asarray(trajectories.contexts[:, :2] + [0.0, 1.0], np.float64)


def ragged_logs(n: int = 80, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 4, size=n))])
    steps = int(offsets[-1])
    contexts = rng.normal(size=(steps, 2))
    share = 0.2 + 0.6 / (1 + np.exp(-contexts[:, 0]))
    actions = (rng.random(steps) < share).astype(int)
    rewards = contexts[:, 1] * actions + rng.normal(size=steps)
    return Trajectories(contexts, actions, rewards, offsets, propensities=np.c_[1 - share, share])


def one_step_logs(n: int, seed: int, rate: float | None = None) -> Trajectories:
    """Cases that are treated by what is known of them; a treatment helps some. With a rate, returns are yes or no."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2))
    share = 0.1 + 0.8 / (1 + np.exp(-contexts[:, 0]))
    actions = (rng.random(n) < share).astype(int)
    rewards = contexts[:, 0] + actions * (1 + contexts[:, 1]) + rng.normal(size=n)
    if rate is not None:
        rewards = (rng.random(n) < rate).astype(float)
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), propensities=np.c_[1 - share, share])


def own_clusters(logs: Trajectories) -> Trajectories:
    return replace(logs, clusters=np.arange(logs.n_episodes))


def numbers(estimate: Estimate) -> list[float]:
    found = [estimate.value, estimate.standard_error, estimate.ess, estimate.low, estimate.high]
    gain = estimate.gain
    found += [] if gain is None else [gain.value, gain.low, gain.high]
    return [float("nan") if number is None else number for number in found]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_policies_scored_together_are_scored_as_alone(name: str) -> None:
    logs, policies = ragged_logs(), [Chooser(0.7), Chooser(1.0), Chooser(0.3)]
    scoring = Scoring(estimator=name, smoothing=0.01, folds=2, resamples=100)
    q = Linear() if ESTIMATORS[name].model == "given" else None
    evaluator = Evaluator(logs, scoring, q=q)
    together = [evaluator.estimate(evidence) for evidence in evaluator.evidence(policies)]
    if q is None:
        for one, other in zip(together, scoring.estimates(policies, logs), strict=True):
            assert numbers(one) == pytest.approx(numbers(other), rel=1e-12, nan_ok=True)
    for policy, found in zip(policies, together, strict=True):
        for alone in (
            evaluate(policy, logs, scoring=scoring, q=q),
            evaluate(policy, logs, q=q, estimator=name, smoothing=0.01, folds=2, resamples=100),
        ):
            assert numbers(found) == pytest.approx(numbers(alone), rel=1e-7, nan_ok=True)
            assert (found.verdict, found.estimator, found.interval) == (alone.verdict, name, alone.interval)


def test_all_estimators_rest_on_the_same_evidence() -> None:
    logs, scoring = ragged_logs(), Scoring(smoothing=0.01, folds=2, interval=None)
    evaluator = Evaluator(logs, scoring)
    names = [name for name in ESTIMATORS if name != "direct"]
    [evidence] = evaluator.evidence([Chooser(1.0)], names)
    for name in names:
        alone = evaluate(Chooser(1.0), logs, scoring=replace(scoring, estimator=name))
        expected = (alone.value, alone.standard_error)
        assert evaluator.value(evidence, name) == pytest.approx(expected, rel=1e-9), name


@pytest.mark.parametrize("name", LEANING)
def test_what_leans_on_a_model_is_never_above_caution_and_without_its_fit_has_no_interval(name: str) -> None:
    logs = one_step_logs(400, seed=0)
    if name != "direct":
        fitted = evaluate(Chooser(0.6), logs, estimator=name)
        assert fitted.verdict != "trust"
        assert fitted.low is not None
        assert any("relies on a model" in reason for reason in fitted.reasons)
    models: list[Any] = [Linear()] if name == "direct" else [Linear(), "boosted"]
    for q in models:
        estimate = evaluate(Chooser(0.6), logs.take(np.arange(60)), estimator=name, q=q, folds=2)
        assert np.isfinite(estimate.value)
        assert (estimate.low, estimate.high, estimate.interval) == (None, None, None)
        assert "no interval: the model of values does not know how well it was fitted" in estimate.warnings
        assert estimate.verdict != "trust"


def test_four_estimators_lean() -> None:
    assert sorted(LEANING) == ["direct", "fqe", "guarded", "magic"]


@pytest.mark.parametrize("name", ["fqe", "magic", "guarded"])
def test_the_error_of_a_model_contains_its_fit(name: str) -> None:
    truth = 0.9 * 1.0  # contexts average zero
    scoring = Scoring(estimator=name)
    found = [scoring.estimates([Chooser(0.9)], one_step_logs(400, seed))[0] for seed in range(40)]
    covered = sum(e.low <= truth <= e.high for e in found if e.low is not None and e.high is not None)
    assert covered >= 34
    spread = np.std([estimate.value for estimate in found])
    assert np.mean([estimate.standard_error for estimate in found]) == pytest.approx(spread, rel=0.3)


def test_clusters_do_not_lose_the_error_of_the_fit() -> None:
    logs = one_step_logs(200, seed=6)
    for name in ("fqe", "guarded", "magic"):
        # Each in a cluster of its own: the same regressions, and so the same error.
        alone, named = (evaluate(Chooser(0.9), given, estimator=name) for given in (logs, own_clusters(logs)))
        assert numbers(named) == pytest.approx(numbers(alone), rel=1e-9), name


def test_guarded_by_hand() -> None:
    # One step, two episodes, weights 2 and 0: ESS 1, belief 1/11, correction = surprise of the first.
    logs = Trajectories([[0.0], [0.0]], [0, 1], [3.0, 5.0], [0, 1, 2])
    values = ModelValues(np.array([2.0, 1.0]), np.array([2.0, 4.0]), squared_weights=np.array([0.25]))
    found = guarded(Evidence(LogWeights([np.log(2.0), -np.inf], logs.offsets), logs, values=values))
    assert found.value == pytest.approx(3.0 + 1 / 11)
    # A single episode's own influence is none, so its correction varies as the surprises 1 and 4 do.
    initial, corrected = 1 / 2, np.var([1.0, 4.0]) * (1 / 11) ** 2
    fitted = np.mean([1.0, 16.0]) * 0.25 * (10 / 11) ** 2
    assert standard_error(found) == pytest.approx(np.sqrt(initial + corrected + fitted))


def test_guarded_is_the_model_without_weight_and_wdr_with_much() -> None:
    rng = np.random.default_rng(0)
    n = 5000
    logs = Trajectories(np.zeros((n, 1)), np.zeros(n, int), rng.normal(size=n), np.arange(n + 1))
    values = ModelValues(np.full(n, 0.5), np.full(n, 0.2), np.array([1 / n]))
    nothing = Evidence(LogWeights(np.full(n, -np.inf), logs.offsets), logs, values=values)
    assert guarded(nothing).value == pytest.approx(0.2)
    much = Evidence(LogWeights(0.1 * rng.normal(size=n), logs.offsets), logs, values=values)
    wdr = ESTIMATORS["wdr"].function(much)
    assert guarded(much).value == pytest.approx(wdr.value, abs=2e-3)
    assert standard_error(guarded(much)) == pytest.approx(standard_error(wdr), rel=0.02)


def test_estimated_propensities_are_never_trusted() -> None:
    logs = one_step_logs(600, seed=1)
    estimated = MultinomialBehavior().fit(logs).annotate(logs)
    assert estimated.estimated
    for name in ("sntis", "wdr"):
        assert evaluate(Chooser(0.5), logs, estimator=name).verdict == "trust"
        doubted = evaluate(Chooser(0.5), estimated, estimator=name)
        assert doubted.verdict == "caution"
        assert any("the propensities are estimated" in reason for reason in doubted.reasons)
        assert "other behavior models" in doubted.advice
    assert evaluate(Chooser(0.5), estimated, estimator="behavior").verdict == "trust"


def test_six_clusters_are_six() -> None:
    logs = one_step_logs(600, seed=2)
    alone = evaluate(Chooser(0.5), logs)
    together = evaluate(Chooser(0.5), logs, clusters=np.repeat([f"ward {i}" for i in range(6)], 100))
    assert alone.verdict == "trust"
    assert together.verdict == "do not trust"
    assert together.value == alone.value
    assert 5 < together.ess <= 6
    weights = np.where(logs.actions == 1, 0.5, 0.5) / logs.logged_propensities
    sums = weights.reshape(6, 100).sum(axis=1)
    assert together.ess == pytest.approx(sums.sum() ** 2 / (sums**2).sum())
    assert together.diagnostics.n_clusters == 6
    assert "of 6 clusters" in together.reasons[0]


@pytest.mark.parametrize("name", ["is", "snis", "sntis", "pdis", "cwpdis", "dr", "wdr"])
def test_no_click_at_all_is_the_rule_of_three_in_effective_episodes(name: str) -> None:
    logs = one_step_logs(2000, seed=3, rate=0.0)
    estimate = evaluate(Chooser(0.9), logs, estimator=name)
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert estimate.ess < 1500
    assert estimate.high == pytest.approx(3 / estimate.ess, rel=0.01)
    assert estimate.verdict != "trust"
    assert any("the rarer outcome" in reason for reason in estimate.reasons)


@pytest.mark.parametrize("rate", [0.002, 0.01, 0.5, 0.995])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "direct"])
def test_rates_never_leave_what_is_possible(name: str, rate: float) -> None:
    estimate = evaluate(Chooser(0.8), one_step_logs(300, seed=4, rate=rate), estimator=name, folds=2)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low < estimate.high <= 1
    if name in ("snis", "sntis", "cwpdis", "fqe", "behavior"):  # the others correct beyond it
        assert 0 <= estimate.value <= 1


def test_rare_clicks_are_covered() -> None:
    hits = [evaluate(Chooser(0.7), one_step_logs(500, seed, rate=0.02)) for seed in range(60)]
    covered = sum(e.low <= 0.02 <= e.high for e in hits if e.low is not None and e.high is not None)
    assert covered >= 54


def test_a_declared_range_must_hold_the_returns() -> None:
    logs = one_step_logs(50, seed=5)
    outside = int((np.abs(logs.returns()) > 1).sum())
    with pytest.raises(InputError, match=f"{outside} of .* episodes have returns outside of -1 to 1"):
        evaluate(Chooser(0.5), logs, bounds=Bounds(-1.0, 1.0))
