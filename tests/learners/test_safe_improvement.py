"""SPIBB, Soft-SPIBB and DPRL where contexts are few: counts are exact, and values can be worked out one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import MinimumProbability
from poela.learners.safe_improvement import DPRL, SPIBB, SafeImprovement, SoftSPIBB
from poela.policies.storage import load_policy
from poela.simulators.episodes import run
from poela.simulators.tabular import TablePolicy, TabularMDP

EXACT: dict[str, Any] = {"penalty": 1e-6, "history": 0, "reach": 0.0}  # only equal contexts are counted
BEHAVIOR = np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])


def problem() -> TabularMDP:
    """Three states, three actions, three steps; some episodes end early."""
    rng = np.random.default_rng(7)
    return TabularMDP(0.9 * rng.dirichlet(np.ones(3), (3, 3)), rng.normal(size=(3, 3)), [0.5, 0.3, 0.2], horizon=3)


def logged(episodes: int, seed: int = 0) -> Trajectories:
    mdp = problem()
    return run(mdp, TablePolicy(mdp, BEHAVIOR), episodes, seed)


def counted(logs: Trajectories) -> FloatArray:
    counts = np.zeros((3, 3))
    for state, action in zip(logs.contexts.argmax(axis=1), logs.actions, strict=True):
        counts[state, action] += 1
    return counts


def acted(learner: SafeImprovement, q: FloatArray, state: int, counts: FloatArray, limit: float) -> FloatArray:
    """The published rule at one state, written out once more."""
    mu: FloatArray = np.asarray(BEHAVIOR[state])
    if isinstance(learner, SPIBB):
        sure = [a for a in range(3) if counts[state, a] > limit]
        policy = mu.copy()
        if sure:
            policy[sure] = 0.0
            policy[max(sure, key=lambda a: q[a])] = sum(mu[a] for a in sure)
        return policy
    points = [a for a in range(3) if counts[state, a] >= limit and q[a] >= mu @ q]
    return np.asarray(np.eye(3)[max(points, key=lambda a: q[a])]) if points else mu


def by_hand(learner: SafeImprovement, logs: Trajectories, limit: float) -> FloatArray:
    """Probabilities [step, state, action] by backward induction over the frequencies of the log."""
    counts, states = counted(logs), logs.contexts.argmax(axis=1)
    policy, following = np.zeros((3, 3, 3)), np.zeros(3)
    for step in (2, 1, 0):
        q = np.zeros((3, 3))
        for state in range(3):
            for action in range(3):
                here = (logs.step_numbers == step) & (states == state) & (logs.actions == action)
                targets = []
                for row in np.flatnonzero(here):
                    goes_on = row + 1 < logs.n_steps and logs.step_numbers[row + 1] == step + 1
                    targets.append(logs.rewards[row] + (following[states[row + 1]] if goes_on else 0.0))
                q[state, action] = np.mean(targets)
        policy[step] = [acted(learner, q[state], state, counts, limit) for state in range(3)]
        following = (policy[step] * q).sum(axis=1)
    return policy


@pytest.mark.parametrize("kind", [SPIBB, DPRL])
def test_the_path_is_that_of_an_enumerated_problem(kind: Any) -> None:
    logs = logged(1500)
    limits = [1200, 900, 600, 300, 200, 1]
    path = list(kind(least_count=tuple(limits), **EXACT).fit_path(logs))
    steps, states = np.divmod(np.arange(9), 3)
    tables = []
    for limit, point in zip(limits, path, strict=True):
        found = point.policy.probabilities(np.eye(3)[states], steps=steps)
        expected = by_hand(kind(), logs, limit)
        np.testing.assert_allclose(found, expected.reshape(9, 3), atol=1e-6)
        assert point.note == f"least count {limit}"
        tables.append(expected)
    assert len({table.tobytes() for table in tables}) > 2  # the limits made a difference
    np.testing.assert_array_equal(path[0].policy.nearby.counts(np.eye(3)), counted(logs))


def test_with_enough_seen_of_everything_the_bold_end_is_the_best_policy() -> None:
    mdp, logs = problem(), logged(40_000, seed=3)
    best, table = mdp.optimal()
    steps, states = np.divmod(np.arange(9), 3)
    for learner in (SPIBB(least_count=(10,), **EXACT), DPRL(least_count=(10,), **EXACT)):
        found = learner.fit(logs).probabilities(np.eye(3)[states], steps=steps)
        np.testing.assert_array_equal(found.reshape(3, 3, 3), table)
    assert best > mdp.value(TablePolicy(mdp, BEHAVIOR)) + 0.5


@pytest.mark.parametrize("learner", [SPIBB(least_count=(10**6,), **EXACT), DPRL(least_count=(10**6,), **EXACT)])
def test_where_nothing_was_seen_often_enough_nothing_changes(learner: SafeImprovement) -> None:
    logs = logged(300)
    policy = learner.fit(logs)
    assert logs.propensities is not None
    np.testing.assert_allclose(policy.along(logs), logs.propensities, atol=1e-12)
    assert policy.deferred(logs).all()


def test_spibb_keeps_current_practice_on_uncertain_pairs_of_any_log() -> None:
    train, other = logged(400), logged(100, seed=1)
    policy = SPIBB(least_count=(150,), **EXACT).fit(train)
    uncertain = counted(train)[other.contexts.argmax(axis=1)] <= 150
    assert uncertain.any()
    assert not uncertain.all()
    assert other.propensities is not None
    np.testing.assert_allclose(policy.along(other)[uncertain], other.propensities[uncertain], atol=1e-12)


def test_soft_spibb_spends_at_most_its_budget_and_more_of_it_as_the_path_goes_on() -> None:
    train = logged(400)
    learner = SoftSPIBB(delta=0.5, **EXACT)
    counts = counted(train)[train.contexts.argmax(axis=1)]
    errors = np.sqrt(2 * np.log(2 * 3 * train.n_steps / 0.5) / counts)
    assert train.propensities is not None
    spent = []
    for epsilon, point in zip(learner.epsilon, learner.fit_path(train), strict=True):
        cost = (errors * np.abs(point.policy.along(train) - train.propensities)).sum(axis=1)
        assert cost.max() <= epsilon + 1e-9
        spent.append(cost.mean())
    assert spent[0] > 0
    assert spent == sorted(spent)


def test_dprl_says_where_it_defers() -> None:
    train, other = logged(400), logged(100, seed=1)
    policy = DPRL(least_count=(150,), **EXACT).fit(train)
    deferred = policy.deferred(other)
    assert deferred.any()
    assert not deferred.all()
    np.testing.assert_array_equal(policy.along(other)[~deferred].max(axis=1), 1.0)


@pytest.mark.parametrize("kind", [SPIBB, SoftSPIBB, DPRL])
def test_every_path_has_the_same_points_whatever_the_log(kind: Any) -> None:
    notes = [[point.note for point in kind().fit_path(logged(n, seed))] for n, seed in ((40, 0), (90, 1))]
    assert notes[0] == notes[1]
    assert len(notes[0]) == 10
    assert kind.walks


def test_under_a_rule_departures_stay_among_eligible_actions() -> None:
    logs = logged(400)
    assert logs.propensities is not None
    for learner in (SPIBB(rule=MinimumProbability(0.2), **EXACT), SoftSPIBB(rule=MinimumProbability(0.2), **EXACT)):
        rows = learner.fit(logs).along(logs)
        assert (rows[logs.propensities < 0.2] == 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)


def test_a_file_says_that_it_holds_contexts_but_not_whose(tmp_path: Path) -> None:
    logs = logged(60)
    policy = SPIBB(**{**EXACT, "reach": "q50"}).fit(logs)
    assert policy.nearby.episode_ids is None
    policy.save(tmp_path / "policy", include_contexts="cover")
    text = (tmp_path / "policy" / "poela-policy.json").read_text()
    assert '"contains_logged_contexts": true' in text
    # Counts of a thinned log would be others, so these contexts are kept whole.
    np.testing.assert_array_equal(load_policy(tmp_path / "policy").along(logs), policy.along(logs))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match="in falling order"):
        SPIBB(least_count=(1, 2))
    with pytest.raises(InputError, match="in rising order"):
        SoftSPIBB(epsilon=(2.0, 1.0))
    with pytest.raises(InputError, match="give one number or more"):
        DPRL(least_count=())
    with pytest.raises(InputError, match="at least 1"):
        DPRL(least_count=(3, 0))
    with pytest.raises(InputError, match="quantile"):
        SPIBB(reach="q200")
