"""How many episodes show a gain: against power by simulation and by hand, and which policy is planned with."""

from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.stats.gain import Gain
from poela.stats.verdict import TrustThresholds
from poela.studies import final_gain, planning
from poela.studies.candidates import Candidate
from poela.studies.final_gain import FinalEstimates, episodes_needed
from poela.studies.held_out import Episodes
from poela.studies.learning import learn
from poela.studies.planning import Goal, PathPoint, plan, planned


def coins(n: int, effect: float) -> Trajectories:
    """One step, two actions by a fair coin, and what the second one adds."""
    rng = np.random.default_rng(3)
    actions = rng.integers(0, 2, n)
    rewards = effect * actions + rng.normal(size=n)
    return Trajectories(rng.normal(size=(n, 1)), actions, rewards, np.arange(n + 1), np.full((n, 2), 0.5))


def test_needed_episodes_show_the_gain_four_times_in_five() -> None:
    """Normal estimates of a true gain whose error falls with the root of the number of episodes."""
    n, error, gain = 100, 1.5, 1.0
    needed = episodes_needed(gain, error, ess=100.0, n=n, confidence=0.95)
    estimates = np.random.default_rng(0).normal(gain, error * np.sqrt(n / needed), 200_000)
    shown = estimates - NormalDist().inv_cdf(0.95) * error * np.sqrt(n / needed) > 0
    assert shown.mean() == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("wider", [1.0, 1.4])
def test_bounds_for_many_policies_need_more_episodes(wider: float) -> None:
    n, error, gain = 100, 1.5, 1.0
    needed = episodes_needed(gain, error, ess=100.0, n=n, confidence=0.95, widening=wider)
    then = error * np.sqrt(n / needed)
    shown = np.random.default_rng(0).normal(gain, then, 200_000) - wider * NormalDist().inv_cdf(0.95) * then > 0
    assert shown.mean() == pytest.approx(0.8, abs=0.005)


def test_half_the_gain_needs_four_times_the_episodes() -> None:
    found = planned([PathPoint("only", 5.0, 1.0, 500.0, True)], Goal(1.0), n=1000, estimated=False)
    half, asked, double = (need.episodes for need in found.needs)
    assert (half / asked, asked / double) == pytest.approx((4.0, 4.0))
    assert asked == pytest.approx(1000 * (1.644854 + 0.841621) ** 2, rel=1e-5)
    more_sure = planned([PathPoint("only", 5.0, 1.0, 500.0, True)], Goal(1.0, 0.99), n=1000, estimated=False)
    assert more_sure.needs[1].episodes > asked


def test_plans_and_answers_widen_bounds_as_studies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A widening of 2 takes ((2 z + z') / (z + z'))² times as many episodes, wherever episodes are counted."""
    rung = [PathPoint("only", 5.0, 1.0, 500.0, True)]
    alone, among = (planned(rung, Goal(1.0), 1000, False, wider).needs[1].episodes for wider in (1.0, 2.0))
    more = ((2 * 1.644854 + 0.841621) / (1.644854 + 0.841621)) ** 2
    assert among / alone == pytest.approx(more, rel=1e-5)
    logs = coins(120, effect=0.0)
    found = {}
    for wider in (1.0, 2.0):
        monkeypatch.setattr(planning, "widening", lambda points, estimated, wider=wider: wider)
        greedy = Candidate("fittedq", {"history": 0, "regressor": "ridge", "temperatures": (0.5,)})
        found[wider] = plan(logs, 0.01, candidates=[greedy], folds=2, backend="inline").needs[0].episodes
    assert found[2.0] / found[1.0] == pytest.approx(more, rel=1e-5)
    study = learn(logs, candidates=[Candidate("consensus")], folds=2, backend="inline")
    gains = FinalEstimates(study, Episodes.of([logs], 1.0), study.settings)
    gains.estimate = lambda point, *, by_chance=False: SimpleNamespace(gain=Gain(0.1, -0.2, 0.4))  # type: ignore[assignment, method-assign, return-value]
    needed = []
    for wider in (1.0, 2.0):
        monkeypatch.setattr(final_gain, "widening", lambda points, estimated, wider=wider: wider)
        needed.append(gains.needed(study.points[0], study.points) or 0.0)
    assert needed[1] / needed[0] == pytest.approx(more, rel=1e-5)


def test_no_plan_is_below_what_a_verdict_asks_for() -> None:
    found = planned([PathPoint("sure", 5.0, 1e-6, 10.0, True)], Goal(1.0), n=1000, estimated=False)
    assert {need.episodes for need in found.needs} == {1000 * TrustThresholds().ess[0] / 10}


def test_which_policy_is_planned_with() -> None:
    mild, fair, bold = (
        PathPoint("mild", 1.0, 0.1, 900.0, True),
        PathPoint("fair", 2.0, 0.5, 300.0, True),
        PathPoint("bold", 4.0, 3.0, 9.0, False),
    )
    asked = {gain: planned([mild, fair, bold], Goal(gain), 1000, False) for gain in (0.5, 1.5, 3.0, 9.0)}
    chosen = {gain: (found.rung.policy, found.reached) for gain, found in asked.items() if found.rung is not None}
    assert chosen == {0.5: ("mild", True), 1.5: ("fair", True), 3.0: ("bold", True), 9.0: ("fair", False)}
    assert "none is estimated to gain as much" in str(asked[9.0])
    assert "do not tell" in str(planned([], Goal(1.0), 1000, False))


def test_the_error_is_that_of_a_paired_difference() -> None:
    """A fair coin and returns of 0 or 2 around its action: the error of a gain by hand."""
    logs, n = coins(2000, effect=2.0), 2000
    actions, rewards = logs.actions, logs.rewards
    greedy = Candidate("fittedq", {"history": 0, "regressor": "ridge", "temperatures": (0.5,)})
    found = plan(logs, 0.9, candidates=[greedy], folds=2, backend="inline")
    assert found.rung is not None
    # Of π(1) = p the gain is 2p − 1, and each episode's influence on it (w − 1)·(r − 1) − (w − 1)·(2p − 1).
    p = (found.rung.gain + 1) / 2
    weights = np.where(actions == 1, 2 * p, 2 * (1 - p))
    by_hand = ((weights - 1) * (rewards - 1) - (weights - 1) * (2 * p - 1)).std() / np.sqrt(n)
    assert found.rung.error == pytest.approx(by_hand, rel=0.1)
    reach = (1.959964 + 0.841621) * found.rung.error * np.sqrt(n)
    assert found.needs[1].episodes == pytest.approx(max((reach / 0.9) ** 2, n * 40 / found.rung.ess), rel=1e-4)
