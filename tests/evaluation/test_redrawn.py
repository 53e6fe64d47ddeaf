"""Actions drawn anew from known propensities, against exact moments by enumeration."""

import itertools

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import snis
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Recombined
from poela.evaluation.weights import weights_of
from poela.stats.weights import effective_share


def random_problem(lengths: list[int], seed: int = 0) -> tuple[Trajectories, FloatArray]:
    """Ragged episodes with three actions, propensities of every one of them, and a target policy's probabilities."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = int(offsets[-1])
    logging, target = rng.dirichlet(np.ones(3) * 3, steps), rng.dirichlet(np.ones(3) * 3, steps)
    actions = np.array([rng.choice(3, p=row) for row in logging])
    return Trajectories(rng.normal(size=(steps, 2)), actions, rng.normal(size=steps), offsets, logging), target


def moments(logs: Trajectories, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[w] and E[w²] of each episode, over all actions that might have been taken at its contexts."""
    assert logs.propensities is not None
    first, second = [], []
    for start, end in itertools.pairwise(logs.offsets):
        chances, ratios = [], []
        for actions in itertools.product(range(3), repeat=int(end - start)):
            rows = (np.arange(start, end), np.array(actions))
            chances.append(logs.propensities[rows].prod())
            ratios.append((target[rows] / logs.propensities[rows]).prod())
        first.append(np.array(chances) @ np.array(ratios))
        second.append(np.array(chances) @ np.square(ratios))
    return np.array(first), np.array(second)


@pytest.mark.parametrize("lengths", [[1, 1, 1, 1, 1], [1, 3, 2, 3]])
def test_the_expected_ess_is_exact(lengths: list[int]) -> None:
    logs, target = random_problem(lengths)
    evidence = Evidence(weights_of(target, logs), logs, probabilities=target)
    pool = Recombined(logs, seed=0, copies=40_000).pool(evidence)
    first, second = moments(logs, target)
    np.testing.assert_allclose(first, 1.0)  # so enumeration is right
    exact = len(lengths) * first.mean() ** 2 / second.mean()
    assert pool.redrawn
    assert pool.expected_ess(len(lengths), np.inf) == pytest.approx(exact, rel=0.02)


def test_truncation_counts() -> None:
    logs, target = random_problem([1, 1, 1])
    assert logs.propensities is not None
    ratios = np.minimum(target / logs.propensities, 1.2)
    first = (logs.propensities * ratios).sum(axis=1).mean()
    second = (logs.propensities * ratios**2).sum(axis=1).mean()
    pool = Recombined(logs, 0, copies=40_000).pool(Evidence(weights_of(target, logs), logs, probabilities=target))
    assert pool.expected_ess(3, 1.2) == pytest.approx(3 * first**2 / second, rel=0.01)


def test_clusters_are_redrawn_whole() -> None:
    lengths, clusters = [1, 2, 1, 1, 2, 1], np.array([0, 0, 0, 1, 1, 2])
    logs, target = random_problem(lengths)
    logs = Trajectories(logs.contexts, logs.actions, logs.rewards, logs.offsets, logs.propensities, clusters=clusters)
    evidence = Evidence(weights_of(target, logs), logs, probabilities=target)
    pool = Recombined(logs, seed=0, copies=20_000).pool(evidence)
    first, second = moments(logs, target)
    # Given the contexts, episodes of a cluster are independent: E[(Σw)²] = (ΣE[w])² + Σ Var[w].
    sums = np.bincount(clusters, first)
    squares = sums**2 + np.bincount(clusters, second - first**2)
    assert pool.expected_ess(3, np.inf) == pytest.approx(3 * sums.mean() ** 2 / squares.mean(), rel=0.02)
    units = pool.contributions(snis, np.inf)
    assert units.n_episodes == 3 * 20_000
    assert pool.clusters is not None
    sizes = np.bincount(pool.clusters)
    assert np.bincount(sizes)[1:].tolist() == [20_000, 20_000, 20_000]  # clusters of one, two and three episodes


def test_neighbours_in_the_pool_have_nothing_in_common() -> None:
    """Those in a row are drawn together, so patients in an order must not stay in it."""
    n = 400
    rng = np.random.default_rng(0)
    logging = np.full((n, 2), 0.5)
    share = np.linspace(0.5, 0.95, n)  # the target departs ever more
    target = np.c_[share, 1 - share]
    for clusters in (None, np.arange(n)):
        logs = Trajectories(
            rng.normal(size=(n, 1)),
            rng.integers(2, size=n),
            rng.random(n),
            np.arange(n + 1),
            logging,
            clusters=clusters,
        )
        pool = Recombined(logs, 0, copies=40).pool(Evidence(weights_of(target, logs), logs, probabilities=target))
        distance = np.abs(pool.contributions(snis, np.inf).denominators[:, 0] - 1)
        assert abs(np.corrcoef(distance[1:], distance[:-1])[0, 1]) < 0.03


def test_the_share_of_clusters_by_hand() -> None:
    assert effective_share(np.log([1.0, 1.0, 2.0]), np.array([0, 0, 1])) == pytest.approx(1.0)
    assert effective_share(np.full(2, -np.inf), np.array([0, 1])) == 0


def test_propensities_of_the_logged_action_alone_are_spliced() -> None:
    logs, target = random_problem([1, 3, 2, 3])
    alone = logs.with_propensities(logs.logged_propensities)
    evidence = Evidence(weights_of(target, alone), alone, probabilities=target)
    assert not Recombined(alone, seed=0).pool(evidence).redrawn


class Greedy(Memoryless):
    """Nearly always the action that the context names."""

    def probabilities(self, contexts: object) -> FloatArray:
        rows = np.asarray(contexts)
        return np.where(np.arange(10) == rows[:, :1].astype(int), 0.91, 0.01)


@pytest.mark.parametrize("seed", [5, 7])  # logs whose largest weights look like a heavy tail
def test_bounded_weights_are_not_called_heavy_tailed(seed: int) -> None:
    """What the policy takes has a propensity of at least 0.04: no weight is above 25, and there is no tail beyond."""
    rng = np.random.default_rng(seed)
    n = 2000
    named = rng.integers(10, size=n)
    share = np.maximum(0.04, 0.9 * rng.random(n) ** 1.5)
    logging = np.where(np.arange(10) == named[:, None], share[:, None], (1 - share[:, None]) / 9)
    actions = np.array([rng.choice(10, p=row) for row in logging])
    logs = Trajectories(named[:, None], actions, rng.normal(size=n), np.arange(n + 1), logging)
    known = evaluate(Greedy(), logs)
    guessed = evaluate(Greedy(), logs.with_propensities(logs.logged_propensities))
    assert any("Pareto" in reason for reason in guessed.reasons)
    assert known.diagnostics.redrawn
    assert not any("Pareto" in reason for reason in known.reasons)
    assert known.verdict == "trust"
    first, second = 1.0, float((logging * (Greedy().probabilities(logs.contexts) / logging) ** 2).sum(axis=1).mean())
    assert known.diagnostics.expected_ess == pytest.approx(n * first / second, rel=0.02)
