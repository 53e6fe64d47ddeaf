"""Recombined episodes against enumeration, closed forms and coverage where the truth is known."""

import itertools
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation import recombination
from poela.evaluation.estimators import ESTIMATORS, importance_sampling, snis, sntis
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Pool, Recombined, recombined_weights, returns_like
from poela.evaluation.weights import weights_of
from poela.stats.bounds import Interval, Sample
from poela.stats.contributions import Contributions
from poela.stats.intervals import DEFAULT_INTERVAL, intervals_of
from poela.stats.recombined import recombined, recombined_ends, studentised_errors
from poela.stats.weights import LogWeights


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def products(weights: FloatArray) -> set[float]:
    return {round(float(weight), 6) for weight in np.exp(weights)}


def random_evidence(n: int = 200, steps: int = 4, spread: float = 0.4, seed: int = 0) -> Evidence:
    drawn = rng(seed)
    weights = LogWeights(drawn.normal(-(spread**2) / 2, spread, n * steps), np.arange(0, n * steps + 1, steps))
    logs = Trajectories(drawn.random((n * steps, 2)), np.zeros(n * steps), drawn.random(n * steps), weights.offsets)
    return Evidence(weights, logs)


def pool_of(evidence: Evidence, seed: int = 0) -> Pool:
    return Recombined(evidence.logs, seed).pool(evidence)


def sample_of(evidence: Evidence, estimator: Callable[[Evidence], Contributions] = snis, seed: int = 0) -> Sample:
    pool = pool_of(evidence, seed).contributions(estimator, evidence.truncation)
    return Sample(estimator(evidence), seed, 300, evidence.returns, pool=pool)


def one_interval(name: str, sample: Sample, level: float = 0.95) -> Interval:
    [interval] = intervals_of(name, sample, [level])
    return interval


class AsLogged(Memoryless):
    def probabilities(self, contexts: object) -> FloatArray:
        return np.ones((len(np.asarray(contexts)), 1))


def test_every_combination_of_stretches_occurs_and_no_other() -> None:
    ratios = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
    drawn = recombined_weights(LogWeights(np.log(ratios).ravel(), np.array([0, 2, 4, 6])), 2000, rng())
    expected = {float(early * late) for early, late in itertools.product(ratios[:, 0], ratios[:, 1])}
    assert products(drawn) == expected


def test_combinations_are_equally_likely() -> None:
    ratios = np.array([[1.0, 2.0], [3.0, 5.0]])
    drawn = np.exp(recombined_weights(LogWeights(np.log(ratios).ravel(), np.array([0, 2, 4])), 40_000, rng()))
    for product in (2.0, 5.0, 6.0, 15.0):
        assert np.isclose(drawn, product).mean() == pytest.approx(0.25, abs=0.01)


def test_an_ended_episode_is_not_continued_and_only_continuing_ones_give_the_rest() -> None:
    # One episode of one step (ratio 2), two of two steps (3 then 5, 7 then 11).
    weights = LogWeights(np.log([2.0, 3.0, 5.0, 7.0, 11.0]), np.array([0, 1, 3, 5]))
    assert products(recombined_weights(weights, 2000, rng())) == {2.0, 15.0, 33.0, 35.0, 77.0}


def test_a_step_that_is_never_taken_leaves_no_weight() -> None:
    weights = LogWeights([0.0, -np.inf, 0.0, 0.0], np.array([0, 2, 4]))
    drawn = recombined_weights(weights, 1000, rng())
    assert (drawn == -np.inf).mean() == pytest.approx(0.5, abs=0.06)


def test_episodes_are_spliced_only_where_contexts_are_alike() -> None:
    # Two kinds of patients, told apart by their contexts, whose ratios would multiply to 1 if they were mixed up.
    n = 400
    kind = np.repeat(np.arange(n) % 2, 2)
    log_ratios = np.where(kind == 0, np.log(2.0), np.log(0.5))
    weights = LogWeights(log_ratios, np.arange(0, 2 * n + 1, 2))
    contexts = (10.0 * kind[:, None] + rng().normal(size=(2 * n, 3))).astype(np.float32)
    assert products(recombined_weights(weights, 5000, rng(), contexts)) == {4.0, 0.25}
    assert products(recombined_weights(weights, 5000, rng())) == {4.0, 1.0, 0.25}


