"""Checks of drift: no false alarms from clusters or rare actions, and alarms where something is wrong."""

from typing import Any

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.rounds.drawn import _bets, stakes
from poela.rounds.drift import Drift, drifts


def named(found: tuple[Drift, ...], name: str) -> Drift:
    return next(check for check in found if check.name == name)


def cases(rng: np.random.Generator, clusters: int, each: int, chance: Any = 0.5) -> tuple[Trajectories, Any]:
    """Cases without any drift, alike within clusters."""
    n, of = clusters * each, np.repeat(np.arange(clusters), each)
    x = rng.normal(size=(n, 2)) + 0.8 * rng.normal(size=(clusters, 2))[of]
    treat = np.broadcast_to(chance, n)
    actions = (rng.random(n) < treat).astype(int)
    rewards = x[:, 0] + actions + rng.normal(size=n) + rng.normal(size=clusters)[of]
    doing = np.stack([1 - treat, treat], axis=1)
    return Trajectories(x, actions, rewards, np.arange(n + 1), doing, clusters=of), doing


def test_clusters_raise_no_alarm() -> None:
    """60 logs of 200 clusters; taken for independent cases, contexts and outcomes move in 14 of 100 such logs."""
    alarms = 0
    for seed in range(60):
        logs, doing = cases(np.random.default_rng([7, seed]), 200, 6)
        alarms += any(check.drifted for check in drifts(logs, doing, None, 1.0, 1000))
    assert alarms <= 3  # at 3% for three checks, more have a chance of 4%, and these are far from their errors


def test_clusters_are_counted_where_they_are_too_few() -> None:
    logs, doing = cases(np.random.default_rng(0), 60, 10)
    assert named(drifts(logs, doing, None, 1.0, 1000), "contexts").words == "60 clusters are too few to tell yet"


def test_a_rare_action_that_was_not_drawn_yet_is_no_drift() -> None:
    logs, doing = cases(np.random.default_rng(1), 200, 1, chance=0.002)
    assert not logs.actions.any()
    assert not named(drifts(logs, doing, None, 1.0, 1000), "drawn").drifted


def test_a_rare_feature_that_the_first_cases_lack_is_no_drift() -> None:
    """One case in 60 has it, but none of the first hundred: their standard error is not 0."""
    rare = np.arange(3000) % 60 == 59
    rare[:100] = False
    logs = Trajectories(rare[:, None].astype(float), np.arange(3000) % 2, np.zeros(3000), np.arange(3001))
    assert not named(drifts(logs, np.full((3000, 2), 0.5), None, 1.0, 1000), "contexts").drifted


def test_what_the_policy_never_gives_is_drift_at_once() -> None:
    logs, doing = cases(np.random.default_rng(2), 10, 1)
    doing = np.eye(2)[logs.actions]
    doing[[3, 5]] = doing[[3, 5]][:, ::-1]
    found = named(drifts(logs.with_propensities(None), doing, None, 1.0, 1000), "drawn")
    assert found.drifted
    assert "2 decisions of 10 took actions that this policy never gives" in found.words


@pytest.mark.parametrize("propensities", ["none", "logged"])
def test_a_log_that_ignores_the_policy(propensities: str) -> None:
    """Both actions as often as the policy gives them, but by a coin rather than by x."""
    rng = np.random.default_rng(3)
    logs, _ = cases(rng, 400, 1)
    treat = np.where(logs.contexts[:, 0] > 0, 0.9, 0.1)
    doing = np.stack([1 - treat, treat], axis=1)
    logs = logs.with_propensities(None if propensities == "none" else np.full(400, 0.5))
    assert logs.actions.mean() == pytest.approx(treat.mean(), abs=0.06)
    found = drifts(logs, doing, None, 1.0, 1000)
    assert named(found, "drawn").drifted
    assert "rarely gives were taken more often" in named(found, "drawn").words
    assert [check.drifted for check in found if check.name == "policy"] == ([] if propensities == "none" else [True])


def test_an_action_by_a_feature_that_the_policy_does_not_look_at() -> None:
    rng = np.random.default_rng(4)
    logs, doing = cases(rng, 600, 1)
    treated = rng.random(600) < np.where(logs.contexts[:, 1] > 0, 0.7, 0.3)
    logs = Trajectories(logs.contexts, treated.astype(int), logs.rewards, logs.offsets)
    found = named(drifts(logs, doing, None, 1.0, 1000), "drawn")
    assert found.drifted
    assert "than its probabilities say where x1 is high" in found.words


