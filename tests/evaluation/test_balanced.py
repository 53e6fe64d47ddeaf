"""Balanced weights of several logging policies: closed forms, an enumerated process, the published formulas."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.evaluation.balanced import Logger, balanced
from poela.evaluation.evaluate import evaluate
from poela.evaluation.weights import log_weights
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth
from poela.stats.contributions import Contributions, standard_error


class ByContext(Memoryless):
    """Probabilities of each of a few contexts, numbered by their only feature."""

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows, float)

    def probabilities(self, contexts: Any) -> Any:
        return self.rows[np.asarray(contexts)[:, 0].astype(int)]


class Coin(Memoryless):
    def probabilities(self, contexts: Any) -> Any:
        return np.full((len(contexts), 2), 0.5)


def logs_by(policy: Any, contexts: Any, actions: Any, rewards: Any, offsets: Any) -> Any:
    plain = Trajectories(contexts, actions, rewards, offsets, n_actions=policy.rows.shape[1])
    return plain.with_propensities(policy.along(plain))


A, B, TARGET = (
    ByContext([[0.8, 0.2], [0.3, 0.7]]),
    ByContext([[0.5, 0.5], [0.9, 0.1]]),
    ByContext([[0.1, 0.9], [0.6, 0.4]]),
)


def test_the_denominator_is_the_mixture_over_whole_episodes() -> None:
    first = logs_by(A, [[0.0], [1.0]], [0, 1], [1.0, 2.0], [0, 2])
    second = logs_by(B, [[0.0], [1.0], [1.0]], [1, 0, 1], [1.0, 0.0, 3.0], [0, 2, 3])
    pool = balanced([first, second], [Logger("a", A), Logger("b", B)])
    products = [(0.8 * 0.7, 0.5 * 0.1), (0.2 * 0.3, 0.5 * 0.9), (0.7, 0.1)]  # of both loggers, by hand
    targets = [0.1 * 0.4, 0.9 * 0.6, 0.4]
    weights: Any = [target / (one / 3 + 2 * other / 3) for target, (one, other) in zip(targets, products, strict=True)]
    np.testing.assert_allclose(np.exp(log_weights(TARGET, pool.logs).episodes), weights, rtol=1e-12)
    current: Any = [other / (one / 3 + 2 * other / 3) for one, other in products]
    np.testing.assert_allclose(np.exp(np.asarray(pool.reference)), current, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(pool.logs.propensities).sum(axis=1), 1, rtol=1e-12)


def test_one_logger_in_two_logs_is_one_log() -> None:
    first = logs_by(A, [[0.0], [1.0]], [0, 1], [1.0, 2.0], [0, 2])
    second = logs_by(A, [[1.0]], [1], [3.0], [0, 1])
    pool = balanced([first, second], [Logger("a", A)] * 2)
    np.testing.assert_array_equal(pool.logs.propensities, joined(first, second).propensities)
    assert pool.reference is None
    assert not pool.logs.estimated


def test_unbiased_on_an_enumerated_process() -> None:
    """Two steps of two actions; the next context is the action. All episodes of both logs, with their probabilities."""
    episodes: Any = list(product([0, 1], repeat=2))
    reward = {(0, 0): 1.0, (0, 1): -2.0, (1, 0): 5.0, (1, 1): 0.5}

    def chance(policy: Any, one: Any) -> Any:
        return policy.rows[0, one[0]] * policy.rows[one[0], one[1]]

    shares = {"a": 0.25, "b": 0.75}
    expected = sum(chance(TARGET, one) * reward[one] for one in episodes)
    found = mean = 0.0
    for one in episodes:
        mixed = shares["a"] * chance(A, one) + shares["b"] * chance(B, one)
        made = Trajectories([[0.0], [float(one[0])]], one, [0.0, reward[one]], [0, 2], n_actions=2)
        by_a, by_b = (made.with_propensities(policy.along(made)) for policy in (A, B))
        pool = balanced([by_a, *[by_b] * 3], [Logger("a", A), *[Logger("b", B)] * 3]).logs
        weight = float(np.exp(log_weights(TARGET, pool).episodes[0]))
        found += mixed * weight * reward[one]
        mean += mixed * weight
    assert found == pytest.approx(expected, rel=1e-12)
    assert mean == pytest.approx(1.0, rel=1e-12)


def test_one_step_is_the_published_balanced_estimator() -> None:
    """As Agarwal et al. (KDD 2018) and Kallus, Saito & Uehara (ICML 2021, eq. 4) write it down for bandits.

    OBP's BalancedInverseProbabilityWeighting is mean(r π(a|x) / Σ_k ρ_k π_k(a|x)), its self-normalised form divides by
    the mean of the weights.
    """
    rng = np.random.default_rng(0)
    sizes, contexts = (40, 110), rng.integers(2, size=150)
    made_by = np.repeat([0, 1], sizes)
    actions = (rng.random(150) < np.stack([A.rows, B.rows])[made_by, contexts, 1]).astype(int)
    rewards = rng.normal(size=150) + actions
    logs = [
        logs_by(policy, contexts[made_by == k, None], actions[made_by == k], rewards[made_by == k], np.arange(n + 1))
        for k, (policy, n) in enumerate(zip((A, B), sizes, strict=True))
    ]
    pool = balanced(logs, [Logger("a", A), Logger("b", B)]).logs
    mixed = (40 * A.rows + 110 * B.rows)[contexts, actions] / 150
    ratio = TARGET.rows[contexts, actions] / mixed
    plain = evaluate(TARGET, pool, estimator="is", interval=None, truncation=1e9).value
    normalised = evaluate(TARGET, pool, estimator="sntis", interval=None, truncation=1e9).value
    assert plain == pytest.approx(np.mean(ratio * rewards), abs=1e-12)
    assert normalised == pytest.approx((ratio * rewards).sum() / ratio.sum(), abs=1e-12)


class Milder(Memoryless):
    """Treats for fewer months than practice does, by a share."""

    def __init__(self, months: Any, share: Any) -> None:
        self.months, self.share = months, share

    def probabilities(self, contexts: Any) -> Any:
        rows = TumorBehavior().probabilities(contexts)
        treat = np.where(np.asarray(contexts)[:, 2] < self.months, 0.85, 0.15)
        return (1 - self.share) * rows + self.share * np.stack([1 - treat, treat], axis=1)


def test_tumor_episodes_of_two_loggers_count_more_than_with_own_propensities() -> None:
    practice, mild, target = TumorBehavior(), Milder(5, 0.4), Milder(5, 0.6)
    first, second = (run(TumorGrowth(), one, 400, seed) for seed, one in enumerate((practice, mild)))
    balanced_logs = balanced([first, second], [Logger("practice", practice), Logger("mild", mild)]).logs
    own = joined(first, second)
    ess = [evaluate(target, logs, interval=None).ess for logs in (own, balanced_logs)]
    assert ess[1] >= 2.5 * ess[0]


def test_practice_that_follows_a_schedule_is_known_in_other_logs() -> None:
    """Its propensities depend on the month alone, so that a tree gives them back exactly."""
    practice, mild = TumorBehavior(), Milder(5, 0.5)
    first, second = (run(TumorGrowth(), one, 60, seed) for seed, one in enumerate((practice, mild)))
    pool = balanced([first, second], [Logger("practice"), Logger("mild", mild)])
    known = balanced([first, second], [Logger("practice", practice), Logger("mild", mild)])
    assert not pool.logs.estimated
    assert not pool.note
    np.testing.assert_allclose(np.asarray(pool.logs.propensities), np.asarray(known.logs.propensities), atol=1e-9)


@pytest.mark.parametrize("what", ["ward", "step", "single"])
def test_practice_is_not_known_beyond_what_its_log_has(what: Any) -> None:
    """A ward that it never had, a later step, or an episode that no other one can confirm."""
    wards: Any = np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    rows = np.where(wards[:, :1] > 0, [[0.8, 0.2]], [[0.3, 0.7]])

    def logs(contexts: Any, probabilities: Any, offsets: Any) -> Trajectories:
        n = len(contexts)
        return Trajectories(contexts, np.arange(n) % 2, np.ones(n), offsets, probabilities)

    first = logs(wards, rows, np.arange(41))
    coin = np.full((4, 2), 0.5)
    inside = logs(wards[[0, 0, 20, 20]], coin, np.arange(5))
    loggers = [Logger("practice"), Logger("coin", Coin())]
    assert not balanced([first, inside], loggers).logs.estimated
    if what == "ward":
        second = logs(np.repeat([[1.0, 0.0], [0.0, 0.0]], 2, axis=0), coin, np.arange(5))
        first = logs(wards[:20], rows[:20], np.arange(21))
    elif what == "step":
        second = logs(inside.contexts, coin, np.array([0, 4]))
    else:
        first, second = first.take([0]), inside
    pool = balanced([first, second], loggers)
    assert pool.logs.estimated
    assert "estimated" in pool.note


def test_practice_that_a_model_stands_in_for_is_estimated() -> None:
    rng = np.random.default_rng(1)
    contexts: Any = rng.normal(size=(80, 1))
    treat = 1 / (1 + np.exp(-contexts[:, 0]))
    rows = np.stack([1 - treat, treat], axis=1)
    first = Trajectories(contexts, (rng.random(80) < treat).astype(int), rng.normal(size=80), np.arange(81), rows)
    coin = replace(first, contexts=rng.normal(size=(80, 1)).astype(np.float32), propensities=np.full((80, 2), 0.5))

    pool = balanced([first, coin], [Logger("practice"), Logger("coin", Coin())])
    assert pool.logs.estimated
    assert pool.note == "what practice would have done in the other logs is estimated"


def test_a_log_of_another_policy_is_refused() -> None:
    first = logs_by(A, [[0.0], [1.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    with pytest.raises(InputError, match="propensities of 2 of 2 decisions are not those of b"):
        balanced([first], [Logger("b", B)])


def test_strata_leave_differences_between_logs_out_of_the_error() -> None:
    """√(Σ n_k s_k²)/n, of plain means."""
    values, strata = np.array([1.0, 3.0, 10.0, 14.0, 12.0]), np.array([0, 0, 1, 1, 1])
    by_hand = np.sqrt(sum(((values[strata == k] - values[strata == k].mean()) ** 2).sum() for k in (0, 1))) / 5
    assert standard_error(replace(Contributions.mean(values), strata=strata)) == pytest.approx(by_hand, rel=1e-12)
