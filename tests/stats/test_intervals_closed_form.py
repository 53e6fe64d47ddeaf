"""Intervals without resampling, against formulas worked out here and SciPy's root finder."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, minimize

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.stats.bounds import Bounds, Sample, degrees_of_freedom, normal, student
from poela.stats.contributions import Contributions
from poela.stats.intervals import (
    INTERVALS,
    empirical_bernstein,
    empirical_likelihood,
    empirical_likelihood_moment,
    hoeffding,
    intervals_of,
    log_likelihood_ratio,
)


def weighted(n: int = 60, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.lognormal(-0.5, 1.0, size=n), rng.normal(size=n)


def ratio(weights: FloatArray, returns: FloatArray) -> Contributions:
    return Contributions.ratio(weights * returns, weights)


UNIT = Bounds(0.0, 1.0, largest_weight=4.0)


@pytest.mark.parametrize("name", [name for name in INTERVALS if name not in ("el_moment", "refit")])
def test_equal_returns_leave_nothing_to_be_uncertain_of(name: str) -> None:
    weights = np.random.default_rng(1).lognormal(size=200).clip(max=4.0)
    needs_bounds = "bounds" in INTERVALS[name].needs
    sample = Sample(ratio(weights, np.full(200, 0.3)), resamples=200, bounds=UNIT if needs_bounds else None)
    [interval] = intervals_of(name, sample, [0.95])
    if needs_bounds:  # bounds for the worst case know nothing of equal returns
        assert interval.low <= 0.3 <= interval.high
    else:
        assert (interval.low, interval.high) == pytest.approx((0.3, 0.3), abs=1e-14)


def test_normal_is_owens_formula() -> None:
    weights, returns = weighted()
    value = (weights * returns).sum() / weights.sum()
    error = np.sqrt((weights**2 * (returns - value) ** 2).sum()) / weights.sum()
    [interval] = normal(Sample(ratio(weights, returns)), [0.9])
    assert (interval.low, interval.high) == pytest.approx(
        (value - 1.6448536 * error, value + 1.6448536 * error), abs=1e-7
    )


def test_student_has_the_degrees_of_freedom_of_the_variance_estimate() -> None:
    values = np.array([10.0, -2.0, -2.0, -2.0, -2.0, -2.0])
    squares = values**2
    # Satterthwaite: 2 · (mean square)² / variance of the mean square.
    expected = 2 * squares.mean() ** 2 / (((squares - squares.mean()) ** 2).mean() / len(values))
    assert degrees_of_freedom(values) == pytest.approx(expected, rel=1e-12)
    [interval] = student(Sample(Contributions.mean(values)), [0.95])
    assert interval.high == pytest.approx(stats.t.ppf(0.975, expected) * values.std() / np.sqrt(6), rel=1e-9)


def test_equal_squares_know_their_variance_as_well_as_so_many_units_can() -> None:
    # Then only the number of units limits what is known.
    assert degrees_of_freedom(np.array([1.0, -1.0, 1.0])) == 2
    assert degrees_of_freedom(np.zeros(3)) == 2
    assert degrees_of_freedom(np.array([1.0, -1.0, 3.0, -3.0, 0.5, -0.5])) == 5  # 8.9 by the match alone


def one_constraint(z: FloatArray) -> float:
    """The dual of empirical likelihood with one constraint, by SciPy's root finder."""
    n = len(z)
    low, high = (1 / n - 1) / z.max(), (1 / n - 1) / z.min()
    multiplier = brentq(lambda m: (z / (1 + m * z)).sum(), low * (1 - 1e-12), high * (1 - 1e-12), xtol=1e-15)
    return float(2 * np.log1p(multiplier * z).sum())


@pytest.mark.parametrize("seed", range(5))
def test_empirical_likelihood_is_that_of_a_root_finder(seed: int) -> None:
    weights, returns = weighted(seed=seed)
    contributions = ratio(weights, returns)
    value = contributions.value + 0.1
    assert log_likelihood_ratio(contributions, value) == pytest.approx(
        one_constraint(weights * (returns - value)), rel=1e-9
    )
    [interval] = empirical_likelihood(Sample(contributions), [0.9])
    for end in (interval.low, interval.high):
        assert one_constraint(weights * (returns - end)) == pytest.approx(stats.chi2.ppf(0.9, 1), rel=1e-6)


