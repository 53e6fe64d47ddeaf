"""Intervals cover whatever lies outside support: every outcome that it may have had, by enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.stats.bounds import Bounds
from poela.stats.verdict import NOT_SHOWN

QUARTERS = st.integers(0, 4).map(lambda count: count / 4)
WHOLE_EPISODES = ("is", "snis", "sntis")


class Rows:
    """The same for each of some places, which are the contexts."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = np.asarray(rows, np.float64)

    def probabilities(self, contexts: FloatArray) -> FloatArray:
        return np.asarray(self.rows[np.asarray(contexts)[:, 0].astype(int)])


def population(places: list[int], practice: FloatArray, rates: FloatArray) -> Trajectories:
    """A log in which everything happens exactly as often as it should: places by 16, actions and outcomes by 4."""
    rows = []
    for place, action, outcome in itertools.product(range(len(places)), range(2), range(2)):
        chance = rates[place, action] if outcome else 1 - rates[place, action]
        rows += [(place, action, outcome)] * round(16 * places[place] * practice[place, action] * chance)
    place, action, outcome = np.array(rows).T
    return Trajectories(place[:, None], action, outcome, np.arange(len(rows) + 1), practice[place], 2)


@pytest.mark.parametrize("estimator", [*WHOLE_EPISODES, "pdis", "cwpdis"])
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=3),
    st.lists(QUARTERS, min_size=3, max_size=3),
    st.lists(QUARTERS, min_size=3, max_size=3),
    st.lists(QUARTERS, min_size=6, max_size=6),
    st.sampled_from([(0.0, 1.0), (-3.0, 1.0), (2.0, 5.0)]),
)
def test_one_decision(
    estimator: str,
    places: list[int],
    treated: list[float],
    treats: list[float],
    rates: list[float],
    ends: tuple[float, float],
) -> None:
    """Outcomes of two values: what was never done leads to the lower one for all, or to the higher one."""
    lower, higher = ends
    count = len(places)
    practice, policy = (np.array([(1 - one, one) for one in chances])[:count] for chances in (treated, treats))
    chance = np.reshape(rates, (3, 2))[:count]
    logs = population(places, practice, chance)
    assume(0 < logs.rewards.mean() < 1)
    logs = replace(logs, rewards=lower + (higher - lower) * logs.rewards)
    found = evaluate(Rows(policy), logs, estimator=estimator, interval="normal", bounds=Bounds(lower, higher))
    assume(found.low is not None and found.diagnostics.outside_share > 0)
    shares, never = np.array(places) / sum(places), practice == 0
    truths = [
        float((shares[:, None] * policy * (lower + (higher - lower) * np.where(never, unseen, chance))).sum())
        for unseen in (0.0, 1.0)
    ]
    holds(found, truths)
    done_now = float(logs.rewards.mean())
    assert found.gain is not None
    assert found.gain.low is not None
    assert found.gain.high is not None
    assert found.gain.low <= truths[0] - done_now + 1e-9
    assert found.gain.high >= truths[1] - done_now - 1e-9


def holds(found: Estimate, truths: list[float]) -> None:
    assert found.low is not None
    assert found.high is not None
    assert found.low <= min(truths) + 1e-9
    assert found.high >= max(truths) - 1e-9


@pytest.mark.parametrize("estimator", WHOLE_EPISODES)
def test_two_decisions_of_which_the_first_moves_the_second(estimator: str) -> None:
    """Who is treated first is more often where nobody is treated: every episode, and what none has shown."""
    practice = np.array([[0.5, 0.5], [1.0, 0.0]])
    policy = np.array([[0.75, 0.25], [0.875, 0.125]])
    to_second = (0.25, 0.75)  # the chance of the second place after either action
    episodes: list[tuple[int, int, int]] = []
    unseen = inside = 0.0
    for first, place, second in itertools.product(range(2), repeat=3):
        likely = to_second[first] if place else 1 - to_second[first]
        episodes += [(first, place, second)] * round(256 * practice[0, first] * likely * practice[place, second])
        acted = policy[0, first] * likely * policy[place, second]
        if practice[place, second] == 0:
            unseen += acted
        else:
            inside += acted * (first == second)
    contexts = np.array([(0, place) for _, place, _ in episodes]).reshape(-1, 1)
    actions = np.array([(first, second) for first, _, second in episodes]).ravel()
    rewards = np.array([(0, first == second) for first, _, second in episodes]).ravel()
    offsets = 2 * np.arange(len(episodes) + 1)
    logs = Trajectories(contexts, actions, rewards, offsets, practice[contexts[:, 0]], 2)
    found = evaluate(Rows(policy), logs, estimator=estimator, interval="normal")
    holds(found, [inside, inside + unseen])


def many(n: int = 600) -> tuple[Trajectories, Rows]:
    """Half are never treated; the policy treats 8% of them too. Nearly all do well, and of those nobody knows."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, 2, n)
    practice = np.array([[0.5, 0.5], [1.0, 0.0]])
    actions = (rng.random(n) < practice[places, 1]).astype(np.int64)
    logs = Trajectories(places[:, None], actions, rng.random(n) < 0.98, np.arange(n + 1), practice[places], 2)
    return logs, Rows(np.array([[0.92, 0.08]] * 2))


@pytest.mark.parametrize("bounds", [None, Bounds(0.0, 1.0)])
def test_outcomes_of_two_values_are_no_licence(bounds: Bounds | None) -> None:
    """The truth is at worst 0.98 of the 96% inside; the interval by chance alone is above it."""
    logs, policy = many()
    found = evaluate(policy, logs, bounds=bounds, interval="normal")
    assert found.diagnostics.outside_share == pytest.approx(0.08 * (logs.contexts[:, 0] == 1).mean())
    at_worst = 0.98 * (1 - found.diagnostics.outside_share)
    assert found.low is not None
    assert found.low < at_worst < found.value - 2 * found.standard_error
    assert found.verdict == "trust"
    assert found.reasons[-1].endswith("for the 4% of decisions outside support")
    assert found.gain is not None
    assert found.gain.low is not None
    assert found.gain.low < at_worst - logs.rewards.mean()
    assert found.advice == NOT_SHOWN


def test_nothing_changes_where_everything_was_done() -> None:
    logs, _ = many()
    inside = Rows(np.array([[0.92, 0.08], [1.0, 0.0]]))
    found = evaluate(inside, logs)
    without = evaluate(inside, logs.with_propensities(logs.logged_propensities))  # of which nothing can be told exactly
    assert (found.low, found.high, found.gain) == (without.low, without.high, without.gain)
    assert len(found.reasons) == 1


def test_other_returns_are_taken_to_be_worse_than_any_seen() -> None:
    logs, policy = many()
    rng = np.random.default_rng(1)
    logs = replace(logs, rewards=rng.normal(size=logs.n_steps))
    found, declared = evaluate(policy, logs), evaluate(policy, logs, bounds=Bounds(-50.0, 50.0))
    mean = logs.rewards.mean()
    guess = mean - 1.5 * (mean - logs.rewards.min())
    outside = found.diagnostics.leaving_share
    assert found.low is not None
    assert found.low < (1 - outside) * found.value + outside * guess
    assert "--returns says the range" in found.reasons[-1]
    assert declared.low is not None
    assert declared.low < (1 - outside) * declared.value - outside * 50 < found.low
