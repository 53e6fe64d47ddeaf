"""Bootstrap intervals against SciPy, slow loops and counting by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.stats.bootstrap import Resampled, bca, bca_ends, drawn_episodes, percentile, resample, studentised
from poela.stats.bounds import Interval, Sample, in_clusters
from poela.stats.contributions import Contributions
from poela.stats.intervals import intervals_of


def weighted(n: int = 80, ratios: int = 1, seed: int = 0) -> Contributions:
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(size=(n, ratios))
    return Contributions(weights * rng.normal(1.0, 1.0, size=(n, ratios)), weights)


def one_interval(name: str, contributions: Contributions, clusters: IntArray | None = None) -> Interval:
    [interval] = intervals_of(name, Sample(in_clusters(contributions, clusters), resamples=500), [0.95])
    return interval


def same_draws(n: int, resamples: int, seed: int) -> IntArray:
    return drawn_episodes(n, (resamples, n), np.random.default_rng(seed))


def scipy_ends(
    contributions: Contributions, level: float, method: str, resamples: int, seed: int
) -> tuple[float, float]:
    """SciPy's interval, from the same resamples, with SciPy's own jackknife and formulas."""
    columns = [*contributions.numerators.T, *contributions.denominators.T]
    ratios = len(columns) // 2

    def statistic(*data: FloatArray, axis: int = -1) -> Any:
        return sum(data[k].sum(axis) / data[ratios + k].sum(axis) for k in range(ratios))

    draws = same_draws(contributions.n_episodes, resamples, seed)
    distribution = statistic(*(column[draws] for column in columns))
    options: Any = {
        "n_resamples": 0,
        "bootstrap_result": SimpleNamespace(bootstrap_distribution=distribution),
        "method": method,
    }
    found = stats.bootstrap(
        columns,
        statistic,
        paired=True,
        vectorized=True,
        confidence_level=level,
        **options,
    )
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("ratios", [1, 3])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bca_and_percentile_are_scipys_on_the_same_resamples(ratios: int, level: float) -> None:
    contributions = weighted(ratios=ratios)
    sample = Sample(contributions, seed=7, resamples=999)
    for method, [ours] in (("BCa", bca(sample, [level])), ("percentile", percentile(sample, [level]))):
        expected = scipy_ends(contributions, level, method, 999, seed=7)
        assert (ours.low, ours.high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [7, 1000])
def test_every_episode_is_drawn_equally_often(n: int) -> None:
    draws = drawn_episodes(n, (400_000 // n, n), np.random.default_rng(1))
    counts = np.bincount(draws.ravel(), minlength=n)
    assert len(counts) == n
    assert stats.chisquare(counts).pvalue > 0.001


def test_resamples_do_not_depend_on_how_many_are_drawn_together() -> None:
    contributions = weighted(ratios=2)
    few = resample(contributions, 37, seed=3, standard_errors=True)
    many = resample(contributions, 100, seed=3, standard_errors=True)
    assert np.array_equal(few.values, many.values[:37])
    assert np.array_equal(few.standard_errors, many.standard_errors[:37])
    assert not np.array_equal(few.values, resample(contributions, 37, seed=4).values)


def test_episodes_in_a_row_may_be_drawn_together() -> None:
    contributions = Contributions.mean(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]))
    pairs = resample(contributions, 200, seed=0, size=2, together=2)  # of seven, the last is left out
    assert set(np.round(pairs.values, 9)) == {1.5, 6.0, 24.0}
    odd = resample(contributions, 500, seed=0, size=3, together=2)
    assert set(np.round(3 * odd.values, 9)) == {pair + one for pair in (3.0, 12.0, 48.0) for one in (1.0, 4.0, 16.0)}


def test_sums_of_groups_are_those_of_their_episodes() -> None:
    contributions = weighted(n=31, ratios=1)
    drawn = resample(contributions, 40, seed=5, size=11, together=3, standard_errors=True)
    for index, groups in enumerate(drawn_episodes(10, (40, 4), np.random.default_rng(5))):
        episodes = (3 * groups[:, None] + np.arange(3)).ravel()[:11]
        numerators, denominators = contributions.numerators[episodes, 0], contributions.denominators[episodes, 0]
        value = numerators.sum() / denominators.sum()
        residuals = (numerators - value * denominators) / denominators.sum()
        assert drawn.values[index] == pytest.approx(value, rel=1e-12)
        assert drawn.standard_errors[index] == pytest.approx(np.sqrt((residuals**2).sum()), rel=1e-9)


def test_groups_without_spread_have_no_error() -> None:
    weights = np.repeat([0.0, 0.3, 0.0], 100)  # a resample has episodes of one weight alone, whatever that brings
    drawn = resample(
        Contributions.ratio(0.7 * weights + 1e-9 * (weights > 0), weights), 50, 0, together=3, standard_errors=True
    )
    assert np.nanmax(drawn.standard_errors) == 0.0


def test_drawn_together_or_apart_the_errors_are_distributed_alike() -> None:
    returns = np.random.default_rng(3).exponential(size=60_000)
    apart, together = (
        resample(Contributions.mean(returns), 4000, seed=1, size=40, together=number, standard_errors=True)
        for number in (1, 4)
    )
    for one, other in ((apart.values, together.values), (apart.standard_errors, together.standard_errors)):
        assert stats.ks_2samp(one, other).pvalue > 0.001


def test_standard_errors_are_those_of_each_resample() -> None:
    contributions = weighted(n=30, ratios=2)
    drawn = resample(contributions, 20, seed=1, standard_errors=True)
    for index, episodes in enumerate(same_draws(30, 20, seed=1)):
        numerators, denominators = contributions.numerators[episodes], contributions.denominators[episodes]
        ratios = numerators.sum(axis=0) / denominators.sum(axis=0)
        influence = ((numerators - ratios * denominators) / denominators.sum(axis=0)).sum(axis=1)
        assert drawn.values[index] == pytest.approx(ratios.sum(), rel=1e-12)
        assert drawn.standard_errors[index] == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-9)


def test_studentised_is_the_textbook_bootstrap_t() -> None:
    contributions = weighted(n=40)
    [interval] = studentised(Sample(contributions, seed=2, resamples=500), [0.9])
    weights, values = (
        contributions.denominators[:, 0],
        contributions.numerators[:, 0] / contributions.denominators[:, 0],
    )

    def estimate(w: FloatArray, x: FloatArray) -> tuple[float, float]:
        center = float((w * x).sum() / w.sum())
        return center, float(np.sqrt((w**2 * (x - center) ** 2).sum()) / w.sum())

    center, error = estimate(weights, values)
    pairs = [estimate(weights[episodes], values[episodes]) for episodes in same_draws(40, 500, seed=2)]
    low, high = np.quantile([(value - center) / spread for value, spread in pairs], [0.05, 0.95])
    assert (interval.low, interval.high) == pytest.approx((center - high * error, center - low * error), abs=1e-9)


def test_all_resamples_on_one_side_still_give_ends_within_them() -> None:
    values = np.linspace(1.0, 2.0, 50)
    for center in (0.0, 3.0):
        ends = bca_ends(Resampled(values, np.zeros(50)), center, np.array([0.0, 1.0, 0.2]), 0.95)
        assert all(1.0 <= end <= 2.0 for end in ends)


def test_strong_acceleration_reaches_the_end_of_the_distribution() -> None:
    values = np.linspace(0.0, 1.0, 101)
    leave_one_out = np.append(np.zeros(3), -1.0)  # skewed so strongly that the map has its pole within the level
    low, high = bca_ends(Resampled(values, np.zeros(101)), 0.9, leave_one_out, 0.999)
    assert low <= high == 1.0


def test_resamples_without_weight_are_counted() -> None:
    weights = np.array([0.0, 0.0, 0.0, 2.0])
    contributions = Contributions.ratio(weights * 5.0, weights)
    [interval] = percentile(Sample(contributions, seed=5, resamples=400), [0.9])
    empty = sum(3 not in episodes for episodes in same_draws(4, 400, seed=5))
    assert interval.undefined_resamples == empty > 0
    assert (interval.low, interval.high) == (5.0, 5.0)


def test_no_weight_at_all_is_an_error() -> None:
    nothing = Contributions.ratio(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="only zero weights"):
        percentile(Sample(nothing, resamples=10), [0.95])


def test_one_episode_with_all_the_weight_has_no_jackknife_value() -> None:
    weights = np.array([0.0] * 9 + [1.0])
    [interval] = bca(Sample(Contributions.ratio(weights * 2.0, weights), resamples=200), [0.95])
    assert (interval.low, interval.high) == (2.0, 2.0)


def test_clusters_of_one_change_nothing() -> None:
    contributions = weighted()
    alone = one_interval("bca", contributions)
    named = one_interval("bca", contributions, np.arange(80) * 3)
    assert alone == named


def test_copies_of_an_episode_in_one_cluster_count_once() -> None:
    contributions = weighted(n=60)
    copies = Contributions(
        np.repeat(contributions.numerators, 4, axis=0), np.repeat(contributions.denominators, 4, axis=0)
    )
    patients = np.repeat(np.arange(60), 4)
    once = one_interval("percentile", contributions)
    clustered = one_interval("percentile", copies, patients)
    naive = one_interval("percentile", copies)
    assert (clustered.low, clustered.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert naive.width == pytest.approx(once.width / 2, rel=0.15)


def test_clusters_must_name_every_episode() -> None:
    with pytest.raises(InputError, match="names 3 episodes; there are 80"):
        in_clusters(weighted(), np.arange(3))
    with pytest.raises(InputError, match="at least 2 independent episodes"):
        one_interval("bca", weighted(), np.zeros(80, np.int64))


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Sample(weighted(n=1), resamples=0)
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError) as caught:
        intervals_of("hoeffding", Sample(weighted(ratios=2)), [95.0, 0.0])
    assert len(caught.value.problems) == 4
