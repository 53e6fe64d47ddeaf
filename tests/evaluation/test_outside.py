"""How much of a policy lies outside support: by enumeration and in closed form, and what claims make of it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.support import Support, cross_fitted_support
from poela.eligibility.support_model import SupportModel
from poela.evaluation.evaluate import evaluate
from poela.evaluation.outside import LoggedSupport, logged_support, lost_outside, outside_support, support_along
from poela.evaluation.weights import weights_of
from poela.stats.bounds import Bounds
from poela.stats.diagnostics import Diagnostics, OutsideSupport, diagnose
from poela.stats.verdict import NEVER_DONE, TrustThresholds, verdict_on
from poela.stats.weights import LogWeights

POLICY = np.array([0.3, 0.7])
# The second action: half of the time at 0, never at 1, a fifth of the time at 2.
PRACTICE = np.array([[0.5, 0.5], [1.0, 0.0], [0.8, 0.2]])
SHARES = np.array([0.5, 0.2, 0.3])  # of the three contexts


class Always:
    """The same probabilities everywhere."""

    def __init__(self, *probabilities: float) -> None:
        self.row = np.array(probabilities)

    def probabilities(self, contexts: FloatArray) -> FloatArray:
        return np.tile(self.row, (len(contexts), 1))


def one_step(n: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    places = rng.choice(3, n, p=SHARES)
    actions = (rng.random(n) < PRACTICE[places, 1]).astype(np.int64)
    return Trajectories(places[:, None], actions, np.zeros(n), np.arange(n + 1), PRACTICE[places, actions], 2)


def beyond(logs: Trajectories) -> LoggedSupport:
    """The second action is in doubt at 1, where it is never taken, and at 2, where it is."""
    doubtful = np.column_stack([np.zeros(logs.n_steps, bool), logs.contexts[:, 0] > 0])
    return LoggedSupport(np.zeros_like(doubtful), doubtful, exact=False)


def test_what_is_missing_is_on_average_the_policys_mass_in_the_hole() -> None:
    found = []
    for seed in range(200):
        logs = one_step(40, seed)
        rows = np.tile(POLICY, (logs.n_steps, 1))
        found.append(outside_support(beyond(logs), rows, logs, weights_of(rows, logs)).missing)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - SHARES[1] * POLICY[1]) < 3 * error
    assert error < 0.02


def test_its_error_is_that_of_the_mean_over_episodes() -> None:
    logs = one_step(400, 0)
    rows = np.tile(POLICY, (400, 1))
    found = outside_support(beyond(logs), rows, logs, weights_of(rows, logs))
    doubtful = logs.contexts[:, 0] > 0
    each = doubtful * (0.7 - (logs.actions == 1) * 0.7 / logs.logged_propensities)
    assert found.missing == pytest.approx(each.mean())
    assert found.missing_error == pytest.approx(each.std(ddof=1) / 20)


def test_along_two_steps_it_is_the_chance_of_ever_entering_the_hole() -> None:
    """All episodes of two steps, each with its probability under practice: the mean is exact."""
    expected, mean = 0.0, 0.0
    for first, second in itertools.product(range(3), repeat=2):
        places, likely = np.array([first, second]), SHARES[first] * SHARES[second]
        expected += likely * (1 - np.prod(np.where(places == 1, 1 - POLICY[1], 1.0)))
        for actions in itertools.product(range(2), repeat=2):
            own = PRACTICE[places, actions]
            if not own.all():
                continue
            logs = Trajectories(places[:, None], actions, [0.0, 0.0], [0, 2], own, 2)
            rows = np.tile(POLICY, (2, 1))
            mean += likely * own.prod() * outside_support(beyond(logs), rows, logs, weights_of(rows, logs)).missing
    assert mean == pytest.approx(expected)


def test_two_steps_in_closed_form() -> None:
    never = np.array([[False, True], [False, False], [False, True], [False, True]])
    logs = Trajectories(np.zeros((4, 1)), [0, 1, 0, 0], np.zeros(4), [0, 2, 4], np.full(4, 0.5), 2)
    rows = np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.5, 0.5]])
    found = outside_support(LoggedSupport(never, never, True), rows, logs, weights_of(rows, logs))
    assert found.decisions == pytest.approx((0.1 + 0.0 + 0.2 + 0.5) / 4)
    assert found.episodes == pytest.approx(1 - (0.9 + 0.8 * 0.5) / 2)
    # What is done there at the first step, and at the second one by those who get so far: ratios are 0.8 / 0.5.
    assert found.missing == pytest.approx((0.1 + (0.2 + 1.6 * 0.5)) / 2)


def test_a_policy_that_always_goes_there() -> None:
    never = np.array([[False, True]] * 2)
    logs = Trajectories(np.zeros((2, 1)), [0, 0], np.zeros(2), [0, 2], np.ones(2), 2)
    rows = np.array([[0.0, 1.0]] * 2)
    found = outside_support(LoggedSupport(never, never, True), rows, logs, weights_of(rows, logs))
    assert (found.decisions, found.episodes, found.missing) == (1.0, 1.0, 1.0)


def test_logged_zeros_are_outside_exactly_and_nothing_else_is() -> None:
    n = 60
    places = np.arange(n) % 3
    logs = Trajectories(places[:, None], np.zeros(n, int), np.zeros(n), np.arange(n + 1), PRACTICE[places], 2)
    support = logged_support(logs)
    assert support is not None
    assert support.exact
    np.testing.assert_array_equal(support.outside, PRACTICE[places] == 0)
    assert logged_support(logs.with_propensities(np.full((n, 2), 0.5))) is None


def hand_made(parts: np.ndarray, held_out: FloatArray) -> Support:
    model = SupportModel((), np.array([0.0, 0.2]), np.array([0.0, 0.4]), np.array([0.5, 0.5]), 0.0)
    return Support(model, held_out, parts)


def test_doubt_about_a_part_rests_on_the_others_alone() -> None:
    """Other actions (and their propensities) in a part change nothing of what is doubtful there."""
    rng = np.random.default_rng(0)
    n = 400
    contexts, parts = rng.normal(size=(n, 1)), np.arange(n) % 2
    hole, mistaken = contexts[:, 0] > 1, contexts[:, 0] < -1  # where it is taken more often than predicted
    actions = (~hole & (rng.random(n) < np.where(mistaken, 0.8, 0.5))).astype(np.int64)
    predicted = np.where(hole, 0.1, np.where(mistaken, 0.3, 0.5)) + 0.02 * rng.random(n)
    held_out = np.stack([1 - predicted, predicted], axis=1)
    own = np.where(hole & (actions == 0), 0.9, 0.5)

    def doubtful(taken: np.ndarray, chances: np.ndarray) -> np.ndarray:
        logs = Trajectories(contexts, taken, np.zeros(n), np.arange(n + 1), chances, 2)
        found = support_along(logs, hand_made(parts, held_out))
        assert found is not None
        return found.doubtful

    before = doubtful(actions, own)
    assert before[hole, 1].mean() > 0.5
    assert before[~hole, 1].mean() < 0.1
    mine = parts == 0
    # In this part it is now never taken where it was mistaken, and always elsewhere: a limit from all would be higher.
    after = doubtful(
        np.where(mine, ~mistaken & ~hole, actions).astype(np.int64),
        np.where(mine, rng.uniform(0.1, 0.9, n), own),
    )
    np.testing.assert_array_equal(before[mine], after[mine])
    assert (before[~mine] != after[~mine]).any()


def test_hidden_propensities_leave_nothing_to_weigh_in_doubt() -> None:
    logs = one_step(300, 0).with_propensities(None)
    found = support_along(logs, cross_fitted_support(logs, 0.02, remembers=False))
    assert found is not None
    assert not found.doubtful.any()
    assert found.outside[logs.contexts[:, 0] == 1, 1].all()


def test_what_may_be_lost() -> None:
    outside = OutsideSupport(0.01, 0.02, 0.05, 0.01)
    assert lost_outside(None, 3.0, -1.0, known=True) == (0.0, 0.0)
    assert lost_outside(outside, 3.0, -1.0, known=True) == pytest.approx((0.05 * 4, 0.01 * 4))
    assert lost_outside(outside, 3.0, -1.0, known=False) == pytest.approx((0.02 * 4, 0.0))  # weights cannot tell
    for chance in (-0.3, 0.009):  # no more than its error: what a log without a hole would show, too
        assert lost_outside(replace(outside, missing=chance), 3.0, -1.0, known=True) == pytest.approx((0.02 * 4, 0.0))
    assert lost_outside(outside, -2.0, -1.0, known=True) == (0.0, 0.0)  # no worse than the worst


GOOD = Diagnostics(
    n_episodes=1000,
    n_steps=1000,
    ess=512.0,
    ess_by_step=np.array([512.0]),
    largest_share=0.01,
    pareto_k=0.3,
    mean_weight=1.0,
    mean_weight_z=0.0,
    zero_weight_share=0.0,
    ineligible_steps=0,
    truncated_share=0.0,
    expected_ess=480.0,
)


class TestVerdict:
    """A claim that goes beyond support is not trusted, unless the worst can be counted."""

    def test_a_mean_weight_below_one_is_noticed(self) -> None:
        short = replace(GOOD, mean_weight=0.84, mean_weight_z=-0.16 / 0.05)
        assert verdict_on(short).word == "caution"
        assert "the mean weight is 0.84" in verdict_on(short).reasons[0]
        assert verdict_on(replace(GOOD, mean_weight=0.875, mean_weight_z=-2.5)).word == "caution"
        assert verdict_on(replace(GOOD, mean_weight=1.125, mean_weight_z=2.5)).word == "trust"
        assert verdict_on(replace(GOOD, mean_weight=0.9, mean_weight_z=-2.0)).word == "trust"

    def test_always_the_action_that_some_never_get(self) -> None:
        """Its mean weight is the share of those who may get it: 0.84 of 1,500."""
        n = 1500
        hole = np.arange(n) < 0.16 * n
        taken = ~hole & (np.arange(n) % 5 == 0)
        weights = LogWeights(np.log(np.where(taken, 5.0, 1e-300)), np.arange(n + 1))
        found = diagnose(weights)
        assert found.mean_weight == pytest.approx(0.84)
        error = 5 * np.sqrt(0.168 * 0.832 / (n - 1))
        assert found.mean_weight_z == pytest.approx(-0.16 / error, rel=1e-6)
        assert found.mean_weight_z < -TrustThresholds().missing_weight_z[0]

    def test_two_percent_outside(self) -> None:
        beyond_support = replace(GOOD, outside_share=0.02)
        verdict = verdict_on(beyond_support)
        assert (verdict.word, verdict.advice) == ("caution", NEVER_DONE)
        assert verdict.reasons[0].startswith("2.0% of its decisions were never made in similar cases")
        assert verdict_on(beyond_support, bounded=True).word == "trust"
        assert verdict_on(replace(GOOD, outside_share=0.009)).word == "trust"
        assert verdict_on(replace(GOOD, outside_share=0.2), bounded=True).word == "do not trust"

    @pytest.mark.parametrize("share", [0.0, 0.05])
    def test_evaluate_tells_for_any_policy(self, share: float) -> None:
        rng = np.random.default_rng(0)
        n = 2000
        places = rng.choice(2, n, p=[0.5, 0.5])
        chances = np.where(places[:, None] == 1, [1.0, 0.0], [0.5, 0.5])
        actions = (rng.random(n) < chances[:, 1]).astype(np.int64)
        logs = Trajectories(places[:, None], actions, rng.random(n), np.arange(n + 1), chances, 2)
        estimate = evaluate(Always(1 - share, share), logs)
        assert estimate.diagnostics.outside_share == pytest.approx(share * (places == 1).mean())
        assert ("were never made in similar cases" in " ".join(estimate.reasons)) == (share > 0)
        assert estimate.verdict == ("caution" if share else "trust")
        bounded = evaluate(Always(1 - share, share), logs, bounds=Bounds(0.0, 1.0))
        assert bounded.diagnostics.outside_share == estimate.diagnostics.outside_share
        assert "never made" not in " ".join(bounded.reasons)

    def test_evaluate_tells_where_only_the_taken_actions_propensities_are_known(self) -> None:
        """An object with `probabilities` alone: 0.84 of its weight is there, and a model finds where the rest is."""
        rng = np.random.default_rng(0)
        n = 1500
        contexts = rng.normal(size=(n, 2)).astype(np.float32)
        chances = np.where(contexts[:, :1] > 1, [1.0, 0.0], [0.7, 0.3])
        actions = (rng.random(n) < chances[:, 1]).astype(np.int64)
        logs = Trajectories(contexts, actions, rng.random(n), np.arange(n + 1), chances[np.arange(n), actions], 2)
        always = evaluate(Always(0.0, 1.0), logs)
        assert always.diagnostics.mean_weight == pytest.approx(0.84, abs=0.06)
        assert always.diagnostics.outside_share == pytest.approx((contexts[:, 0] > 1).mean(), abs=0.03)
        assert "the mean weight is" in " ".join(always.reasons)
        assert "were never made in similar cases" in " ".join(always.reasons)
        assert always.verdict == "do not trust"
        never = evaluate(Always(1.0, 0.0), logs)
        assert (never.verdict, never.diagnostics.outside_share) == ("trust", 0.0)
