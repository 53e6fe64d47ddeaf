"""How far policies depart from the logging policy: hand-worked cases, and what each manner promises."""

import numpy as np
import pytest
from scipy.optimize import linprog

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.regression.departures import Departure

ERROR = 2.0


def cases(n: int = 400, n_actions: int = 5, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    behavior = rng.dirichlet(np.ones(n_actions), n)
    behavior[rng.random((n, n_actions)) < 0.1] = 0.0
    behavior[:, 0] += behavior.sum(axis=1) == 0
    behavior /= behavior.sum(axis=1, keepdims=True)
    counts = rng.integers(0, 30, (n, n_actions)).astype(float)
    return rng.normal(size=(n, n_actions)), behavior, counts


def errors_of(counts: FloatArray, behavior: FloatArray) -> FloatArray:
    seen = (counts > 0) & (behavior > 0)
    return np.where(seen, ERROR / np.sqrt(np.maximum(counts, 1)), np.inf)


@pytest.mark.parametrize("departure", [Departure("spibb", 10), Departure("defer", 10), Departure("soft", 0.4, ERROR)])
def test_what_comes_out_is_a_policy_that_is_worth_no_less(departure: Departure) -> None:
    q, behavior, counts = cases()
    policy = departure.act(q, behavior, counts)
    assert (policy >= 0).all()
    assert (policy <= 1).all()
    np.testing.assert_allclose(policy.sum(axis=1), 1, atol=1e-12)
    assert (policy[behavior == 0] == 0).all()
    assert ((policy * q).sum(axis=1) >= (behavior * q).sum(axis=1) - 1e-12).all()
    assert (policy != behavior).any()


def test_spibb_keeps_current_practice_on_uncertain_pairs_and_gives_the_rest_to_the_best() -> None:
    q, behavior, counts = cases()
    policy = Departure("spibb", 10).act(q, behavior, counts)
    uncertain = (counts <= 10) | (behavior == 0)
    np.testing.assert_array_equal(policy[uncertain], behavior[uncertain])
    for row in range(len(q)):
        sure = np.flatnonzero(~uncertain[row])
        if len(sure):
            best = sure[q[row, sure].argmax()]
            assert policy[row, best] == pytest.approx(behavior[row, sure].sum(), abs=1e-12)


def test_deferring_acts_for_certain_or_not_at_all() -> None:
    q, behavior, counts = cases()
    policy = Departure("defer", 10).act(q, behavior, counts)
    acted = deferred = 0
    for row in range(len(q)):
        value = float(behavior[row] @ q[row])
        points = [a for a in range(5) if counts[row, a] >= 10 and behavior[row, a] > 0 and q[row, a] >= value]
        if points:
            best = max(points, key=lambda a: q[row, a])
            np.testing.assert_array_equal(policy[row], np.eye(5)[best])
            acted += 1
        else:
            np.testing.assert_array_equal(policy[row], behavior[row])
            deferred += 1
    assert acted > 50
    assert deferred > 20


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4, 2.0, 50.0])
def test_soft_spibb_keeps_its_budget_and_never_moves_what_was_never_seen(epsilon: float) -> None:
    q, behavior, counts = cases()
    policy = Departure("soft", epsilon, ERROR).act(q, behavior, counts)
    errors = errors_of(counts, behavior)
    moved = np.abs(policy - behavior)
    assert (moved[np.isinf(errors)] == 0).all()
    assert (np.where(moved > 0, errors, 0.0) * moved).sum(axis=1).max() <= epsilon + 1e-12


def test_greedy_transfers_come_near_the_linear_programme_and_never_above_it() -> None:
    q, behavior, counts = cases(n=60)
    epsilon, errors = 0.3, errors_of(counts, behavior)
    policy = Departure("soft", epsilon, ERROR).act(q, behavior, counts)
    gained, possible = 0.0, 0.0
    for row in range(len(q)):
        free = np.flatnonzero(np.isfinite(errors[row]))
        if len(free) < 2:
            continue
        # π = μ + up − down, with up, down ≥ 0 and down ≤ μ.
        cost = np.concatenate([-q[row, free], q[row, free]])
        limits = np.concatenate([errors[row, free], errors[row, free]])
        balance = np.concatenate([np.ones(len(free)), -np.ones(len(free))])
        bounds = [(0, None)] * len(free) + [(0, float(share)) for share in behavior[row, free]]
        solved = linprog(cost, limits[None], [epsilon], balance[None], [0.0], bounds=bounds)
        found = float((policy[row] - behavior[row]) @ q[row])
        assert found <= -solved.fun + 1e-9
        gained, possible = gained + found, possible - solved.fun
    assert gained > 0.8 * possible


def test_a_transfer_by_hand() -> None:
    """Two actions, errors 1 and 2: a move of m costs 3·m, and neither side may take more than half of what is left."""
    q, behavior, counts = np.array([[0.0, 1.0]]), np.array([[0.9, 0.1]]), np.array([[4.0, 1.0]])
    np.testing.assert_allclose(Departure("soft", 0.8, 2.0).act(q, behavior, counts), [[0.7, 0.3]])  # 0.8/(2·2)
    np.testing.assert_allclose(Departure("soft", 40.0, 2.0).act(q, behavior, counts), [[0.0, 1.0]])
    np.testing.assert_allclose(Departure("soft", 40.0, 2.0).act(-q, behavior, counts), [[1.0, 0.0]])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        Departure("bold", -1.0, float("nan"))
    assert len(caught.value.problems) == 3
