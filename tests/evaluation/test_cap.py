"""A cap of returns: by hand, and what no value beyond it can change."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.core.errors import InputError
from poela.core.typed import from_plain, to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import UNSURE, Beyond, Cap, beyond_cap, capped
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence
from poela.evaluation.scoring import Scoring
from poela.stats.bounds import Bounds
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import LogWeights


class Treat:
    """The second action in 80% of cases."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.tile([0.2, 0.8], (len(contexts), 1))


def one_step(returns: np.ndarray, seed: int = 0) -> Trajectories:
    n = len(returns)
    actions = np.random.default_rng(seed).integers(0, 2, n)
    return Trajectories(np.zeros((n, 1)), actions, returns, np.arange(n + 1), propensities=np.full((n, 2), 0.5))


def test_a_share_is_the_quantile_on_both_sides() -> None:
    returns = np.random.default_rng(0).permutation(np.arange(1000.0))
    cap = Cap.of(0.99)
    assert cap is not None
    # 990 of 1000 returns are at most 989, and 990 at least 10.
    assert cap.known(returns) == Cap(10.0, 989.0, 0.99)
    assert cap.known(returns).known(returns + 5) == Cap(10.0, 989.0, 0.99)  # looked up once
    assert Cap(0.0, 1.0).known(returns) == Cap(0.0, 1.0)


@pytest.mark.parametrize(
    "asked", [0.5, 1.0, 0.0, 99, -0.9, (1, 0), (0, 0), (0.0, float("inf")), (1, 2, 3), "0.99", True]
)
def test_a_cap_that_is_none_is_refused(asked: object) -> None:
    with pytest.raises(
        InputError, match=r"^cap is .*: it must be a share above 0.5 and below 1 \(0.99\), or two values"
    ):
        Scoring(cap=asked)  # type: ignore[arg-type]


def test_a_cap_that_leaves_all_returns_alike_is_refused() -> None:
    mostly_nothing = np.append(np.zeros(999), -500.0)
    with pytest.raises(InputError, match=r"cap is 0.99, which leaves all 1000 returns alike: give a share nearer to 1"):
        evaluate(Treat(), one_step(mostly_nothing), cap=0.99)


def test_settings_without_a_cap_are_written_as_before() -> None:
    assert "cap" not in to_plain(Scoring())
    scoring = Scoring(cap=Cap(-3.0, 4.0, 0.99))
    assert from_plain(Scoring, to_plain(scoring), "scoring") == scoring
    assert from_plain(Scoring, to_plain(Scoring()), "scoring").cap is None


@pytest.mark.parametrize("discount", [1.0, 0.9, 0.0])
def test_capped_episodes_have_capped_returns_and_no_reward_looks_ahead(discount: float) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 8, 200)
    offsets = np.append(0, np.cumsum(lengths))
    rewards = rng.standard_t(2, offsets[-1])
    logs = Trajectories(np.zeros((offsets[-1], 1)), np.zeros(offsets[-1], int), rewards, offsets)
    cap = Cap(-2.0, 3.0)
    found = capped(logs, cap, discount)
    np.testing.assert_allclose(found.returns(discount), np.clip(logs.returns(discount), -2.0, 3.0), atol=1e-12)
    assert np.array_equal(capped(found, cap, discount).returns(discount), found.returns(discount))
    changed = np.array(rewards)
    last = offsets[1:] - 1
    changed[last] += 50.0
    earlier = np.setdiff1d(np.arange(offsets[-1]), last)
    other = capped(replace(logs, rewards=changed), cap, discount)
    np.testing.assert_array_equal(other.rewards[earlier], found.rewards[earlier])


def test_a_reward_at_a_step_that_counts_nothing_stays() -> None:
    logs = Trajectories(np.zeros((3, 1)), np.zeros(3, int), [9.0, 9.0, 9.0], [0, 3])
    assert capped(logs, Cap(0.0, 5.0), discount=0.0).rewards.tolist() == [5.0, 9.0, 9.0]
    assert capped(logs, Cap(0.0, 20.0), discount=0.0) is logs