def test_what_changes_late_is_seen_and_dated() -> None:
    """After 2000 cases of a fair coin it falls on one side in 75%: the mean of 2150 is hardly off."""
    rng = np.random.default_rng(5)
    logs, doing = cases(rng, 2150, 1)
    late = np.where(np.arange(2150) < 2000, logs.actions, rng.random(2150) < 0.75).astype(int)
    contexts = np.array(logs.contexts)
    contexts[2000:, 0] += 0.8
    logs = Trajectories(contexts, late, logs.rewards, logs.offsets, doing)
    found = drifts(logs, doing, None, 1.0, 1000)
    assert [named(found, name).drifted for name in ("drawn", "contexts")] == [True, True]
    assert [named(found, name).since for name in ("drawn", "contexts")] == [2000, 2000]
    assert "since about case 2,001" in named(found, "drawn").words
    assert "since about case 2,001" in named(found, "contexts").words
    assert named(found, "contexts").path[0][1] < 1 < named(found, "contexts").path[-1][1]


def test_bets_are_fair() -> None:
    """The expected factor of every bet at every decision is 1, by enumeration of the actions."""
    rng = np.random.default_rng(6)
    doing, contexts = rng.dirichlet([1, 1, 1], size=50), rng.normal(size=(50, 2))
    expected: dict[Any, Any] = {}
    for action in range(3):
        said = np.full(50, action)
        logs = Trajectories(contexts, said, np.zeros(50), np.arange(51), n_actions=3)
        for bet, ratios in _bets(logs, said, doing):
            expected[bet] = expected.get(bet, 0.0) + doing[:, action] * np.exp(ratios)
    assert sum(bet.share for bet in expected) == pytest.approx(1)
    assert np.allclose(list(expected.values()), 1, atol=1e-12)


def test_stakes_of_one_stretch_are_the_mean_of_all_bets() -> None:
    """Fewer than a hundred cases begin once: half of what all bets, each with its share, have won."""
    rng = np.random.default_rng(8)
    logs, doing = cases(rng, 80, 1, chance=0.3)
    by_hand = sum(bet.share * np.exp(ratios.sum()) for bet, ratios in _bets(logs, logs.actions, doing)) / 2
    assert stakes(logs, logs.actions, doing).won == pytest.approx(np.log(by_hand))


def test_real_actions_are_checked_for_who_comes_and_what_comes_of_it() -> None:
    rng = np.random.default_rng(9)
    doses, x = rng.normal(size=(400, 1)), rng.normal(size=(400, 1))
    x[200:] += 1
    logs = Trajectories(x, doses, doses[:, 0] + rng.normal(size=400), np.arange(401))
    found = drifts(logs, None, None, 1.0, 1000)
    assert {check.name: check.drifted for check in found} == {"contexts": True, "outcome": False}


@pytest.mark.parametrize(("shift", "drifted"), [(0.0, False), (-1.0, True)])
def test_a_policy_that_helps_is_no_drift_from_the_log_before(shift: float, drifted: bool) -> None:
    """Treating helps where x > 0, and the policy treats there; a coin decided before. Outcomes that fall are drift."""
    rng = np.random.default_rng(13)

    def logs(chance: Any, shift: float) -> Trajectories:
        x = rng.normal(size=(600, 1))
        actions = (rng.random(600) < chance(x[:, 0])).astype(int)
        rewards = 2 * np.sign(x[:, 0]) * (2 * actions - 1) + rng.normal(size=600) + shift
        return Trajectories(x, actions, rewards, np.arange(601))

    def policy(x: Any) -> Any:
        return np.where(x > 0, 0.9, 0.1)

    before, cases = logs(lambda x: 0.5, 0.0), logs(policy, shift)
    given = np.where(before.actions == 1, policy(before.contexts[:, 0]), 1 - policy(before.contexts[:, 0]))
    treat = policy(cases.contexts[:, 0])
    doing = np.stack([1 - treat, treat], axis=1)
    found = named(drifts(cases, doing, before, 1.0, 1000, given / 0.5), "outcome")
    assert found.drifted == drifted