@pytest.mark.parametrize(("features", "ties"), [(1, 10), (5, 0)])
def test_every_one_of_the_nearest_goes_on_and_no_other(features: int, ties: int) -> None:
    # Of up to 100 episodes all are candidates, and the ten nearest go on; each has ratios that tell which two were met.
    n = 100
    weights = LogWeights(np.stack([np.arange(n), n * np.arange(n)], axis=1).ravel(), np.arange(0, 2 * n + 1, 2))
    scales = np.array([3.0, 0.2, 50.0, 1.0, 7.0])[:features]
    contexts = (scales * rng().normal(size=(2 * n, features))).astype(np.float32)
    drawn = np.round(recombined_weights(weights, 40_000, rng(1), contexts)).astype(int)
    second = contexts[1::2] / contexts[1::2].std(axis=0)
    distances = np.square(second[:, None] - second).sum(axis=2)
    expected = {(early, late) for early in range(n) for late in np.argsort(distances[early])[:10]}
    found = {(code % n, code // n) for code in drawn}
    assert len(found) == len(expected)
    assert len(found - expected) <= ties  # within a thousandth, which is left to chance
    assert all(distances[pair] <= np.sort(distances[pair[0]])[9] + 1e-3 for pair in found)


def test_features_far_from_zero_are_told_apart() -> None:
    n = 400
    kind = np.repeat(np.arange(n) % 2, 2)
    weights = LogWeights(np.where(kind == 0, np.log(2.0), np.log(0.5)), np.arange(0, 2 * n + 1, 2))
    years = (2010.0 + kind[:, None] + 0.01 * rng().normal(size=(2 * n, 1))).astype(np.float32)
    assert products(recombined_weights(weights, 2000, rng(), years)) == {4.0, 0.25}


def test_equal_contexts_give_every_donor_a_chance() -> None:
    n = 900
    log_ratios = np.stack([np.zeros(n), np.log(np.arange(1.0, n + 1))], axis=1).ravel()
    weights = LogWeights(log_ratios, np.arange(0, 2 * n + 1, 2))
    drawn = recombined_weights(weights, 50_000, rng(), np.zeros((2 * n, 2), np.float32))
    assert len(products(drawn)) > 0.99 * n


def test_expected_ess_is_closer_to_the_truth_than_the_logs_own() -> None:
    # Independent log-normal ratios: the weight has second moment exp(σ²·steps).
    n, steps, spread = 500, 8, 0.5
    truth = n / np.exp(spread**2 * steps)
    expected, own = [], []
    for seed in range(20):
        evidence = random_evidence(n, steps, spread, seed)
        expected.append(pool_of(evidence).expected_ess(n, np.inf))
        own.append(Contributions.mean(np.exp(evidence.weights.episodes)))
    sample = [float(each.numerators.sum() ** 2 / np.square(each.numerators).sum()) for each in own]
    assert np.abs(np.log(np.array(expected) / truth)).mean() < 0.5 * np.abs(np.log(np.array(sample) / truth)).mean()
    assert np.median(expected) == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("name", ["is", "truncated_is", "snis", "sntis"])
def test_any_estimator_of_whole_episodes_can_be_recombined(name: str) -> None:
    evidence = random_evidence()
    function = ESTIMATORS[name].function
    pool = pool_of(evidence).contributions(function, evidence.truncation)
    assert pool.n_episodes == 40 * 200
    assert pool.value == pytest.approx(function(evidence).value, rel=0.1)


def test_truncation_holds_for_recombined_weights() -> None:
    evidence = Evidence(LogWeights([3.0] * 40, np.arange(0, 41, 4)), random_evidence(10).logs, truncation=20.0)
    pool = pool_of(evidence).contributions(sntis, evidence.truncation)
    assert pool.denominators.max() == pytest.approx(20.0)


def test_recombined_returns_stay_within_the_logged_ones_and_follow_the_weight() -> None:
    drawn = rng(3)
    weights = LogWeights(drawn.normal(0.0, 0.7, 4000), np.arange(0, 4001, 4))
    returns = weights.episodes + 0.1 * drawn.normal(size=1000)
    rewards = np.zeros(4000)
    rewards[3::4] = returns
    evidence = Evidence(weights, Trajectories(np.zeros((4000, 1)), np.zeros(4000), rewards, weights.offsets))
    pool = pool_of(evidence)
    assert not pool.redrawn
    assert pool.returns.min() >= returns.min() - 1e-9
    assert pool.returns.max() <= returns.max() + 1e-9
    assert np.corrcoef(pool.returns, pool.log_weights)[0, 1] > 0.99
    np.testing.assert_allclose(
        pool.contributions(importance_sampling, np.inf).numerators[:, 0], np.exp(pool.log_weights) * pool.returns
    )


def test_a_return_is_that_of_an_episode_within_the_root_of_their_number_by_weight() -> None:
    """100 log weights of 0 to 99 and one return of 1: within ten ranks each is as likely as another, beyond none is."""
    logged, returns = np.arange(100.0), np.zeros(100)
    for rank in (39, 40, 60, 61):
        returns[:] = 0.0
        returns[rank] = 1.0
        drawn = returns_like(np.full(40_000, 50.0), logged, returns, rng(0))
        # With one return of 1 below (above) nearly all of the weight there is no trend to speak of.
        assert (drawn > 0.5).mean() == pytest.approx(1 / 21 if abs(rank - 50) <= 10 else 0.0, abs=0.006)
    near_the_end = returns_like(np.zeros(40_000), logged, (logged <= 10).astype(float), rng(0))
    assert near_the_end.min() > 0.5  # reflected: nothing comes from the other end


def test_each_end_reaches_as_far_as_errors_do_on_its_side() -> None:
    """Errors between -2 and 6 errors: the estimate may be too high by far more than too low."""
    returns = rng(0).normal(size=400)
    contributions = Contributions.mean(returns)
    errors = np.linspace(-2.0, 6.0, 100_001)
    [(low, high)] = recombined_ends(errors, contributions, returns, [0.9])
    # The standard error of the sample, and what one more effective episode may change.
    error = np.hypot(returns.std(ddof=1) / 20, returns.std() / 400)
    assert contributions.value - low == pytest.approx((-2 + 0.95 * 8) * error, rel=1e-4)
    assert high - contributions.value == pytest.approx(stats.t.ppf(0.95, 399) * error, rel=1e-6)  # 1.6 is less


def test_the_gain_reaches_as_far_as_the_value_s_recombined_interval() -> None:
    """Few episodes with much weight: the gain's lower end is as many errors away as the value's, beyond Student's."""
    n = 300
    drawn = rng(3)
    chances = np.tile([0.9, 0.1], (n, 1))
    actions = (drawn.random(n) < 0.1).astype(np.int64)
    returns = actions - drawn.gamma(2.0, size=n)
    logs = Trajectories(np.zeros((n, 1)), actions, returns, np.arange(n + 1), chances)
    found = evaluate(Bold(), logs)
    assert found.interval == "recombined"
    assert found.gain is not None
    assert found.low is not None
    assert found.gain.low is not None
    weights = np.where(actions == 1, 9.0, 0.1 / 0.9)
    own = weights * (returns - found.value) / weights.mean()
    paired = own - (returns - returns.mean())
    reach = (found.value - found.low) / (np.sqrt(own @ own) / n)
    assert reach > 1.05 * stats.t.ppf(0.975, found.ess - 1)
    # And further where losses are rarer than gains: Hall's transformation of what it reaches is what is needed.
    turned = paired * np.sign(weights - weights.mean())
    skew = max(-stats.skew(paired), -stats.skew(turned)) / np.sqrt(n)
    t = (found.gain.value - found.gain.low) / (np.sqrt(paired @ paired) / n)
    assert skew > 0.1
    assert t - skew * t**2 / 3 + skew**2 * t**3 / 27 - skew / 6 == pytest.approx(reach)


class Bold(Memoryless):
    """Nearly always what was done in one of ten cases."""

    def probabilities(self, contexts: object) -> FloatArray:
        return np.tile([0.1, 0.9], (len(np.asarray(contexts)), 1))


def test_errors_of_a_mean_of_normal_values_are_students() -> None:
    pool = Contributions.mean(rng(1).normal(size=200_000))
    errors = studentised_errors(pool, n=10, resamples=20_000, seed=0)
    # With the population standard deviation in place of the sample's, t is larger by √(n / (n − 1)).
    assert np.quantile(np.abs(errors), 0.95) == pytest.approx(2.262157 * np.sqrt(10 / 9), rel=0.03)


def test_draws_do_not_depend_on_their_number() -> None:
    pool = pool_of(random_evidence()).contributions(snis, 1000.0)
    few, many = (studentised_errors(pool, 200, resamples, seed=5) for resamples in (50, 9000))
    assert np.array_equal(few, many[:50])


def test_same_seed_same_interval() -> None:
    evidence = random_evidence()
    sample, again = (sample_of(evidence, seed=4) for _ in range(2))
    assert recombined(sample, [0.9]) == recombined(again, [0.9])


def test_where_nothing_can_be_recombined_the_interval_is_students() -> None:
    contributions = snis(random_evidence())
    assert one_interval("recombined", Sample(contributions)) == one_interval("student", Sample(contributions))
    # Spliced steps say nothing about how clusters vary.
    logs = random_evidence().logs
    assert isinstance(logs, Trajectories)
    annotated = logs.with_propensities(np.full(logs.n_steps, 1.0))
    assert evaluate(AsLogged(), annotated).interval == "recombined"
    assert evaluate(AsLogged(), annotated, clusters=np.arange(200) // 2).interval == "student"


def test_light_tails_give_the_normal_interval() -> None:
    evidence = random_evidence(n=2000, spread=0.05)
    ours, normal = (one_interval(name, sample_of(evidence)) for name in ("recombined", "normal"))
    assert (ours.low, ours.high) == pytest.approx((normal.low, normal.high), abs=0.05 * normal.width)


def test_evaluate_recombines_by_default() -> None:
    logs = random_evidence().logs
    assert isinstance(logs, Trajectories)
    annotated = logs.with_propensities(np.ones((logs.n_steps, 1)))
    assert DEFAULT_INTERVAL == "recombined"
    assert evaluate(AsLogged(), annotated, resamples=100).interval == "recombined"
    assert evaluate(AsLogged(), annotated, resamples=100, estimator="cwpdis").interval == "student"


def test_a_single_episode_with_weight_gives_no_interval() -> None:
    class Second:
        def probabilities(self, contexts: FloatArray) -> FloatArray:
            return np.tile([0.0, 1.0], (len(contexts), 1))

    actions = np.array([0, 0, 1, 0])
    logs = Trajectories(
        np.zeros((4, 1)), actions, [1.0, 2.0, 7.0, 3.0], np.arange(5), propensities=np.full((4, 2), 0.5)
    )
    estimate = evaluate(Second(), logs)
    assert (estimate.value, estimate.low, estimate.high) == (7.0, None, None)
    assert estimate.verdict == "do not trust"
    assert any("a single episode has weight" in warning for warning in estimate.warnings)


def test_impossible_samples_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 is needed"):
        Sample(snis(random_evidence()), resamples=0)


def test_more_confidence_is_never_beside_less() -> None:
    errors = np.repeat([-10.0, -3.0, 0.0, 3.0], [30, 80, 810, 80])
    returns = rng().normal(size=1000)
    levels = (0.5, 0.8, 0.9, 0.95, 0.99)
    ends = recombined_ends(errors, Contributions.mean(returns), returns, levels)
    for (low, high), (lower, higher) in itertools.pairwise(ends):
        assert lower <= low < high <= higher
    error = np.hypot(returns.std(ddof=1), returns.std() / np.sqrt(1000)) / np.sqrt(1000)
    # At 90% the errors of ±3 are even, at 95% the lowest are −10; where errors are none, Student's count.
    assert ends[2] == pytest.approx((returns.mean() - 3 * error, returns.mean() + 3 * error), rel=1e-9)
    assert ends[3] == pytest.approx((returns.mean() - 3 * error, returns.mean() + 10 * error), rel=1e-9)
    reach = stats.t.ppf(0.75, 999) * error
    assert ends[0] == pytest.approx((returns.mean() - reach, returns.mean() + reach), rel=1e-9)


def test_where_one_episode_has_all_the_weight_the_interval_is_wide_but_not_beyond_reason() -> None:
    drawn = rng(2)
    weights = LogWeights(np.where(np.arange(400) // 2 == 7, 8.0, -8.0), np.arange(0, 401, 2))
    logs = Trajectories(np.zeros((400, 1)), np.zeros(400), drawn.normal(size=400), weights.offsets)
    evidence = Evidence(weights, logs)
    contributions = sntis(evidence)
    [interval] = recombined(sample_of(evidence, sntis), [0.95])
    assert interval.low <= contributions.value <= interval.high
    # The usual standard error says that the estimate is exact.
    assert interval.width > 2 * logs.returns().std()
    assert interval.low >= logs.returns().min() - np.ptp(logs.returns())
    assert interval.high <= logs.returns().max() + np.ptp(logs.returns())


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_it_is_never_narrower_than_student_s(level: float) -> None:
    for spread in (0.1, 0.5, 1.5):
        evidence = random_evidence(spread=spread)
        ours, theirs = (one_interval(name, sample_of(evidence), level) for name in ("recombined", "student"))
        assert ours.width >= min(theirs.width, 3 * np.ptp(evidence.returns)) - 1e-12


def test_weights_of_redrawn_episodes_are_those_of_actions_drawn_one_by_one() -> None:
    rng = np.random.default_rng(3)
    known, policy = rng.dirichlet(np.ones(3), size=(2, 7))
    known[2] = [0.0, 1.0, 0.0]
    policy[4] = [0.0, 0.0, 1.0]
    offsets = np.array([0, 3, 4, 7])
    logs = Trajectories(np.zeros((7, 1)), known.argmax(axis=1), np.zeros(7), offsets, propensities=known)
    evidence = Evidence(weights_of(policy, logs), logs, 1.0, 1000.0, probabilities=np.asfortranarray(policy))
    found = Recombined(logs, seed=5, copies=4).log_weights(evidence)
    draws = np.random.default_rng((5, recombination._POOL))
    for own in found:
        actions = [
            int(np.searchsorted(np.cumsum(row), u, "right")) for row, u in zip(known, draws.random(7), strict=True)
        ]
        with np.errstate(divide="ignore"):
            ratios = [np.log(policy[i, action]) - np.log(known[i, action]) for i, action in enumerate(actions)]
        expected = [sum(ratios[start:end]) for start, end in pairwise(offsets)]
        np.testing.assert_allclose(own, expected, rtol=1e-12)
