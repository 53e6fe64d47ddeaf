"""Propensities of actions that were not taken, from those of taken ones: against the truth of simulated logs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.completed import completed_propensities, has_edge
from poela.eligibility.support import cross_fitted_support


def _logs(chances: FloatArray, contexts: FloatArray, seed: int, told: FloatArray | None = None) -> Trajectories:
    """One decision each by these chances [n, A], of which the log has those of the actions taken."""
    n, actions = chances.shape
    drawn = (np.random.default_rng(seed).random((n, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    logged = (chances if told is None else told)[np.arange(n), drawn]
    return Trajectories(contexts, drawn, np.zeros(n), np.arange(n + 1), logged, n_actions=actions)


def _with_a_hole(n: int, seed: int, edge: float) -> tuple[Trajectories, FloatArray]:
    contexts = np.random.default_rng((seed, 1)).normal(size=(n, 4))
    chances = np.where(contexts[:, :1] > edge, [0.5, 0.5, 0.0], [0.4, 0.4, 0.2])
    return _logs(chances, contexts, seed), chances


@pytest.mark.parametrize("edge", [0.0, 1.0, 2.0])
def test_what_others_leave_is_what_was_done(edge: float) -> None:
    logs, chances = _with_a_hole(600, 3, edge)
    found = completed_propensities(logs)
    assert np.abs(found - chances).mean() < 0.005
    assert found[contexts_above(logs, edge), 2].mean() < 0.01


def contexts_above(logs: Trajectories, edge: float) -> np.ndarray:
    """Where the third action is never taken."""
    return np.asarray(logs.contexts[:, 0] > edge)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_rows_add_up_to_one_and_keep_what_was_logged(seed: int, actions: int) -> None:
    """Even where propensities are noise, which no practice could have."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(actions, 0.3), 40)
    logs = _logs(chances, rng.normal(size=(40, 2)), seed)
    found = completed_propensities(logs)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found[np.arange(40), logs.actions], logs.logged_propensities)
    if actions == 2:
        np.testing.assert_allclose(found, chances, atol=1e-9)


def test_a_dozen_cases_without_an_action_are_a_hole() -> None:
    """Too few for a model of actions, which would have to see that two or three are missing."""
    open_ones = []
    for seed in range(4):
        logs, _ = _with_a_hole(600, seed, 2.0)
        support = cross_fitted_support(logs, 0.02, False)
        assert support is not None
        hole = contexts_above(logs, 2.0)
        assert 5 <= hole.sum() <= 25
        open_ones.append((support.held_out[hole, 2] > support.model.least[2]).mean())
        assert support.model.barred <= 0.005
    assert np.mean(open_ones) < 0.15


def test_a_practice_that_prefers_smoothly_misses_nothing() -> None:
    contexts = np.random.default_rng(0).normal(size=(900, 3))
    scores = np.exp(np.stack([np.zeros(900), 0.5 * contexts[:, 0], -1 - contexts[:, 0]], axis=1))
    support = cross_fitted_support(_logs(scores / scores.sum(axis=1, keepdims=True), contexts, 0), 0.02, False)
    assert support is not None
    assert support.model.barred == 0
    assert (support.held_out > support.model.least).all()


def test_propensities_that_are_wrong_tell_nothing() -> None:
    """Logged as if everybody could have had everything: what was done has the word."""
    logs, chances = _with_a_hole(900, 0, 1.0)
    assert np.abs(completed_propensities(logs) - chances).mean() < 0.005
    wrong = _logs(chances, np.asarray(logs.contexts, np.float64), 0, told=np.tile([0.4, 0.4, 0.2], (900, 1)))
    support = cross_fitted_support(wrong, 0.02, False)
    assert support is not None
    hole = contexts_above(wrong, 1.0)
    assert (support.held_out[hole, 2] > support.model.least[2]).mean() < 0.1


def test_an_edge_is_told_from_a_slope() -> None:
    cases = np.linspace(0, 1, 200)
    rates = np.stack([np.where(cases < 0.1, 0.0, 0.3), 0.3 * cases, np.full(200, 0.3)], axis=1)
    assert has_edge(rates).tolist() == [True, False, False]