def test_empirical_likelihood_with_the_moment_condition() -> None:
    weights, returns = weighted(n=40, seed=3)
    contributions = ratio(weights, returns)
    value = contributions.value + 0.2

    def negative(multipliers: FloatArray) -> float:
        inside = 1 + multipliers[0] * weights * (returns - value) + multipliers[1] * (weights - 1)
        return np.inf if (inside <= 1e-8).any() else float(-np.log(inside).sum())

    both = minimize(negative, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    expected = -2 * both.fun - one_constraint(weights - 1)
    assert log_likelihood_ratio(contributions, value, moment=True) == pytest.approx(expected, rel=1e-7)
    [interval] = empirical_likelihood_moment(Sample(contributions), [0.9])
    for end in (interval.low, interval.high):
        assert log_likelihood_ratio(contributions, end, moment=True) == pytest.approx(stats.chi2.ppf(0.9, 1), rel=1e-6)


def test_values_beyond_every_return_have_no_likelihood() -> None:
    weights, returns = weighted()
    contributions = ratio(weights, returns)
    assert log_likelihood_ratio(contributions, returns.max() + 0.1) == np.inf
    [interval] = empirical_likelihood(Sample(contributions), [0.999999])
    assert returns.min() <= interval.low
    assert interval.high <= returns.max()


def test_the_moment_condition_is_refused_where_it_cannot_hold() -> None:
    weights, returns = weighted()
    with pytest.raises(InputError, match="average 1"):
        empirical_likelihood_moment(Sample(ratio(weights + 1.1, returns)), [0.95])
    with pytest.raises(InputError, match="self-normalised"):
        empirical_likelihood_moment(Sample(Contributions.mean(returns)), [0.95])


def test_hoeffding_is_the_textbook_bound_and_shrinks_with_episodes() -> None:
    coins = np.array([0.0, 1.0] * 50)
    certain = Bounds(0.0, 1.0, largest_weight=1.0)
    reach = np.sqrt(np.log(2 / 0.05) / 200)
    [interval] = hoeffding(Sample(Contributions.mean(coins), bounds=certain), [0.95])
    assert (interval.low, interval.high) == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-9)
    [more] = hoeffding(Sample(Contributions.mean(np.tile(coins, 4)), bounds=certain), [0.95])
    assert more.width == pytest.approx(interval.width / 2, rel=1e-9)


def test_bernstein_is_theorem_4_of_maurer_and_pontil() -> None:
    returns = np.random.default_rng(0).beta(2, 50, size=400)
    log_term = np.log(4 / 0.1)
    reach = np.sqrt(2 * returns.var(ddof=1) * log_term / 400) + 7 * log_term / (3 * 399)
    [interval] = empirical_bernstein(Sample(Contributions.mean(returns), bounds=Bounds(0.0, 1.0, 1.0)), [0.9])
    assert interval.high == pytest.approx(returns.mean() + reach, abs=1e-9)
    assert interval.low == pytest.approx(max(0.0, returns.mean() - reach), abs=1e-9)


def test_self_normalised_bounds_invert_the_mean_of_w_times_return_minus_value() -> None:
    weights = np.array([0.5, 1.5, 2.0, 0.0] * 2000)
    returns = np.array([0.0, 1.0, 0.5, 1.0] * 2000)
    [interval] = hoeffding(Sample(ratio(weights, returns), bounds=UNIT), [0.95])
    reach = 4.0 * np.sqrt(np.log(2 / 0.05) / 16_000) / weights.mean()
    value = (weights * returns).sum() / weights.sum()
    assert (interval.low, interval.high) == pytest.approx((value - reach, value + reach), abs=1e-9)


def test_bounds_that_the_log_breaks_are_refused() -> None:
    weights, returns = weighted()
    with pytest.raises(InputError, match="outside the bounds"):
        hoeffding(Sample(ratio(weights, returns), bounds=UNIT), [0.95])
    with pytest.raises(InputError, match="outside the bounds"):
        hoeffding(Sample(ratio(np.full(60, 5.0) + weights, np.full(60, 0.5)), bounds=UNIT), [0.95])
    with pytest.raises(InputError, match="needs bounds"):
        intervals_of("empirical_bernstein", Sample(ratio(weights, returns)), [0.95])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="'t' is unknown: choose one of recombined"):
        intervals_of("t", Sample(Contributions.mean(np.array([0.0, 1.0]))), [0.95])