def test_the_estimate_is_that_of_clipped_returns() -> None:
    logs = one_step(np.random.default_rng(2).standard_t(1.5, 400))
    plain = evaluate(Treat(), replace(logs, rewards=np.clip(logs.rewards, -2.0, 3.0)))
    found = evaluate(Treat(), logs, cap=(-2, 3))
    assert (found.value, found.low, found.high, found.gain) == (plain.value, plain.low, plain.high, plain.gain)
    assert "(returns capped to [-2.00, 3.00])" in str(found)
    assert plain.beyond is None
    assert found.beyond is not None
    assert found.beyond.logged == (float(np.mean(logs.rewards < -2)), float(np.mean(logs.rewards > 3)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(1.0, 1e6), share=st.sampled_from([0.9, 0.95, 0.99]))
def test_no_value_beyond_the_cap_changes_what_is_claimed(seed: int, factor: float, share: float) -> None:
    returns = np.random.default_rng(seed).standard_t(2, 200)
    cap = Cap(share=share).known(returns)
    assert cap.lowest is not None
    assert cap.highest is not None
    far = np.where(returns > cap.highest, cap.highest + factor * (returns - cap.highest), returns)
    far = np.where(returns < cap.lowest, cap.lowest - factor * (cap.lowest - returns), far)
    first, second = (evaluate(Treat(), one_step(each, seed), cap=share) for each in (returns, far))
    assert to_plain(first) == to_plain(second)


def test_what_lies_beyond_is_bounded_by_the_declared_range() -> None:
    """Equal weights and 5 of 200 below: the exact upper end of a binomial share, within what mid-p leaves."""
    from scipy.stats import beta

    returns = np.append(np.full(5, -90.0), np.linspace(-1, 1, 195))
    evidence = Evidence(LogWeights(np.zeros(200), np.arange(201)), one_step(returns))
    found = beyond_cap(Cap(-2.0, 2.0), returns, evidence, Bounds(-100.0, 2.0))
    assert found.logged == found.policy == (0.025, 0.0)
    exact = float(beta.ppf(1 - UNSURE, 6, 195))
    assert found.lost is not None
    assert 0.85 * exact * 98 < found.lost < 1.1 * exact * 98
    leaving = replace(evidence, outside=OutsideSupport(0.1, 0.1))
    wider = beyond_cap(Cap(-2.0, 2.0), returns, leaving, Bounds(-100.0, 12.0))
    # A tenth more of the policy's episodes at the lowest, and the rule of three (at 99%: 4.6) for those above.
    assert wider.lost is not None
    assert wider.lost == pytest.approx(found.lost + 0.1 * 98 + 10 * 4.6 / 200, rel=0.03)
    assert beyond_cap(Cap(-2.0, 2.0), returns, evidence).lost is None
    estimated = replace(evidence, logs=replace(one_step(returns), estimated=True))
    assert beyond_cap(Cap(-2.0, 2.0), returns, estimated, Bounds(-100.0, 2.0)).lost is None


def test_words_say_what_is_left_without_the_cap() -> None:
    beyond = Beyond(Cap(-50.0, 0.0), (0.01, 0.0), (0.004, 0.0), lost=0.5)
    assert "without the cap at least +1.50 (93%)" in beyond.in_words(least=2.0)
    assert "without the cap none is shown" in beyond.in_words(least=0.4)
    assert "is not bounded" in replace(beyond, lost=None).in_words(least=2.0)


def test_bounds_are_those_of_returns_without_the_cap() -> None:
    logs = one_step(np.random.default_rng(3).standard_t(2, 300))
    wide = Bounds(-1000.0, 1000.0)
    found = evaluate(Treat(), logs, cap=(-2, 3), bounds=wide)
    same = evaluate(Treat(), replace(logs, rewards=np.clip(logs.rewards, -2, 3)), bounds=Bounds(-2.0, 3.0))
    assert (found.low, found.high) == (same.low, same.high)
    with pytest.raises(InputError, match="returns outside of -2 to 3"):
        evaluate(Treat(), logs, cap=(-2, 3), bounds=Bounds(-2.0, 3.0))
