"""The hull walk and what it allots: a published example, all that is possible by enumeration, limits that hold."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.policies.allotting import by_budget, by_counts, hull_walk


def test_the_example_of_maq() -> None:
    """Two arms at costs 3 and 6, three units; at a mean spend of 5 they get A, B, B, a mean gain of 45."""
    costs, scores = np.array([0.0, 3.0, 6.0]), np.array([[0.0, 30, 10], [0, 40, 50], [0, 10, 55]])
    walk = hull_walk(costs, scores)
    assert (walk.spends / 3).tolist() == [0, 1, 2, 4, 5]
    gains = [scores[np.arange(3), walk.after(steps)].mean() for steps in range(5)]
    np.testing.assert_allclose(gains, [0, 40 / 3, 70 / 3, 125 / 3, 45])
    assert walk.after(walk.within(15.0)).tolist() == [1, 2, 2]
    found, _ = by_budget(costs, scores, np.ones((3, 3), bool), 15.0, np.zeros(3))
    assert found.chosen.tolist() == [1, 2, 2]
    assert not found.left_out.any()


def random_cases(rng: Any, n: int, actions: int) -> tuple[Any, Any, Any]:
    allowed = rng.random((n, actions)) < 0.8
    allowed[np.arange(n), rng.integers(0, actions, n)] = True
    return rng.integers(0, 6, (n, actions)) * 1.0, rng.normal(size=(n, actions)), allowed


@pytest.mark.parametrize("seed", range(20))
def test_every_kink_of_the_walk_is_the_best_for_its_spend(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, scores, allowed = random_cases(rng, 4, 3)
    rows, walk = np.arange(4), hull_walk(costs, scores, allowed)
    every = [np.array(chosen) for chosen in product(range(3), repeat=4) if allowed[rows, chosen].all()]
    for steps in range(len(walk.slopes) + 1):
        chosen = walk.after(steps)
        spend = costs[rows, chosen].sum()
        assert spend == pytest.approx(walk.spends[steps])
        best = max(scores[rows, one].sum() for one in every if costs[rows, one].sum() <= spend + 1e-9)
        assert scores[rows, chosen].sum() == pytest.approx(best)
    assert (np.diff(walk.slopes) <= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_at_its_price_the_walk_is_the_best_action_less_its_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, scores, allowed = random_cases(rng, 30, 4)
    walk = hull_walk(costs, scores, allowed)
    budget = rng.uniform(walk.spends[0], walk.spends[-1])
    price = walk.price(budget)
    best = np.where(allowed, scores - price * costs, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(best, walk.after(walk.within(budget)))


@pytest.mark.parametrize("limits", [{2: 1}, {1: 1, 2: 2}, {0: 1, 1: 1, 2: 1}])
def test_counts_are_the_best_by_enumeration(limits: dict[int, int]) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        _, scores, allowed = random_cases(rng, 5, 3)
        found, rows = by_counts(scores, allowed, limits, rng.random(5)), np.arange(5)

        def worth(one: Any, scores: Any = scores) -> tuple[int, float]:
            """People are asked as rarely as can be; then the sum of scores counts."""
            served = np.array(one) >= 0
            return int(served.sum()), float(scores[np.arange(5), one][served].sum())

        options = [[-1, *np.flatnonzero(own)] for own in allowed]
        within = (one for one in product(*options) if all(one.count(a) <= k for a, k in limits.items()))
        best = max(map(worth, within))
        got = worth(tuple(found.chosen.tolist()))
        assert got[0] == best[0]
        served = found.chosen >= 0
        assert allowed[rows[served], found.chosen[served]].all()
        assert (found.unserved == ~served).all()
        if len(limits) > 1 or not found.unserved.any():
            assert got[1] == pytest.approx(best[1])


def test_limits_hold_in_a_thousand_batches() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        n, actions = int(rng.integers(1, 60)), int(rng.integers(2, 5))
        costs, scores, allowed = random_cases(rng, n, actions)
        scores = scores.round(int(rng.integers(0, 3)))  # with ties
        budget, limit, draws = rng.uniform(0, 4 * n), int(rng.integers(0, n + 1)), rng.random(n)
        for found, cost, most in (
            (by_budget(costs, scores, allowed, budget, draws)[0], costs, budget),
            (by_counts(scores, allowed, {0: limit}, draws), np.arange(actions) == 0, limit),
        ):
            given = np.flatnonzero(found.chosen >= 0)
            assert np.broadcast_to(cost, scores.shape)[given, found.chosen[given]].sum() <= most + 1e-9
            assert allowed[given, found.chosen[given]].all()
            np.testing.assert_allclose(found.probabilities[given].sum(axis=1), 1.0)
            assert (found.probabilities[given, found.chosen[given]] > 0).all()
            assert (found.probabilities[~allowed] == 0).all()


def test_several_limits_hold_in_random_batches() -> None:
    rng = np.random.default_rng(1)
    for _ in range(1000):
        _, scores, allowed = random_cases(rng, 25, 4)
        limits = {0: int(rng.integers(0, 9)), 2: int(rng.integers(0, 9))}
        found = by_counts(scores, allowed, limits, rng.random(25))
        assert all((found.chosen == action).sum() <= most for action, most in limits.items())


def test_cases_of_equal_worth_draw_lots_with_the_chances_that_are_written_down() -> None:
    scores, allowed = np.tile([0.0, 1.0], (6, 1)), np.ones((6, 2), bool)
    scores[0, 1] = 2.0
    counts = np.zeros(6)
    for seed in range(400):
        found = by_counts(scores, allowed, {1: 3}, np.random.default_rng(seed).random(6))
        counts += found.chosen
        np.testing.assert_allclose(found.probabilities[:, 1], [1.0, *[0.4] * 5])
    assert counts[0] == 400
    assert np.abs(counts[1:] / 400 - 0.4).max() < 4 * np.sqrt(0.24 / 400)


@pytest.mark.parametrize("dear", [0, 1])
def test_a_price_never_spends_more_than_the_budget_where_cases_are_alike(dear: int) -> None:
    costs, scores = np.where(np.arange(2) == dear, 1.0, 0.0), np.zeros((9, 2))
    scores[:, dear] = np.repeat([5.0, 3.0, 2.0], 3) + np.linspace(0, 1e-12, 9)  # alike, but for rounding
    for budget in range(10):
        chosen = (scores - hull_walk(costs, scores).price(budget) * costs).argmax(axis=1)
        assert (chosen == dear).sum() == budget // 3 * 3


def test_lots_are_fair_between_cases_whose_increments_come_at_different_places() -> None:
    costs, scores, given = np.arange(3.0), np.array([[0.0, 2.0, -9.0], [0.0, 5.0, 7.0]]), np.zeros((2, 3))
    for seed in range(300):
        found, _ = by_budget(costs, scores, np.ones((2, 3), bool), 2.0, np.random.default_rng(seed).random(2))
        given[np.arange(2), found.chosen] += 1 / 300
        np.testing.assert_allclose(found.probabilities, [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    assert np.abs(given - found.probabilities).max() < 4 * np.sqrt(0.25 / 300)


def test_what_must_cost_goes_to_as_many_cases_as_it_can() -> None:
    costs = np.array([[5.0], [1.0], [1.0]])
    found, _ = by_budget(costs, np.zeros((3, 1)), np.ones((3, 1), bool), 3.0, np.array([0.1, 0.2, 0.3]))
    assert found.unserved.tolist() == [True, False, False]


@pytest.mark.parametrize("limits", [{1: 1}, {1: 1, 2: 1}])
@pytest.mark.parametrize("n", [0, 2])
def test_where_nothing_is_allowed_nobody_gets_anything(n: int, limits: dict[int, int]) -> None:
    found = by_counts(np.zeros((n, 3)), np.zeros((n, 3), bool), limits, np.zeros(n))
    assert found.chosen.tolist() == [-1] * n
    assert not found.unserved.any()


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        hull_walk(np.zeros(2), np.array([[np.nan, 0.0]]))
