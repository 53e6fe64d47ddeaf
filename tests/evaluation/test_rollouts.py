"""True values by roll-outs, and comparisons on common random numbers."""

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.evaluation.rollouts import TrueValue, compare, true_value
from poela.simulators.episodes import ROLL_OUTS, run
from poela.simulators.tumor import Schedule, TumorBehavior, TumorGrowth

FIVE, NINE = Schedule.first_months(5), Schedule.first_months(9)


def test_mean_and_standard_error_by_hand() -> None:
    value = TrueValue.mean_of(np.array([1.0, 2.0, 3.0, 6.0]))
    assert (value.value, value.n_episodes) == (3.0, 4)
    assert value.standard_error == pytest.approx(np.sqrt(14 / 3 / 4), rel=1e-12)


def test_the_standard_error_covers_the_known_value() -> None:
    truth = -4.36  # nine months, measured elsewhere on 20,000 roll-outs, ± 0.01
    values = [true_value(NINE, TumorGrowth(), episodes=200, seed=seed) for seed in range(40)]
    scores = np.array([(value.value - truth) / value.standard_error for value in values])
    assert np.mean(np.abs(scores) < 1.96) > 0.8
    assert 0.7 < scores.std() < 1.4


def test_the_batch_size_does_not_matter() -> None:
    whole = true_value(TumorBehavior(), TumorGrowth(), episodes=300, seed=1)
    assert true_value(TumorBehavior(), TumorGrowth(), episodes=300, seed=1, batch=64) == whole


def test_discounting_is_that_of_returns() -> None:
    logs = run(TumorGrowth(), FIVE, 200, seed=(3, ROLL_OUTS))
    value = true_value(FIVE, TumorGrowth(), episodes=200, seed=3, discount=0.9)
    steps = np.arange(30)
    assert value.value == pytest.approx((logs.rewards.reshape(200, 30) * 0.9**steps).sum(axis=1).mean(), rel=1e-12)


@pytest.mark.parametrize("seed", [3, (3, 0), (3, 1), (3, 2), (3, 3)])
def test_roll_outs_meet_other_patients_than_any_part_of_logs_with_the_same_seed(seed: int | tuple[int, int]) -> None:
    logs = run(TumorGrowth(), FIVE, 200, seed=seed)
    assert true_value(FIVE, TumorGrowth(), episodes=200, seed=3).value != logs.returns().mean()


def test_common_random_numbers_sharpen_differences() -> None:
    both = compare({"five": FIVE, "nine": NINE}, TumorGrowth(), episodes=2000, seed=0)
    assert both.value("five") == true_value(FIVE, TumorGrowth(), episodes=2000, seed=0)
    difference = both.difference("five", "nine")
    assert abs(difference.value - (2.92 + 4.36)) < 4 * np.hypot(difference.standard_error, 0.0125)
    apart = np.hypot(both.value("five").standard_error, both.value("nine").standard_error)
    assert difference.standard_error < apart / 2


def test_equal_policies_do_not_differ_at_all() -> None:
    both = compare({"one": TumorBehavior(), "two": TumorBehavior()}, TumorGrowth(), episodes=100)
    assert both.difference("one", "two") == TrueValue(0.0, 0.0, 100)


def test_one_roll_out_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2"):
        true_value(FIVE, TumorGrowth(), episodes=1)
